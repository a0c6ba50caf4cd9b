//! Plans and merges of segments, with and without a clustering; what the clustering sorts.

use crate::common::{Shape, dram_pool, types, values};
use crate::model::{Model, read};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::DataType;
use halocline_columns::compact::{CompactionPolicy, MergeOptions, MergeProgress, merge, plan};
use halocline_columns::{
    ColumnsError, Table, TableEncoding, TableOptions, TableProperties, TableWriter, create_table, delete_rows,
};
use halocline_pool::{Pool, Txn};
use proptest::prelude::*;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn numbers(rows: std::ops::Range<i64>) -> RecordBatch {
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(rows));
    RecordBatch::try_from_iter([("number", array)]).expect("one column")
}

fn append(txn: &Txn, batch: &RecordBatch, memory: usize) -> halocline_columns::TableStats {
    let mut options = TableOptions::default();
    (options.chunk_rows, options.memory, options.dictionary_limit) = (1024, memory, 100);
    let mut writer = TableWriter::append(txn, "t", options).expect("a table");
    (0..batch.num_rows()).step_by(700).for_each(|row| {
        let part = batch.slice(row, 700.min(batch.num_rows() - row));
        writer.write(&part).expect("rows of the table");
    });
    writer.finish().expect("finished")
}

/// Table `t` with a segment of each of these numbers of rows.
fn segments(pool: &Pool, rows: &[i64]) -> Txn {
    let txn = pool.begin().expect("no other writer");
    create_table(&txn, "t", &numbers(0..1).schema(), &TableProperties::default()).expect("storable");
    for &rows in rows {
        append(&txn, &numbers(0..rows), 1 << 20);
    }
    txn
}

fn delete(txn: &Txn, segment: u64, rows: std::ops::Range<u32>) {
    delete_rows(txn, "t", &BTreeMap::from([(segment, rows.collect())])).expect("rows");
}

fn open(txn: &Txn) -> Table {
    Table::open_in(txn, "t").expect("there")
}

fn small(memory: usize) -> MergeOptions<'static> {
    let mut options = MergeOptions::default();
    (options.chunk_rows, options.memory) = (1024, memory);
    options
}

#[test]
fn plans_go_by_tiers_and_by_deleted_rows() {
    let policy = CompactionPolicy {
        small_rows: 100,
        fanout: 3,
        deleted_share: 0.2,
        max_rows: 5000,
    };
    let planned =
        |rows: &[i64], policy: &CompactionPolicy| plan(&open(&segments(&dram_pool(), rows)), policy);
    let none: Vec<Vec<u64>> = vec![];
    assert_eq!(planned(&[], &policy), none);
    assert_eq!(planned(&[50], &policy), none);
    assert_eq!(planned(&[200, 50, 200], &policy), none);
    // Two small ones side by side; three of a tier with a small one between them.
    assert_eq!(planned(&[2000, 50, 60, 200], &policy), [[1, 2]]);
    assert_eq!(planned(&[2000, 200, 50, 210, 220, 2000], &policy), [[1, 2, 3, 4]]);
    // Not beyond the most rows of a merge.
    assert_eq!(planned(&[2000, 2000, 2000], &policy), none);
    assert_eq!(planned(&[1500, 1500, 1500, 1500], &policy), [[0, 1, 2]]);
    assert_eq!(
        planned(&[1500, 200, 10, 900], &CompactionPolicy::everything()),
        [[0, 1, 2, 3]]
    );

    let txn = segments(&dram_pool(), &[200, 1000, 50, 60]);
    delete(&txn, 0, 0..30);
    delete(&txn, 1, 0..201);
    assert_eq!(plan(&open(&txn), &policy), [vec![1], vec![2, 3]]);
    let txn = segments(&dram_pool(), &[200]);
    assert_eq!(plan(&open(&txn), &CompactionPolicy::everything()), none);
    delete(&txn, 0, 7..8);
    assert_eq!(plan(&open(&txn), &CompactionPolicy::everything()), [[0]]);
}

#[test]
fn merges_tell_how_far_they_are_and_can_be_cancelled() {
    let pool = dram_pool();
    let txn = segments(&pool, &[3000, 9000, 20, 500]);
    delete(&txn, 1, 100..8000);
    let seen: Mutex<Vec<MergeProgress>> = Mutex::new(vec![]);
    let report = |progress: MergeProgress| seen.lock().expect("unpoisoned").push(progress);
    let mut options = small(1 << 20);
    options.progress = Some(&report);
    options.bandwidth = Some(1 << 30);
    let stats = merge(&txn, "t", &[0, 1, 2], &options).expect("segments");
    assert_eq!(
        (stats.merged, stats.rows, stats.dropped, stats.ids),
        (3, 4120, 7900, 4..5)
    );
    let steps: Vec<u64> = seen.lock().expect("unpoisoned").iter().map(|p| p.done).collect();
    assert!(steps.is_sorted_by(|a, b| a < b) && steps.contains(&3000) && steps.contains(&12_000));
    assert_eq!(steps.last(), Some(&12_020));
    let table = open(&txn);
    let ids: Vec<u64> = table.segments().iter().map(|segment| segment.id()).collect();
    assert_eq!((ids, table.live_rows(), table.rows()), (vec![4, 3], 4620, 4620));
    assert_eq!(plan(&table, &CompactionPolicy::default()), [[4, 3]]);

    let cancel = AtomicBool::new(false);
    let set = |_: MergeProgress| cancel.store(true, Relaxed);
    let mut options = small(1 << 20);
    options.cancel = &cancel;
    options.progress = Some(&set);
    let error = merge(&txn, "t", &[4, 3], &options).expect_err("cancelled");
    assert!(matches!(error, ColumnsError::Cancelled { .. }), "{error}");
    assert_eq!(open(&txn).segments().len(), 2);
    let error = merge(&txn, "t", &[4, 0], &small(1 << 20)).expect_err("gone");
    assert!(
        matches!(error, ColumnsError::NoSuchSegment { segment: 0, .. }),
        "{error}"
    );
}

/// Rows of the table by the clustering columns, as the order of values has it.
fn compare(a: &[crate::common::Value], b: &[crate::common::Value]) -> Ordering {
    use crate::common::Value::{Float, Null};
    let of_column = |(a, b): (&crate::common::Value, &crate::common::Value)| match (a, b) {
        (Null, Null) => Ordering::Equal,
        (Null, _) => Ordering::Less,
        (_, Null) => Ordering::Greater,
        // Stored are both zeros, the negative one first.
        (Float(a), Float(b)) if a == b => a.total_cmp(b),
        _ => a.cmp(b),
    };
    let mut orders = a.iter().zip(b).map(of_column);
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn shape() -> impl Strategy<Value = Shape> {
    let distinct = prop_oneof![Just(0), Just(2), Just(40), Just(3000)];
    let nulls = prop_oneof![Just(0), Just(60)];
    (distinct, nulls, any::<u64>()).prop_map(|(distinct, nulls, seed)| Shape {
        distinct,
        nulls,
        seed,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_clustering_sorts_appends_and_merges(
        columns in proptest::collection::vec((proptest::sample::select(types()), shape()), 1..4),
        appends in proptest::collection::vec((1usize..4000, any::<u64>()), 1..4),
        memory in prop_oneof![Just(1usize), Just(40_000), Just(1 << 22)],
        share in prop_oneof![Just(0u64), Just(70)],
        segment_rows in prop_oneof![Just(1u64 << 31), Just(1100)],
        plain in any::<bool>(),
    ) {
        let pool = dram_pool();
        let txn = pool.begin().expect("no other writer");
        let mut model = Model::new(&columns);
        // The last column first.
        let cluster: Vec<String> = (0..columns.len()).rev().map(|i| format!("c{i}")).collect();
        let encoding = if plain { TableEncoding::Plain } else { TableEncoding::Chosen };
        let properties = TableProperties { cluster: Some(cluster), encoding };
        create_table(&txn, "t", &model.schema(), &properties).expect("storable");
        for (rows, seed) in &appends {
            let batch = model.batch(*rows, *seed);
            let stats = append(&txn, &batch, memory);
            prop_assert!(stats.spilled_bytes > 0 || memory > 40_000 || stats.rows < 1000);
            model.append(&batch);
        }
        let in_order = |table: &Table| {
            for segment in table.segments() {
                let rows = 0..segment.rows();
                let columns: Vec<ArrayRef> =
                    segment.columns().iter().rev().map(|c| c.scan(rows.clone()).expect("sound")).collect();
                let columns: Vec<_> = columns.iter().map(|array| values(array)).collect();
                let row = |i: usize| columns.iter().map(|column| column[i].clone()).collect::<Vec<_>>();
                assert!((1..segment.rows()).all(|i| compare(&row(i - 1), &row(i)).is_le()));
            }
        };
        in_order(&open(&txn));
        // From here on the model has the order of the table.
        let mut model = sorted_model(&columns, &model, &open(&txn));
        let table = open(&txn);
        delete_rows(&txn, "t", &model.delete(&table, share, 7)).expect("rows");
        let ids: Vec<u64> = open(&txn).segments().iter().map(|segment| segment.id()).collect();
        if !ids.is_empty() {
            let mut options = small(memory);
            options.segment_rows = segment_rows;
            let stats = merge(&txn, "t", &ids, &options).expect("segments");
            prop_assert_eq!(stats.rows, model.rows() as u64);
        }
        let table = open(&txn);
        prop_assert_eq!(table.segments().len(), model.rows().div_ceil(segment_rows as usize));
        in_order(&table);
        sorted_model(&columns, &model, &table).assert_is(&table);
    }
}

/// The rows of `model` in the order of `table`, which must hold the same ones.
fn sorted_model(columns: &[(DataType, Shape)], model: &Model, table: &Table) -> Model {
    let mut sorted = Model::new(columns);
    let arrays = (0..columns.len()).map(|i| read(table, i)).collect();
    sorted.append(&RecordBatch::try_new(model.schema(), arrays).expect("columns of the table"));
    let rows = |model: &Model| {
        let columns: Vec<Vec<_>> = model.columns.iter().map(|column| values(column)).collect();
        let row = |i: usize| columns.iter().map(|c| format!("{:?}", c[i])).collect::<Vec<_>>();
        let mut rows: Vec<Vec<String>> = (0..model.rows()).map(row).collect();
        rows.sort_unstable();
        rows
    };
    assert_eq!(rows(&sorted), rows(model));
    sorted
}

#[test]
fn equal_rows_keep_their_order_and_errors_name_rows() {
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    let words = |i: i64| ["b", "a", "", "a\0", "a\0b"][i as usize % 5];
    let batch = |rows: std::ops::Range<i64>| {
        let columns: [(&str, ArrayRef); 2] = [
            ("number", Arc::new(Int64Array::from_iter_values(rows.clone()))),
            ("word", Arc::new(StringArray::from_iter_values(rows.map(words)))),
        ];
        RecordBatch::try_from_iter(columns).expect("two columns")
    };
    let properties = TableProperties {
        cluster: Some(vec!["word".into()]),
        ..TableProperties::default()
    };
    create_table(&txn, "t", &batch(0..1).schema(), &properties).expect("storable");
    for memory in [1, 1 << 20] {
        append(&txn, &batch(0..5000), memory);
    }
    for segment in open(&txn).segments() {
        let numbers = segment.column(0).scan(0..5000).expect("sound");
        let mut expected: Vec<i64> = (0..5000).collect();
        expected.sort_by_key(|i| words(*i));
        assert_eq!(&*numbers, &Int64Array::from(expected) as &dyn Array);
    }
    let nulls: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
    let word: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
    let nulls = RecordBatch::try_from_iter_with_nullable([("n", nulls, true), ("w", word, false)]);
    let mut writer = TableWriter::append(&txn, "t", TableOptions::default()).expect("a table");
    writer.write(&batch(0..10)).expect("rows of the table");
    let error = writer.write(&nulls.expect("two columns")).expect_err("NULL");
    assert_eq!(
        error.to_string(),
        "column `number`, row 11: NULL in a NOT NULL column"
    );
}
