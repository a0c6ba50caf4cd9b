//! Import of lineorder of the Star Schema Benchmark, and decoding of its columns.
//!
//! `cargo bench -p halocline-columns --bench ssb_speed`. `HALOCLINE_BENCH_SCALE` sets the scale factor (0.1),
//! `HALOCLINE_BENCH_FOLDER` the folder of the pools.

use std::sync::LazyLock;

use arrow_array::RecordBatch;
use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use halocline_columns::{Code, CodePredicate, Segment, Table};
use halocline_workloads::SsbTable;

mod common;

fn main() {
    divan::main();
}

/// Returns the names of the columns of lineorder.
fn column_names() -> Vec<String> {
    let schema = SsbTable::Lineorder.schema();
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

static TABLE: LazyLock<Table> = LazyLock::new(|| common::imported_table("lineorder", &lineorder()));

fn lineorder() -> Vec<RecordBatch> {
    let reader = SsbTable::Lineorder.reader(common::scale(), 0, 1);
    reader.collect::<Result<_, _>>().expect("generated rows")
}

fn segment() -> &'static Segment {
    &TABLE.segments()[0]
}

fn column_index(name: &str) -> usize {
    TABLE.schema().index_of(name).expect("a column of lineorder")
}

/// The items are rows, the bytes those that are stored.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn import(bencher: Bencher<'_, '_>) {
    let batches = lineorder();
    let (_folder, pool) = common::create_pool();
    let stats = common::import(&pool, "lineorder", &batches);
    bencher
        .counter(ItemsCount::new(stats.rows))
        .counter(BytesCount::new(stats.stored_bytes))
        .with_inputs(common::create_pool)
        .bench_local_values(|(folder, pool)| {
            common::import(&pool, "lineorder", &batches);
            (folder, pool)
        });
}

/// The items are codes, the bytes those of the decoded codes.
#[divan::bench(args = column_names())]
fn decode(bencher: Bencher<'_, '_>, name: &str) {
    let column = column_index(name);
    match segment().column(column).code_bits().expect("codes") {
        0..=8 => decode_as::<u8>(bencher, column),
        9..=16 => decode_as::<u16>(bencher, column),
        17..=32 => decode_as::<u32>(bencher, column),
        _ => decode_as::<u64>(bencher, column),
    }
}

/// Measures reading all codes of a column.
fn decode_as<C: Code>(bencher: Bencher<'_, '_>, column: usize) {
    let segment = segment();
    let column = segment.column(column);
    bencher
        .counter(ItemsCount::new(segment.rows()))
        .counter(BytesCount::of_many::<C>(segment.rows()))
        .bench_local(|| {
            let mut reader = column.code_reader::<C>().expect("codes");
            let mut codes = [C::default(); 1024];
            for row in (0..segment.rows()).step_by(1024) {
                let (chunk, block) = (row / column.chunk_rows(), row % column.chunk_rows() / 1024);
                reader.read(chunk, block, &mut codes).expect("sound");
                black_box(&codes);
            }
        });
}

/// Counts the rows in the second quarter of a column's codes. The bytes are those that are stored.
#[divan::bench(args = column_names())]
fn count(bencher: Bencher<'_, '_>, name: &str) {
    let (segment, index) = (segment(), column_index(name));
    let column = segment.column(index);
    let max_code = column.code_space().expect("codes").max_code();
    let quarter = [(index, CodePredicate::range(max_code / 4, max_code / 2))];
    bencher
        .counter(ItemsCount::new(segment.rows()))
        .counter(BytesCount::new(column.stored_bytes()))
        .bench_local(|| segment.count(&quarter, 0..segment.rows()));
}
