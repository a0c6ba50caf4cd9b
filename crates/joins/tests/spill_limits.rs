//! Joins in a process that reaches a limit or is killed while rows are spilled: the error names the place,
//! and nothing remains of what was spilled.
//!
//! Each test runs this program again, as a child with the limit: the variable `HALOCLINE_CHILD` names its
//! directory.
#![cfg(target_os = "linux")]

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch};
use halocline_columns::ColumnsError;
use halocline_joins::equi::{
    Algorithm, BatchSource, EquiJoin, FileSpillSpace, JoinBudget, JoinContext, JoinKind, PoolSpillSpace,
    SpillSpace,
};
use halocline_joins::{JoinError, JoinResult};
use halocline_pool::{Pool, PoolError, PoolOptions};

const CHILD: &str = "HALOCLINE_CHILD";
const ROWS: i64 = 1_300_000;
const MEMORY: usize = 1 << 20;
const SPILLING: [Algorithm; 3] = [
    Algorithm::Hybrid,
    Algorithm::Grace,
    Algorithm::Segmented { parts: 4, spilled: 3 },
];

fn source(factor: i64) -> BatchSource {
    let batch = |from: i64| {
        let keys = (from..(from + 8192).min(ROWS)).map(|row| row * factor % ROWS);
        let key: ArrayRef = Arc::new(keys.collect::<Int64Array>());
        // Numbers that do not become shorter.
        let payload = key.len() as i64;
        let payloads = (from..from + payload).map(|row| row.wrapping_mul(0x5851_F42D_4C95_7F2D));
        let payload: ArrayRef = Arc::new(payloads.collect::<Int64Array>());
        RecordBatch::try_from_iter([("key", key), ("payload", payload)]).unwrap()
    };
    let batches: Vec<_> = (0..ROWS).step_by(8192).map(batch).collect();
    BatchSource::new(batches[0].schema(), batches)
}

/// Joins more rows than fit the memory, and calls `each` before each batch. Returns the number of pairs.
fn join(algorithm: Algorithm, spill: &dyn SpillSpace, each: &(dyn Fn() + Sync)) -> JoinResult<u64> {
    let cancelled = AtomicBool::new(false);
    let context = JoinContext {
        threads: NonZeroUsize::new(2).unwrap(),
        budget: JoinBudget::new(MEMORY),
        spill,
        writers: NonZeroUsize::MIN,
        cancelled: &cancelled,
    };
    let join = EquiJoin::new(JoinKind::Inner, vec![0], vec![0]).with_output(vec![1], vec![1]);
    let pairs = AtomicU64::new(0);
    let result = join.run(algorithm, &source(7919), &source(1), &context, &|batch| {
        each();
        pairs.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        Ok(())
    });
    assert_eq!(context.budget.used(), 0, "memory is given back");
    result.map(|()| pairs.into_inner())
}

/// Returns the directory if this process is a child.
fn as_child() -> Option<PathBuf> {
    env::var_os(CHILD).map(PathBuf::from)
}

/// Returns the command that runs a test of this program as a child, after some commands of a shell.
fn child(test: &str, directory: &Path, before: &str) -> Command {
    let program = env::current_exe().unwrap();
    let script = format!("{before} exec {} --exact {test} --nocapture", program.display());
    let mut command = Command::new("bash");
    command.args(["-c", &script]).env(CHILD, directory);
    command
}

fn create_pool(directory: &Path) -> Pool {
    Pool::create(directory.join("joins.pool"), &PoolOptions::default()).unwrap()
}

/// Files are limited to 8 MiB, and reaching the limit is an error instead of a signal.
#[test]
fn a_full_directory_and_a_full_pool_end_the_join() {
    let Some(directory) = as_child() else {
        let directory = tempfile::tempdir().unwrap();
        let limited = "trap '' XFSZ; ulimit -f 8192;";
        let test = "a_full_directory_and_a_full_pool_end_the_join";
        let output = child(test, directory.path(), limited).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
        return;
    };
    let pool = create_pool(&directory);
    let info = |pool: &Pool| pool.info().unwrap();
    let used = info(&pool).used;
    let files = || fs::read_dir(&directory).unwrap().count();
    let before = files();
    for algorithm in SPILLING {
        let spill = FileSpillSpace::new(&directory);
        let error = join(algorithm, &spill, &|| ()).unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(
                error,
                JoinError::Spill {
                    operation: "write",
                    ..
                }
            ),
            "{text}"
        );
        let place = directory.display().to_string();
        assert!(
            text.starts_with(&place) && text.contains("free space there"),
            "{text}"
        );
        drop(spill);
        assert_eq!(files(), before, "{algorithm:?}");

        let txn = pool.begin().unwrap();
        let spill = PoolSpillSpace::new(&txn, place);
        let error = join(algorithm, &spill, &|| ()).unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(
                error,
                JoinError::Columns(ColumnsError::Pool(PoolError::DiskFull { .. }))
            ),
            "{text}"
        );
        assert!(text.contains("joins.pool"), "{text}");
        drop(spill);
        drop(txn);
        assert_eq!(info(&pool).used, used, "{algorithm:?}");
    }
    // The pool goes on.
    let txn = pool.begin().unwrap();
    assert_eq!(txn.scratch(4096).unwrap().len(), 4096);
}

#[test]
fn spill_space_in_a_pool_is_free_after_a_kill() {
    let Some(directory) = as_child() else {
        let directory = tempfile::tempdir().unwrap();
        let used = create_pool(directory.path()).info().unwrap().used;
        for algorithm in [1, 0, 2] {
            let before = format!("export ALGORITHM={algorithm};");
            let mut child = child(
                "spill_space_in_a_pool_is_free_after_a_kill",
                directory.path(),
                &before,
            )
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let spilled = lines
                .map(Result::unwrap)
                .any(|line| line.contains("rows are spilled"));
            assert!(spilled, "the child ended by itself");
            child.kill().unwrap();
            child.wait().unwrap();
            let pool = Pool::open(directory.path().join("joins.pool"), &PoolOptions::default()).unwrap();
            let info = pool.info().unwrap();
            assert_eq!((info.used, info.objects), (used, 0));
            assert!(info.free > MEMORY as u64, "the pool had grown: {info:?}");
            // Another join takes the same space. Of these, only Grace has spilled all rows when it returns
            // pairs.
            let txn = pool.begin().unwrap();
            let spill = PoolSpillSpace::new(&txn, "pool");
            assert_eq!(join(SPILLING[algorithm], &spill, &|| ()).unwrap(), ROWS as u64);
            drop(spill);
            drop(txn);
            let after = pool.info().unwrap();
            assert_eq!(after.used, used);
            assert!(
                SPILLING[algorithm] != Algorithm::Grace || after.len == info.len,
                "{info:?} {after:?}"
            );
        }
        return;
    };
    let algorithm: usize = env::var("ALGORITHM").unwrap().parse().unwrap();
    let pool = Pool::open(directory.join("joins.pool"), &PoolOptions::default()).unwrap();
    let txn = pool.begin().unwrap();
    let spill = PoolSpillSpace::new(&txn, "pool");
    // The first pairs of a join that spills everything come from spilled rows; then it waits to be killed.
    let wait = || {
        if spill.allocated() > 0 {
            writeln!(std::io::stdout(), "rows are spilled").unwrap();
            loop {
                std::thread::park();
            }
        }
    };
    let result = join(SPILLING[algorithm], &spill, &wait);
    panic!("the join ended: {result:?}");
}
