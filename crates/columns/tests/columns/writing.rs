//! The table writer: refused, spilled and replaced rows; tables without rows; damage.

use crate::common::{assert_same, dram_pool, write};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, Decimal128Array, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::{DataType, Field, IntervalUnit, Schema, SchemaRef};
use halocline_columns::{CodePredicate, ColumnsError, Table, TableOptions, TableWriter};
use std::ops::Bound;
use std::sync::Arc;

fn schema(name: &str, data_type: DataType, nullable: bool) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(name, data_type, nullable)]))
}

fn small() -> TableOptions {
    let mut options = TableOptions::default();
    options.chunk_rows = 1024;
    options
}

fn one(array: impl Array + 'static) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("c", Arc::new(array) as ArrayRef, true)]).expect("one column")
}

#[test]
fn unsupported_types_and_names_are_refused() {
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    for data_type in [
        DataType::Null,
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Decimal256(50, 2),
    ] {
        let error =
            TableWriter::new(&txn, "t", schema("odd", data_type, true), small()).expect_err("refused");
        assert!(
            matches!(&error, ColumnsError::UnsupportedType { column, .. } if column == "odd"),
            "{error}"
        );
    }
    let field = || Field::new("a", DataType::Int8, true);
    let twice = Arc::new(Schema::new(vec![field(), field()]));
    let error = TableWriter::new(&txn, "t", twice, small()).expect_err("refused");
    assert!(matches!(error, ColumnsError::DuplicateColumn { .. }));
}

#[test]
fn a_null_in_a_not_null_column_names_its_row() {
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    let mut writer =
        TableWriter::new(&txn, "t", schema("key", DataType::Int64, false), small()).expect("storable");
    writer
        .write(&one(Int64Array::from(vec![1; 3000])))
        .expect("no NULL");
    let error = writer
        .write(&one(Int64Array::from(vec![Some(1), None])))
        .expect_err("NULL");
    assert_eq!(
        error.to_string(),
        "column `key`, row 3001: NULL in a NOT NULL column"
    );
}

#[test]
fn other_types_are_refused_and_dictionaries_unpacked() {
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    let mut writer =
        TableWriter::new(&txn, "t", schema("c", DataType::Int64, true), small()).expect("storable");
    let error = writer
        .write(&one(StringArray::from(vec!["1"])))
        .expect_err("a string");
    assert!(matches!(error, ColumnsError::TypeMismatch { .. }), "{error}");
    drop(writer);
    drop(txn);

    let packed: DictionaryArray<Int32Type> =
        vec![Some("b"), None, Some("a"), Some("b")].into_iter().collect();
    let plain = arrow_cast::cast(&packed, &DataType::Utf8).expect("strings");
    let (table, _) = write(&pool, &[one(packed.clone())], small());
    assert_eq!(table.schema().field(0).data_type(), &DataType::Utf8);
    let column = table.segments()[0].column(0);
    assert_same(&column.scan(0..4).expect("sound"), &plain);
    let space = column.code_space().expect("few strings");
    let (mut codes, b) = (Vec::new(), packed.slice(0, 1));
    space.encode(&packed, &mut codes).expect("own values");
    assert_eq!(codes, [2, 0, 1, 2]);
    assert_eq!(space.equal(&b).expect("a string"), CodePredicate::equal(2));
}

#[test]
fn tables_without_rows_or_columns() {
    let pool = dram_pool();
    let empty = RecordBatch::new_empty(schema("c", DataType::Utf8, true));
    let (table, stats) = write(&pool, &[empty], small());
    assert_eq!((table.rows(), table.segments().len(), stats.extents), (0, 0, 0));
    assert!(table.check().is_empty());
    let error = Table::open(&pool.snapshot().expect("open"), "u").expect_err("missing");
    assert!(matches!(error, ColumnsError::NoSuchTable { .. }));
}

#[test]
fn an_unfinished_table_leaves_nothing_and_a_finished_one_replaces() {
    let pool = dram_pool();
    let before = write(&pool, &[one(Int64Array::from(vec![1, 2, 3]))], small()).0;
    {
        let txn = pool.begin().expect("no other writer");
        let mut writer = TableWriter::new(&txn, "t", before.schema().clone(), small()).expect("storable");
        writer
            .write(&one(Int64Array::from(vec![7; 5000])))
            .expect("written");
        assert_eq!(Table::open_in(&txn, "t").expect("still the old one").rows(), 3);
        writer.finish().expect("finished");
        assert_eq!(Table::open_in(&txn, "t").expect("the new one").rows(), 5000);
    }
    let snapshot = pool.snapshot().expect("open");
    assert_eq!(Table::open(&snapshot, "t").expect("the old one").rows(), 3);
    let after = write(&pool, &[one(Int64Array::from(vec![9]))], small()).0;
    assert_eq!(after.rows(), 1);
    assert_eq!(Table::names(&snapshot), ["t"]);
    assert_same(
        &before.segments()[0].column(0).scan(0..3).expect("kept"),
        &Int64Array::from(vec![1, 2, 3]),
    );
}

#[test]
fn string_ids_are_spilled_and_both_ends_work() {
    let mut options = small();
    options.memory = 1 << 14;
    options.dictionary_limit = 600;
    let few: Vec<String> = (0..60_000).map(|i| format!("value {}", i * 7919 % 500)).collect();
    // Passes the limit after many chunks of ids were spilled.
    let late: Vec<String> = (0..60_000)
        .map(|i| format!("late {}", if i < 50_000 { i % 300 } else { i }))
        .collect();
    let array = |strings: &[String]| Arc::new(StringArray::from(strings.to_vec())) as ArrayRef;
    let all =
        RecordBatch::try_from_iter([("few", array(&few)), ("late", array(&late))]).expect("two columns");
    let slices: Vec<RecordBatch> = (0..60).map(|i| all.slice(i * 1000, 1000)).collect();
    let (table, stats) = write(&dram_pool(), &slices, options);
    assert!(stats.extents > 4, "{stats:?}");
    let segment = &table.segments()[0];
    assert!(segment.column(0).code_space().is_some());
    assert!(segment.column(1).code_space().is_none());
    assert_same(&segment.column(0).scan(0..60_000).expect("sound"), all.column(0));
    assert_same(&segment.column(1).scan(0..60_000).expect("sound"), all.column(1));
    assert!(table.check().is_empty());
}

#[test]
fn predicates_outside_of_the_domain_and_their_words() {
    let values = Int64Array::from(vec![Some(10), None, Some(20), Some(i64::MAX)]);
    let (table, _) = write(&dram_pool(), &[one(values)], small());
    let space = table.segments()[0]
        .column(0)
        .code_space()
        .expect("integers")
        .clone();
    let int = |value: i64| Int64Array::from(vec![value]);
    let words = |predicate: &CodePredicate| space.describe(predicate);
    let between = |lo: i64, hi: i64| {
        space
            .range(Bound::Included(&int(lo)), Bound::Included(&int(hi)))
            .expect("integers")
    };
    assert_eq!(space.equal(&int(5)).expect("an integer"), CodePredicate::Nothing);
    assert_eq!(between(i64::MIN, 9), CodePredicate::Nothing);
    assert_eq!(words(&between(-5, 20)), "<= 20");
    assert_eq!(words(&between(11, 30)), "between 11 and 30");
    assert_eq!(words(&between(11, i64::MAX)), ">= 11");
    assert_eq!(words(&between(i64::MIN, i64::MAX)), "is not null");
    assert_eq!(words(&space.is_null()), "is null");
    assert_eq!(words(&space.is_not_null()), "is not null");
    assert_eq!(words(&space.equal(&int(20)).expect("an integer")), "= 20");
    let set = space
        .set(&Int64Array::from(vec![Some(10), Some(20), None, Some(9)]))
        .expect("integers");
    assert_eq!(words(&set), "in (10, 20)");
    assert!(space.prefix("x").is_err());
    assert!(space.equal(&Float64Array::from(vec![1.0])).is_err());
    assert!(space.equal(&Int64Array::from(vec![1, 2])).is_err());
    let none = space
        .equal(&Int64Array::from(vec![None]))
        .expect("NULL equals nothing");
    assert_eq!(none, CodePredicate::Nothing);
    assert!(space.decode(&[space.max_code() + 1]).is_err());
}

#[test]
fn decimals_outside_of_64_bits_clamp_predicates() {
    let decimal = |value: i128| {
        Decimal128Array::from(vec![value])
            .with_precision_and_scale(38, 0)
            .expect("38 digits")
    };
    let (table, _) = write(&dram_pool(), &[one(decimal(5))], small());
    let space = table.segments()[0]
        .column(0)
        .code_space()
        .expect("decimals")
        .clone();
    let far = 10i128.pow(30);
    assert_eq!(
        space.equal(&decimal(far)).expect("a decimal"),
        CodePredicate::Nothing
    );
    let below = space
        .range(Bound::Unbounded, Bound::Excluded(&decimal(far)))
        .expect("a decimal");
    assert_eq!(below, CodePredicate::Any);
    let above = space
        .range(Bound::Included(&decimal(-far)), Bound::Unbounded)
        .expect("a decimal");
    assert_eq!(above, CodePredicate::Any);
    let none = space
        .range(Bound::Unbounded, Bound::Included(&decimal(-far)))
        .expect("a decimal");
    assert_eq!(none, CodePredicate::Nothing);
}

#[test]
fn null_beside_all_of_64_bits_has_no_codes_but_reads() {
    let values = Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX), Some(0)]);
    let (table, _) = write(&dram_pool(), &[one(values.clone())], small());
    let segment = &table.segments()[0];
    assert!(segment.column(0).code_space().is_none());
    let error = segment
        .count(&[(0, CodePredicate::equal(0))], 0..4)
        .expect_err("no codes");
    assert!(matches!(error, ColumnsError::NoCodes { .. }));
    assert_same(&segment.column(0).scan(0..4).expect("sound"), &values);
    assert!(segment.column(0).scan(0..5).is_err());
    assert!(segment.column(0).gather(&[4]).is_err());
}
