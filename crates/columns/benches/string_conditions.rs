//! Conditions on strings without codes, evaluated on stored bytes, beside the same over decoded strings.
//!
//! `cargo bench -p halocline-columns --bench string_conditions`. `HALOCLINE_BENCH_SCALE` sets the scale
//! factor of TPC-H (0.1: 600,000 rows), `HALOCLINE_BENCH_FOLDER` the folder of the pool. The column `key` has
//! strings of a letter and a number in random order, `comment` the comments of lineitem; both are compressed
//! by FSST. The items are rows of the table.

use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, StringViewArray};
use divan::Bencher;
use divan::counter::ItemsCount;
use halocline_columns::{LikePattern, StringPredicate, Table};
use halocline_workloads::{SplitMix64, TpchTable};

mod common;

fn main() {
    divan::main();
}

/// Rows of a morsel, and of a batch.
const MORSEL: usize = 65_536;
const BATCH: usize = 8192;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut rng = SplitMix64::new(7);
    let reader = TpchTable::Lineitem.reader(common::scale(), 0, 1);
    let batches = reader.map(|batch| {
        let batch = batch.expect("generated rows");
        let comment = batch.column_by_name("l_comment").expect("a column of lineitem");
        let keys = (0..batch.num_rows()).map(|_| Some(format!("s{}", rng.below(100_000_000))));
        let keys: ArrayRef = Arc::new(StringViewArray::from_iter(keys));
        RecordBatch::try_from_iter([("key", keys), ("comment", Arc::clone(comment))]).expect("two columns")
    });
    let batches: Vec<RecordBatch> = batches.collect();
    common::imported_table("strings", &batches)
});

/// A condition on a column.
#[derive(Clone, Copy)]
struct Condition {
    name: &'static str,
    column: usize,
    predicate: fn() -> StringPredicate,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

fn like(pattern: &str) -> StringPredicate {
    StringPredicate::like(LikePattern::parse(pattern).expect("no escape is open"))
}

const fn condition(name: &'static str, column: usize, predicate: fn() -> StringPredicate) -> Condition {
    Condition {
        name,
        column,
        predicate,
    }
}

const CONDITIONS: [Condition; 10] = [
    condition("key LIKE 's99%'", 0, || like("s99%")),
    condition("key between 's5' and 's6'", 0, || {
        StringPredicate::range(Bound::Excluded(b"s5"), Bound::Excluded(b"s6"))
    }),
    condition("key = 's12345678'", 0, || StringPredicate::equal(b"s12345678")),
    condition("key in (3 values)", 0, || {
        StringPredicate::set([b"s12345678".as_slice(), b"s1", b"s99999999"])
    }),
    condition("key LIKE '%777%'", 0, || like("%777%")),
    condition("key LIKE '%77'", 0, || like("%77")),
    condition("comment LIKE 'car%'", 1, || like("car%")),
    condition("comment LIKE '%regular%'", 1, || like("%regular%")),
    condition("comment LIKE '%special%requests%'", 1, || {
        like("%special%requests%")
    }),
    condition("comment NOT LIKE '%zebra%'", 1, || like("%zebra%").not()),
];

/// Returns the rows that match.
fn count(condition: Condition) -> usize {
    let segment = &TABLE.segments()[0];
    let predicates = [(condition.column, (condition.predicate)())];
    let selected = segment.with_string_conditions(&predicates).expect("strings");
    let mut found = 0;
    for from in (0..segment.rows()).step_by(MORSEL) {
        let rows = from..segment.rows().min(from + MORSEL);
        found += selected.count(&[], rows).expect("sound") as usize;
    }
    found
}

/// Returns the rows that match after all strings were decoded.
fn count_decoded(condition: Condition) -> usize {
    let segment = &TABLE.segments()[0];
    let (column, predicate) = (segment.column(condition.column), (condition.predicate)());
    let mut found = 0;
    for from in (0..segment.rows()).step_by(BATCH) {
        let strings = column
            .scan(from..segment.rows().min(from + BATCH))
            .expect("sound");
        let strings = strings.as_string_view();
        let matches = |row: &usize| predicate.matches(Some(strings.value(*row).as_bytes()));
        found += (0..strings.len()).filter(matches).count();
    }
    found
}

#[divan::bench(args = CONDITIONS)]
fn on_stored_bytes(bencher: Bencher<'_, '_>, condition: Condition) {
    assert_eq!(count(condition), count_decoded(condition), "{condition}");
    bencher
        .counter(ItemsCount::new(TABLE.segments()[0].rows()))
        .bench_local(|| count(condition));
}

#[divan::bench(args = CONDITIONS)]
fn on_decoded_strings(bencher: Bencher<'_, '_>, condition: Condition) {
    bencher
        .counter(ItemsCount::new(TABLE.segments()[0].rows()))
        .bench_local(|| count_decoded(condition));
}
