//! Decimals of more than 64 bits: which segments have keys for them, and what of a table says so. That they
//! come back from every operation is in the other tests, whose random decimals have up to 38 digits.

use crate::common::{assert_same, dram_pool, values};
use crate::model::read;
use arrow_array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use halocline_columns::compact::{MergeOptions, merge};
use halocline_columns::{
    CodePredicate, ColumnsError, Dictionary, Table, TableOptions, TableProperties, TableWriter, add_column,
    create_table, delete_rows, rank_strings, set_default,
};
use halocline_pool::{ObjectKind, Txn};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const MAX_DECIMAL: i128 = 10_i128.pow(38) - 1;
const FITS: i128 = i64::MAX as i128;

fn decimals(values: Vec<Option<i128>>) -> ArrayRef {
    let decimals = Decimal128Array::from(values).with_precision_and_scale(38, 2);
    Arc::new(decimals.expect("38 digits"))
}

fn one(value: i128) -> ArrayRef {
    decimals(vec![Some(value)])
}

fn append(txn: &Txn, values: Vec<Option<i128>>, options: TableOptions) -> usize {
    let schema = Schema::new(vec![Field::new("d", DataType::Decimal128(38, 2), true)]);
    if txn.get("table/t").is_none() {
        create_table(txn, "t", &schema, &TableProperties::default()).expect("storable");
    }
    let mut writer = TableWriter::append(txn, "t", options).expect("a table");
    let rows = RecordBatch::try_new(Arc::new(schema), vec![decimals(values)]).expect("a column");
    writer.write(&rows).expect("decimals");
    writer.finish().expect("finished").segments
}

fn open(txn: &Txn) -> Table {
    Table::open_in(txn, "t").expect("there")
}

fn version(txn: &Txn) -> String {
    let meta = txn.get("table/t").expect("there").meta().to_vec();
    let text = String::from_utf8(meta).expect("JSON");
    text.split(',').next().unwrap_or_default().to_owned()
}

fn small() -> TableOptions {
    let mut options = TableOptions::default();
    options.chunk_rows = 1024;
    options
}

#[test]
fn only_segments_with_wide_values_are_without_keys() {
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    assert_eq!(append(&txn, vec![Some(FITS), None, Some(-FITS)], small()), 1);
    assert_ne!(version(&txn), "{\"v\":6");
    // One wide value among 5,000: the rows before its chunk keep their keys, all from there on have none.
    let mixed: Vec<Option<i128>> = (0..5000)
        .map(|row| match row {
            3000 => Some(FITS + 1),
            row if row % 9 == 0 => None,
            row => Some(row % 100),
        })
        .collect();
    assert_eq!(append(&txn, mixed.clone(), small()), 2);
    assert_eq!(version(&txn), "{\"v\":6");
    let table = open(&txn);
    assert!(table.check().is_empty(), "{:?}", table.check());
    let wide: Vec<bool> = table.segments().iter().map(|s| s.column(0).is_wide()).collect();
    assert_eq!(wide, [false, false, true]);
    let bases = table.segments().iter().map(|segment| {
        let space = segment.column(0).code_space().expect("codes");
        space.integer_base().is_some()
    });
    assert_eq!(bases.collect::<Vec<_>>(), [true, true, false]);
    let all = [vec![Some(FITS), None, Some(-FITS)], mixed].concat();
    assert_same(&read(&table, 0), &decimals(all.clone()));

    // Merged they are one segment, without keys as long as the wide value is alive.
    let stats = merge(&txn, "t", &[0, 1, 2], &MergeOptions::default()).expect("segments");
    assert_eq!((stats.ids.end - stats.ids.start, stats.rows), (1, 5003));
    let table = open(&txn);
    assert!(table.segments()[0].column(0).is_wide());
    assert_same(&read(&table, 0), &decimals(all.clone()));
    delete_rows(&txn, "t", &BTreeMap::from([(stats.ids.start, [3003].into())])).expect("a row");
    merge(&txn, "t", &[stats.ids.start], &MergeOptions::default()).expect("a segment");
    let table = open(&txn);
    assert!(!table.segments()[0].column(0).is_wide() && version(&txn) != "{\"v\":6");
    let left = [&all[..3003], &all[3004..]].concat();
    assert_same(&read(&table, 0), &decimals(left));
}

#[test]
fn a_merge_that_is_cancelled_while_it_looks_for_wide_values_changes_nothing() {
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    append(&txn, vec![Some(MAX_DECIMAL), Some(1)], small());
    let (cancel, before) = (AtomicBool::new(true), open(&txn));
    let mut options = MergeOptions::default();
    options.cancel = &cancel;
    let error = merge(&txn, "t", &[0], &options).expect_err("cancelled");
    assert!(matches!(error, ColumnsError::Cancelled { .. }), "{error}");
    assert_eq!(open(&txn).segments()[0].id(), before.segments()[0].id());
}

#[test]
fn conditions_speak_of_values_that_are_not_there_too() {
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    append(
        &txn,
        vec![
            Some(-MAX_DECIMAL),
            Some(-1),
            None,
            Some(0),
            Some(FITS + 5),
            Some(MAX_DECIMAL),
        ],
        small(),
    );
    let table = open(&txn);
    let segment = &table.segments()[0];
    let space = segment.column(0).code_space().expect("few values");
    let rows = |predicate: CodePredicate| -> Vec<u32> {
        let rows = segment.select(&[(0, predicate)], 0..segment.rows());
        rows.expect("codes").iter().collect()
    };
    assert_eq!(rows(space.equal(&one(MAX_DECIMAL)).expect("decimals")), [5]);
    assert_eq!(rows(space.equal(&one(FITS)).expect("decimals")), [0; 0]);
    let between = |lo: i128, hi: i128| {
        let (lo, hi) = (one(lo), one(hi));
        let range = space.range(Bound::Excluded(lo.as_ref()), Bound::Included(hi.as_ref()));
        rows(range.expect("decimals"))
    };
    assert_eq!(between(-MAX_DECIMAL, FITS), [1, 3]);
    assert_eq!(between(FITS, FITS + 4), [0; 0]);
    assert_eq!(between(-2, MAX_DECIMAL), [1, 3, 4, 5]);
    let set = decimals(vec![Some(-MAX_DECIMAL), None, Some(7), Some(FITS + 5)]);
    assert_eq!(rows(space.set(&set).expect("decimals")), [0, 4]);
    assert_eq!(rows(space.is_null()), [2]);
    let at_least = space.range(Bound::Included(one(FITS + 5).as_ref()), Bound::Unbounded);
    let described = space.describe(&at_least.expect("decimals"));
    assert_eq!(described, ">= 92233720368547758.12");
    let text = arrow_array::StringArray::from(vec!["1"]);
    assert!(matches!(
        space.equal(&text),
        Err(ColumnsError::TypeMismatch { .. })
    ));
    assert!(space.prefix("1").is_err());
}

#[test]
fn many_wide_values_are_ranked_for_an_index() {
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    let mut options = small();
    options.dictionary_limit = 10;
    let numbers: Vec<Option<i128>> = (0..4000_i128)
        .map(|row| (row % 50 != 3).then_some((row * 7919 % 1000 - 500) * 10_i128.pow(34) + row % 3))
        .collect();
    append(&txn, numbers.clone(), options);
    let table = open(&txn);
    let column = table.segments()[0].column(0);
    assert!(column.code_space().is_none() && column.is_rankable() && column.is_wide());
    assert!(table.check().is_empty(), "{:?}", table.check());
    let ranked = rank_strings(&txn, column, 0, &AtomicBool::new(false)).expect("decimals");
    let extent = txn.extent(&ranked.dictionary).expect("written");
    let len = extent.len();
    let dictionary = Dictionary::open(extent, 0..len).expect("whole");
    let space =
        halocline_columns::CodeSpace::from_dictionary(column.data_type(), dictionary, ranked.has_null);
    let space = space.expect("decimals");
    let mut codes = vec![0; numbers.len()];
    ranked.read(0, &mut codes);
    assert_same(
        &space.decode(&codes).expect("its codes"),
        &decimals(numbers.clone()),
    );
    let mut encoded = Vec::new();
    space
        .encode(&decimals(numbers), &mut encoded)
        .expect("its values");
    assert_eq!(encoded, codes);
    assert_eq!(space.integer_base(), None);
}

#[test]
fn defaults_and_new_columns_are_wide() {
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    append(&txn, vec![Some(1), None], small());
    let field = Field::new("e", DataType::Decimal128(38, 2), false);
    set_default(&txn, "t", "d", Some(&one(-MAX_DECIMAL))).expect("a decimal");
    assert_eq!(version(&txn), "{\"v\":6");
    assert_same(
        open(&txn).default_value(0).expect("a default"),
        &one(-MAX_DECIMAL),
    );
    set_default(&txn, "t", "d", Some(&one(FITS))).expect("a decimal");
    assert_eq!(version(&txn), "{\"v\":3");
    set_default(&txn, "t", "d", None).expect("none");
    add_column(&txn, "t", &field, Some(&one(MAX_DECIMAL))).expect("a new column");
    assert_eq!(version(&txn), "{\"v\":6");
    let table = open(&txn);
    assert!(table.check().is_empty(), "{:?}", table.check());
    assert_same(&read(&table, 1), &decimals(vec![Some(MAX_DECIMAL); 2]));
    assert!(!table.segments()[0].column(0).is_wide());
}

#[test]
fn rows_are_sorted_by_them() {
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    let schema = Schema::new(vec![
        Field::new("d", DataType::Decimal128(38, 2), true),
        Field::new("n", DataType::Int64, false),
    ]);
    let properties = TableProperties {
        cluster: Some(vec!["d".into(), "n".into()]),
        ..TableProperties::default()
    };
    create_table(&txn, "t", &schema, &properties).expect("storable");
    let numbers: Vec<Option<i128>> = (0..3000_i128)
        .map(|row| match row * 7919 % 11 {
            0 => None,
            1..4 => Some((row * 31 % 200 - 100) * 10_i128.pow(30)),
            4 => Some([FITS, FITS + 1, -FITS - 1, -FITS - 2][row as usize % 4]),
            _ => Some(row * 31 % 200 - 100),
        })
        .collect();
    let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..3000));
    let batch = RecordBatch::try_new(Arc::new(schema), vec![decimals(numbers.clone()), rows]);
    let mut writer = TableWriter::append(&txn, "t", small()).expect("a table");
    writer.write(&batch.expect("two columns")).expect("rows");
    writer.finish().expect("sorted");
    let table = open(&txn);
    let mut expected: Vec<(Option<i128>, i64)> = numbers.into_iter().zip(0..).collect();
    expected.sort_unstable();
    let (of_d, of_n): (Vec<Option<i128>>, Vec<i64>) = expected.into_iter().unzip();
    assert_same(&read(&table, 0), &decimals(of_d));
    assert_eq!(values(&read(&table, 1)), values(&Int64Array::from(of_n)));
}

#[test]
fn a_newer_format_is_refused_by_its_number() {
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    append(&txn, vec![Some(MAX_DECIMAL)], small());
    let object = txn.get("table/t").expect("there");
    let meta = String::from_utf8(object.meta().to_vec()).expect("JSON");
    let extents = |_: ()| (0..object.extent_count()).map(|i| object.extent_ref(i)).collect();
    let newer = meta.replace("\"v\":6", "\"v\":8");
    txn.put("table/t", ObjectKind::TABLE, newer.as_bytes(), extents(()))
        .expect("put");
    let error = Table::open_in(&txn, "t").expect_err("newer");
    assert!(
        matches!(
            error,
            ColumnsError::NewerFormat {
                version: 8,
                supported: 7,
                ..
            }
        ),
        "{error}"
    );
    // Segments of the format after are damage to a program of this version, not garbage.
    let odd = meta.replace("\"format\":4", "\"format\":5");
    assert_ne!(odd, meta);
    txn.put("table/t", ObjectKind::TABLE, odd.as_bytes(), extents(()))
        .expect("put");
    let error = Table::open_in(&txn, "t").expect_err("unknown");
    assert!(error.to_string().contains("unknown format 5"), "{error}");
}
