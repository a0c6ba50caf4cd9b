//! `kv`: the workloads of YCSB on a new store or tree.
//!
//! Invariant: nothing of it stays in the pool, however it ends, unless the process is killed.

use std::io::{self, BufWriter};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use halocline_bench::kv::{StoreTarget, TreeTarget};
use halocline_ordered::{HotIndex, HotIndexOptions, TreeError, create_tree};
use halocline_pool::{Pool, PoolOptions};
use halocline_store::Stores;
use halocline_terminal::interrupt::Guard;
use halocline_terminal::output::{Sink, Style};
use halocline_terminal::pools::{self, PATIENCE, patiently};
use halocline_terminal::size::grouped;
use halocline_terminal::{CliError, progress};
use halocline_workloads::{YcsbError, YcsbOutcome, YcsbPair, YcsbRun, YcsbStore, YcsbWorkload};

use crate::args::KvBenchArgs;

pub(super) fn run(bench: &KvBenchArgs) -> Result<(), CliError> {
    let workloads = workloads(bench)?;
    let guard = Guard::new();
    let options = PoolOptions::default().with_strict(bench.strict);
    let opened = pools::open_or_create(&bench.pool, &options, bench.medium.as_deref())?;
    let mut outcomes = vec![];
    let result = workloads.into_iter().try_for_each(|workload| {
        let run = YcsbRun {
            workload,
            records: bench.records,
            operations: bench.operations,
            threads: bench.threads,
            commit: bench.commit,
            value_bytes: bench.value_bytes as usize,
            seed: bench.seed,
        };
        outcomes.push((workload, measure(&opened.pool, bench, &run, guard.requested())?));
        Ok(())
    });
    opened.discard_if_new();
    result.and_then(|()| print(&outcomes, bench))
}

fn workloads(bench: &KvBenchArgs) -> Result<Vec<YcsbWorkload>, CliError> {
    let of = |letter: char| {
        let mut all = YcsbWorkload::ALL.into_iter();
        all.find(|workload| workload.letter() == letter.to_ascii_uppercase())
            .ok_or_else(|| CliError::Usage {
                message: format!("there is no workload `{letter}`"),
                hint: "--workloads takes letters from A to F, as ACF".to_owned(),
            })
    };
    bench.workloads.chars().map(of).collect()
}

/// Runs a workload on a store or tree of its own, which is removed then.
fn measure(
    pool: &Pool,
    bench: &KvBenchArgs,
    run: &YcsbRun,
    cancel: &AtomicBool,
) -> Result<YcsbOutcome, CliError> {
    let name = format!("kv-bench-{}", process::id());
    let Some(kind) = bench.tree else {
        let stores = patiently(|| Stores::open(pool))?;
        let store = stores.store(&name)?;
        let measured = on(StoreTarget::new(stores.clone(), store), run, cancel);
        stores.drop_store(&name)?;
        return measured;
    };
    // The prefix of the trees of `halocline kv`.
    let object = format!("tree/{name}");
    let mut tree = patiently(|| create_tree(pool, &object, kind))?;
    if let Some(bytes) = bench.hot {
        let options = HotIndexOptions::default().with_bytes(bytes);
        let index = HotIndex::new(tree, options)
            .map_err(|error| CliError::with_hint(error.to_string(), "--hot takes a size, as 64MiB"))?;
        tree = Box::new(index);
    }
    let measured = on(TreeTarget(tree), run, cancel);
    patiently(|| {
        let txn = pool.begin_wait(PATIENCE)?;
        txn.remove(&object)?;
        Ok::<_, TreeError>(txn.commit()?)
    })?;
    measured
}

fn on<T>(target: T, run: &YcsbRun, cancel: &AtomicBool) -> Result<YcsbOutcome, CliError>
where
    T: YcsbStore + Sync,
    CliError: From<T::Error>,
{
    let target = Cancellable { target, cancel };
    let bar = progress::steps(run.records);
    bar.set_message(format!("loading {} entries", grouped(run.records)));
    run.load(&target, |done| {
        bar.set_position(done);
        Ok(())
    })?;
    bar.finish_and_clear();
    let bar = progress::spinner(&format!("workload {}", run.workload.letter()));
    let outcome = run.run(&target).map_err(|error| match error {
        YcsbError::Store(error) => error,
        other => CliError::failed(other.to_string()),
    });
    bar.finish_and_clear();
    outcome
}

/// A target whose operations fail once Ctrl-C was pressed.
struct Cancellable<'a, T> {
    target: T,
    cancel: &'a AtomicBool,
}

impl<T> Cancellable<'_, T> {
    fn check(&self) -> Result<&T, CliError> {
        if self.cancel.load(Ordering::Relaxed) {
            Err(CliError::Interrupted)
        } else {
            Ok(&self.target)
        }
    }
}

impl<T: YcsbStore> YcsbStore for Cancellable<'_, T>
where
    CliError: From<T::Error>,
{
    type Error = CliError;

    fn read(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, CliError> {
        Ok(self.check()?.read(key, value)?)
    }

    fn write(&self, pairs: &[YcsbPair]) -> Result<(), CliError> {
        Ok(self.check()?.write(pairs)?)
    }

    fn scan(&self, from: &[u8], length: usize) -> Result<u64, CliError> {
        Ok(self.check()?.scan(from, length)?)
    }
}

fn print(outcomes: &[(YcsbWorkload, YcsbOutcome)], bench: &KvBenchArgs) -> Result<(), CliError> {
    let number = |name| Field::new(name, DataType::Float64, false);
    let schema = Arc::new(Schema::new(vec![
        Field::new("workload", DataType::Utf8, false),
        Field::new("operations_per_s", DataType::UInt64, false),
        number("p50_us"),
        number("p99_us"),
        number("p999_us"),
    ]));
    let column = |value: &dyn Fn(&YcsbOutcome) -> f64| -> ArrayRef {
        let rounded = outcomes
            .iter()
            .map(|(_, outcome)| (value(outcome) * 10.0).round() / 10.0);
        Arc::new(Float64Array::from_iter_values(rounded))
    };
    let percentile = |percent| move |outcome: &YcsbOutcome| outcome.percentile(percent) as f64 / 1e3;
    let letters = outcomes.iter().map(|(workload, _)| workload.letter().to_string());
    let rates = outcomes.iter().map(|(_, outcome)| outcome.rate as u64);
    let columns = vec![
        Arc::new(StringArray::from_iter_values(letters)) as ArrayRef,
        Arc::new(UInt64Array::from_iter_values(rates)),
        column(&percentile(50.0)),
        column(&percentile(99.0)),
        column(&percentile(99.9)),
    ];
    let style = Style::new(bench.output, 0);
    let mut sink = Sink::new(style, Arc::clone(&schema), BufWriter::new(io::stdout()));
    sink.write(&RecordBatch::try_new(schema, columns)?)?;
    sink.finish()
}
