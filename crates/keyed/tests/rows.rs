//! Rows come back in the order of the key, and ranges select what conditions do, compared with a model.

use std::ops::Bound;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int16Array,
    Int32Array, RecordBatch, StringViewArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field};
use halocline_keyed::{KeyCondition, KeyedError, KeyedTable, KeyedTables, KeyedView, TableDefinition};
use halocline_pool::Pool;
use halocline_store::{Isolation, Stores};
use proptest::prelude::*;

struct Opened {
    _directory: tempfile::TempDir,
    stores: Stores,
    tables: KeyedTables,
}

fn open() -> Opened {
    let directory = tempfile::tempdir().unwrap();
    let pool = Pool::create(directory.path().join("p"), &Default::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let tables = KeyedTables::open(&stores).unwrap();
    assert!(stores.names().is_empty(), "opening has written");
    Opened {
        _directory: directory,
        stores,
        tables,
    }
}

fn write(table: &KeyedTable, batch: &RecordBatch) {
    for row in table.encode(batch).unwrap() {
        table.store().put(row.key, row.value).unwrap();
    }
}

impl Opened {
    fn read(&self, table: &Arc<KeyedTable>, conditions: &[(usize, KeyCondition)]) -> Option<RecordBatch> {
        let all: Vec<usize> = (0..table.schema().fields().len()).collect();
        let view = KeyedView::Snapshot(self.stores.snapshot());
        let ranges = table.ranges(conditions).unwrap();
        table.scan(&view, ranges, &all).next_batch(usize::MAX).unwrap()
    }
}

#[test]
fn every_type_comes_back() {
    let opened = open();
    let batch = RecordBatch::try_from_iter_with_nullable([
        (
            "flag",
            Arc::new(BooleanArray::from(vec![Some(false), None, Some(true)])) as ArrayRef,
            true,
        ),
        (
            "id",
            Arc::new(StringViewArray::from(vec!["", "a", "a\0b"])),
            false,
        ),
        (
            "amount",
            Arc::new(Decimal128Array::from(vec![None, Some(-5), Some(i128::MAX)])),
            true,
        ),
        ("day", Arc::new(Date32Array::from(vec![-1, 0, 1])), false),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from(vec![Some(1), None, Some(-1)]).with_timezone("UTC")),
            true,
        ),
        (
            "size",
            Arc::new(UInt64Array::from(vec![Some(u64::MAX), Some(0), None])),
            true,
        ),
        (
            "rate",
            Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(f64::NAN)])),
            true,
        ),
        (
            "blob",
            Arc::new(BinaryViewArray::from(vec![
                None,
                Some(&b""[..]),
                Some(&b"\0\xFF a longer one"[..]),
            ])),
            true,
        ),
    ])
    .unwrap();
    let definition = TableDefinition::new("t", &batch.schema(), &["id", "day"]).unwrap();
    let table = opened.tables.create(definition).unwrap();
    write(&table, &batch);
    assert_eq!(opened.read(&table, &[]).unwrap(), batch);
    let reopened = KeyedTables::open(&opened.stores).unwrap().table("t").unwrap();
    assert_eq!(reopened.definition(), table.definition());
    let view = KeyedView::Snapshot(opened.stores.snapshot());
    let mut scan = reopened.scan(&view, reopened.ranges(&[]).unwrap(), &[5, 1, 8, 5]);
    let batch = scan.next_batch(2).unwrap().unwrap();
    assert_eq!(batch.column(0), batch.column(3));
    assert_eq!(batch.column(2).as_binary_view().value(1), b"a\0\0\x80\0\0\0");
    assert_eq!(scan.next_batch(2).unwrap().unwrap().num_rows(), 1);
    assert!(scan.next_batch(2).unwrap().is_none());
}

type ModelRow = (i16, String, Option<i32>);

fn batch_of(rows: &[ModelRow]) -> RecordBatch {
    let a: ArrayRef = Arc::new(Int16Array::from_iter_values(rows.iter().map(|row| row.0)));
    let b: ArrayRef = Arc::new(StringViewArray::from_iter_values(rows.iter().map(|row| &row.1)));
    let c: ArrayRef = Arc::new(Int32Array::from_iter(rows.iter().map(|row| row.2)));
    RecordBatch::try_from_iter_with_nullable([("a", a, false), ("b", b, false), ("c", c, true)]).unwrap()
}

fn rows_of(batch: &RecordBatch) -> Vec<ModelRow> {
    let (a, b) = (
        batch.column(0).as_primitive::<Int16Type>(),
        batch.column(1).as_string_view(),
    );
    let c = batch.column(2).as_primitive::<Int32Type>();
    (0..batch.num_rows())
        .map(|row| {
            (
                a.value(row),
                b.value(row).to_owned(),
                c.is_valid(row).then(|| c.value(row)),
            )
        })
        .collect()
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof![Just('\0'), Just('a'), Just('b'), Just('ÿ')], 0..3)
        .prop_map(|characters| characters.into_iter().collect())
}

#[derive(Debug, Clone)]
enum Condition {
    OneOf(Vec<Option<ModelKey>>),
    Range(Bound<ModelKey>, Bound<ModelKey>),
}

#[derive(Debug, Clone)]
struct ModelKey(i16, String);

fn bound() -> impl Strategy<Value = Bound<ModelKey>> {
    let key = || (-3i16..4, text()).prop_map(|(a, b)| ModelKey(a, b));
    prop_oneof![
        Just(Bound::Unbounded),
        key().prop_map(Bound::Included),
        key().prop_map(Bound::Excluded),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    let key = (-3i16..4, text()).prop_map(|(a, b)| ModelKey(a, b));
    prop_oneof![
        proptest::collection::vec(proptest::option::weighted(0.9, key), 0..4).prop_map(Condition::OneOf),
        (bound(), bound()).prop_map(|(from, to)| Condition::Range(from, to)),
    ]
}

/// Returns the condition on one of the two key columns, and its truth for a row.
fn translate(column: usize, condition: &Condition, row: Option<&ModelRow>) -> (KeyCondition, bool) {
    let array = |keys: &[Option<ModelKey>]| -> ArrayRef {
        match column {
            0 => Arc::new(Int16Array::from_iter(
                keys.iter().map(|key| key.as_ref().map(|key| key.0)),
            )),
            _ => Arc::new(StringViewArray::from_iter(
                keys.iter().map(|key| key.as_ref().map(|key| key.1.as_str())),
            )),
        }
    };
    let order = |key: &ModelKey| {
        let row = row.map(|row| match column {
            0 => row.0.cmp(&key.0),
            _ => row.1.cmp(&key.1),
        });
        row.unwrap_or(std::cmp::Ordering::Equal)
    };
    match condition {
        Condition::OneOf(keys) => {
            let is_one = keys.iter().flatten().any(|key| order(key).is_eq());
            (KeyCondition::OneOf(array(keys)), is_one)
        }
        Condition::Range(from, to) => {
            let bound = |bound: &Bound<ModelKey>| bound.as_ref().map(|key| array(&[Some(key.clone())]));
            let above = match from {
                Bound::Unbounded => true,
                Bound::Included(key) => order(key).is_ge(),
                Bound::Excluded(key) => order(key).is_gt(),
            };
            let below = match to {
                Bound::Unbounded => true,
                Bound::Included(key) => order(key).is_le(),
                Bound::Excluded(key) => order(key).is_lt(),
            };
            (KeyCondition::Range(bound(from), bound(to)), above && below)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn ranges_hold_all_rows_that_match(
        rows in proptest::collection::btree_map((-3i16..4, text()), proptest::option::of(0i32..9), 0..60),
        conditions in proptest::collection::vec((0usize..2, condition()), 0..4),
    ) {
        let opened = open();
        let rows: Vec<ModelRow> = rows.into_iter().map(|((a, b), c)| (a, b, c)).collect();
        let batch = batch_of(&rows);
        let definition = TableDefinition::new("t", &batch.schema(), &["a", "b"]).unwrap();
        let table = opened.tables.create(definition).unwrap();
        write(&table, &batch);
        let given: Vec<_> = conditions.iter().map(|(at, c)| (*at, translate(*at, c, None).0)).collect();
        let read = opened.read(&table, &given).map_or_else(Vec::new, |batch| rows_of(&batch));
        prop_assert!(read.is_sorted_by(|a, b| (a.0, &a.1) < (b.0, &b.1)));
        for row in &rows {
            let matches = conditions.iter().all(|(at, c)| translate(*at, c, Some(row)).1);
            prop_assert!(!matches || read.contains(row), "{row:?} is missing");
        }
        // Conditions on the first column alone select nothing else, unless two lists are given.
        if let [(0, condition)] = conditions.as_slice() {
            prop_assert!(read.iter().all(|row| translate(0, condition, Some(row)).1));
        }
    }
}

#[test]
fn columns_that_were_added_have_their_initial_value_in_old_rows() {
    let opened = open();
    let old = batch_of(&[(1, "x".into(), Some(7))]);
    let definition = TableDefinition::new("t", &old.schema(), &["b"]).unwrap();
    let table = opened.tables.create(definition).unwrap();
    write(&table, &old);
    let initial: ArrayRef = Arc::new(Int32Array::from(vec![42]));
    let add = |definition: &mut TableDefinition| {
        definition.add_column(&Field::new("d", DataType::Int32, true), Some(initial.clone()))?;
        definition.add_column(&Field::new("e", DataType::Int32, true), None)?;
        definition.rename_column(0, "first");
        Ok(())
    };
    opened.tables.alter("t", add).unwrap();
    opened.tables.rename("t", "u").unwrap();
    assert!(opened.tables.table("t").is_none());
    let tables = KeyedTables::open(&opened.stores).unwrap();
    let batch = opened.read(&tables.table("u").unwrap(), &[]).unwrap();
    assert_eq!(batch.schema().field(0).name(), "first");
    assert_eq!(batch.column(3), &initial);
    assert_eq!(batch.column(4).null_count(), 1);
}

#[test]
fn transactions_read_what_they_wrote() {
    let opened = open();
    let batch = batch_of(&[(1, "x".into(), Some(7)), (2, "y".into(), None)]);
    let definition = TableDefinition::new("t", &batch.schema(), &["a"]).unwrap();
    let table = opened.tables.create(definition).unwrap();
    let mut transaction = opened.stores.begin_with(Isolation::Serializable);
    for row in table.encode(&batch).unwrap() {
        transaction.put(table.store(), row.key, row.value).unwrap();
    }
    let view = KeyedView::Transaction(Arc::new(Mutex::new(transaction)));
    let mut scan = table.scan(&view, table.ranges(&[]).unwrap(), &[0, 1, 2]);
    assert_eq!(scan.next_batch(9).unwrap().unwrap(), batch);
    assert!(opened.read(&table, &[]).is_none());
}

#[test]
fn what_is_wrong_is_named() {
    let opened = open();
    let batch = batch_of(&[(1, "x".into(), None)]);
    let error = |key: &[&str]| {
        TableDefinition::new("t", &batch.schema(), key)
            .unwrap_err()
            .to_string()
    };
    assert!(error(&[]).contains("names no column"));
    assert!(error(&["a", "a"]).contains("(a, a) names a column twice"));
    assert!(error(&["z"]).contains("the table does not have"));
    let list = Field::new_list("l", Field::new_list_field(DataType::Int8, true), true);
    let schema = arrow_schema::Schema::new(vec![Field::new("a", DataType::Int8, true), list]);
    let error = TableDefinition::new("t", &schema, &["a"]).unwrap_err();
    assert!(matches!(error, KeyedError::Type { column, .. } if column == "l"));

    let table = opened
        .tables
        .create(TableDefinition::new("t", &batch.schema(), &["b"]).unwrap())
        .unwrap();
    let again = TableDefinition::new("t", &batch.schema(), &["b"]).unwrap();
    assert!(matches!(
        opened.tables.create(again),
        Err(KeyedError::Exists { .. })
    ));
    let long = batch_of(&[(1, "x".into(), None), (1, "y".repeat(1_023), None)]);
    let error = table.encode(&long).unwrap_err();
    assert!(
        matches!(
            error,
            KeyedError::KeyTooLong {
                row: 2,
                bytes: 1_025,
                ..
            }
        ),
        "{error}"
    );
    table.store().put("no row", "").unwrap();
    let view = KeyedView::Snapshot(opened.stores.snapshot());
    let read = table.scan(&view, table.ranges(&[]).unwrap(), &[0]).next_batch(1);
    assert!(matches!(read, Err(KeyedError::Damaged { .. })), "{read:?}");

    opened.tables.drop_table("t").unwrap();
    assert!(matches!(
        opened.tables.drop_table("t"),
        Err(KeyedError::NoTable { .. })
    ));
    assert_eq!(opened.tables.names(), Vec::<String>::new());
    assert_eq!(opened.stores.names(), ["sql/tables"]);
}
