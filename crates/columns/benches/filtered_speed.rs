//! Four decimals of TPC-H lineitem, decoded for the rows that a condition on another column selects, beside
//! the same without a condition.
//!
//! `cargo bench -p halocline-columns --bench filtered_speed`. `HALOCLINE_BENCH_SCALE` sets the scale factor
//! (0.1), `HALOCLINE_BENCH_FOLDER` the folder of the pool. The items are rows of the table, so that a rate says
//! what a row costs, selected or not.

use std::sync::LazyLock;

use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, RecordBatch};
use divan::Bencher;
use divan::counter::ItemsCount;
use halocline_columns::{CodePredicate, RowSelection, Segment, Table};
use halocline_workloads::TpchTable;

mod common;

fn main() {
    divan::main();
}

/// Rows of a morsel, and of a batch.
const MORSEL: usize = 65_536;
const BATCH: usize = 8192;

const DECIMALS: [&str; 4] = ["l_quantity", "l_extendedprice", "l_discount", "l_tax"];

/// Percentages of the rows that are selected; `None` without a condition.
const SELECTED: [Option<u64>; 6] = [None, Some(100), Some(99), Some(50), Some(10), Some(1)];

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let reader = TpchTable::Lineitem.reader(common::scale(), 0, 1);
    let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>().expect("generated rows");
    common::imported_table("lineitem", &batches)
});

fn column(name: &str) -> usize {
    TABLE.schema().index_of(name).expect("a column of lineitem")
}

/// Returns the condition `l_shipdate <= day` that this percentage of the rows satisfies.
fn condition(segment: &Segment, percent: Option<u64>) -> Vec<(usize, CodePredicate)> {
    let Some(percent) = percent else {
        return Vec::new();
    };
    let number = column("l_shipdate");
    let mut codes = Vec::new();
    let days = segment.column(number);
    days.read_codes(0..segment.rows(), &mut codes).expect("sound");
    codes.sort_unstable();
    let most = codes[(codes.len() - 1) * percent as usize / 100];
    // Zones decide what all rows satisfy: one row at least is left out.
    let most = most.min(codes[codes.len() - 1] - 1);
    vec![(number, CodePredicate::range(0, most))]
}

/// Calls `each` with the columns of every batch of the selected rows.
fn batches(segment: &Segment, predicates: &[(usize, CodePredicate)], mut each: impl FnMut(&dyn Array)) {
    for from in (0..segment.rows()).step_by(MORSEL) {
        let mut selection = RowSelection::default();
        let rows = from..segment.rows().min(from + MORSEL);
        segment
            .select_into(predicates, rows, &mut selection)
            .expect("sound");
        while !selection.is_empty() {
            let batch = selection.take_batch(BATCH);
            for name in DECIMALS {
                each(&segment.column(column(name)).decode(&batch).expect("sound"));
            }
        }
    }
}

#[divan::bench(args = SELECTED)]
fn decode(bencher: Bencher<'_, '_>, percent: Option<u64>) {
    let segment = &TABLE.segments()[0];
    let predicates = condition(segment, percent);
    bencher.counter(ItemsCount::new(segment.rows())).bench_local(|| {
        let mut values = 0;
        batches(segment, &predicates, |array| values += array.len());
        values
    });
}

#[divan::bench(args = SELECTED)]
fn sum(bencher: Bencher<'_, '_>, percent: Option<u64>) {
    let segment = &TABLE.segments()[0];
    let predicates = condition(segment, percent);
    bencher.counter(ItemsCount::new(segment.rows())).bench_local(|| {
        let mut sum = 0;
        batches(segment, &predicates, |array| {
            let decimals = array.as_primitive::<Decimal128Type>();
            sum += decimals.values().iter().sum::<i128>();
        });
        sum
    });
}

/// The way over a bitmap and the numbers of the rows, for comparison.
#[divan::bench(args = SELECTED)]
fn gather(bencher: Bencher<'_, '_>, percent: Option<u64>) {
    let segment = &TABLE.segments()[0];
    let predicates = condition(segment, percent);
    bencher.counter(ItemsCount::new(segment.rows())).bench_local(|| {
        let mut values = 0;
        for from in (0..segment.rows()).step_by(MORSEL) {
            let rows = from..segment.rows().min(from + MORSEL);
            let selected = segment.select(&predicates, rows).expect("sound");
            let rows: Vec<u32> = selected.iter().collect();
            for batch in rows.chunks(BATCH) {
                for name in DECIMALS {
                    values += segment.column(column(name)).gather(batch).expect("sound").len();
                }
            }
        }
        values
    });
}

/// Without batches of selected rows: ranges.
#[divan::bench]
fn scan(bencher: Bencher<'_, '_>) {
    let segment = &TABLE.segments()[0];
    bencher.counter(ItemsCount::new(segment.rows())).bench_local(|| {
        let mut values = 0;
        for from in (0..segment.rows()).step_by(BATCH) {
            let rows = from..segment.rows().min(from + BATCH);
            for name in DECIMALS {
                values += segment
                    .column(column(name))
                    .scan(rows.clone())
                    .expect("sound")
                    .len();
            }
        }
        values
    });
}
