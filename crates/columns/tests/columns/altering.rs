//! Changes of a table one by one: what they share, what they refuse, and tables of the earlier program.

use crate::common::{assert_same, dram_pool};
use crate::model::read;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use halocline_columns::{
    CodePredicate, ColumnsError, Table, TableOptions, TableProperties, TableWriter, add_column, create_table,
    delete_rows, rename_column, rename_table, set_cluster, truncate,
};
use halocline_pool::{ObjectKind, Pool, Txn};
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::sync::Arc;

fn batch(numbers: std::ops::Range<i64>) -> RecordBatch {
    let words = StringArray::from_iter_values(numbers.clone().map(|i| format!("word {}", i % 9)));
    let columns: [(&str, ArrayRef); 2] = [
        ("number", Arc::new(Int64Array::from_iter_values(numbers))),
        ("word", Arc::new(words)),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

/// Table `t` with segments 0, 1 and 2 of 3000 rows.
fn three_segments(pool: &Pool) -> Txn {
    let txn = pool.begin().expect("no other writer");
    create_table(&txn, "t", &batch(0..1).schema(), &TableProperties::default()).expect("storable");
    for i in 0..3 {
        append(&txn, &batch(i * 3000..(i + 1) * 3000)).expect("rows of the table");
    }
    txn
}

fn append(txn: &Txn, batch: &RecordBatch) -> Result<(), ColumnsError> {
    let mut options = TableOptions::default();
    options.chunk_rows = 1024;
    let mut writer = TableWriter::append(txn, "t", options)?;
    writer.write(batch)?;
    writer.finish().map(drop)
}

fn open(txn: &Txn) -> Table {
    Table::open_in(txn, "t").expect("there")
}

fn rows(segment: u64, rows: impl IntoIterator<Item = u32>) -> BTreeMap<u64, RoaringBitmap> {
    BTreeMap::from([(segment, rows.into_iter().collect())])
}

fn ids(table: &Table) -> Vec<u64> {
    table.segments().iter().map(|segment| segment.id()).collect()
}

#[test]
fn deleted_rows_are_left_out_and_counted_once() {
    let pool = dram_pool();
    let txn = three_segments(&pool);
    assert_eq!(
        delete_rows(&txn, "t", &rows(1, [0, 7, 1024, 2999])).expect("rows"),
        4
    );
    assert_eq!(delete_rows(&txn, "t", &rows(1, [7, 8])).expect("rows"), 1);
    assert_eq!(delete_rows(&txn, "t", &rows(1, [7, 8])).expect("rows"), 0);
    let table = open(&txn);
    assert_eq!((table.rows(), table.live_rows()), (9000, 8995));
    let segment = &table.segments()[1];
    let deleted = segment.deletions().expect("sound").expect("some");
    assert_eq!(deleted.iter().collect::<Vec<_>>(), [0, 7, 8, 1024, 2999]);
    assert_eq!(segment.count(&[], 0..3000).expect("sound"), 2995);
    let first = [(0, CodePredicate::range(0, 9))];
    let found = segment.select(&first, 0..3000).expect("sound");
    assert_eq!(found.iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 9]);
    assert_eq!(
        segment.with_deleted_rows().count(&first, 0..3000).expect("sound"),
        10
    );

    let more = segment.without_rows(&[1, 7].into_iter().collect()).expect("rows");
    assert_eq!(more.live_rows(), 2994);
    assert_eq!(more.select(&first, 0..3000).expect("sound").min(), Some(2));
    assert!(segment.without_rows(&[3000].into_iter().collect()).is_err());
    let mut segments = table.segments().to_vec();
    segments[1] = more;
    let table = table.with_segments(segments);
    assert_eq!(table.live_rows(), 8994);
}

#[test]
fn segments_go_with_their_last_row_and_no_id_comes_twice() {
    let pool = dram_pool();
    let txn = three_segments(&pool);
    let uid = open(&txn).uid();
    assert_eq!(delete_rows(&txn, "t", &rows(2, 0..3000)).expect("rows"), 3000);
    assert_eq!(ids(&open(&txn)), [0, 1]);
    append(&txn, &batch(0..5)).expect("rows of the table");
    assert_eq!(ids(&open(&txn)), [0, 1, 3]);
    truncate(&txn, "t").expect("a table");
    assert_eq!((ids(&open(&txn)), open(&txn).rows()), (vec![], 0));
    append(&txn, &batch(0..5)).expect("rows of the table");
    assert_eq!((ids(&open(&txn)), open(&txn).uid()), (vec![4], uid));

    // A table made anew is another one.
    let mut writer =
        TableWriter::new(&txn, "t", batch(0..1).schema(), TableOptions::default()).expect("storable");
    writer.write(&batch(0..5)).expect("rows of the table");
    writer.finish().expect("finished");
    assert_ne!(open(&txn).uid(), uid);
}

#[test]
fn replacing_puts_new_segments_in_the_place_of_old_ones() {
    let pool = dram_pool();
    let txn = three_segments(&pool);
    let replace = |ids: &[u64], rows: std::ops::Range<i64>| {
        let mut writer = TableWriter::replacing(&txn, "t", ids, TableOptions::default()).expect("segments");
        writer.write(&batch(rows)).expect("rows of the table");
        writer.finish().expect("finished")
    };
    assert_eq!(replace(&[1, 0], 10..20).ids, 3..4);
    assert_eq!(ids(&open(&txn)), [3, 2]);
    assert_eq!(replace(&[2], 0..0).segments, 0);
    assert_eq!(ids(&open(&txn)), [3]);
    assert_same(&read(&open(&txn), 0), batch(10..20).column(0));
    let error = TableWriter::replacing(&txn, "t", &[1], TableOptions::default()).expect_err("gone");
    assert!(
        matches!(error, ColumnsError::NoSuchSegment { segment: 1, .. }),
        "{error}"
    );
}

#[test]
fn a_new_column_shares_what_is_there() {
    let pool = dram_pool();
    let txn = three_segments(&pool);
    delete_rows(&txn, "t", &rows(1, [5])).expect("rows");
    txn.commit().expect("committed");
    let txn = pool.begin().expect("no other writer");
    let before = txn.get("table/t").expect("there");
    let zone: ArrayRef = Arc::new(StringArray::from(vec!["north"]));
    let zone_type = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8View));
    add_column(&txn, "t", &Field::new("zone", zone_type, false), Some(&zone)).expect("new");
    add_column(&txn, "t", &Field::new("extra", DataType::Float64, true), None).expect("new");
    let after = txn.get("table/t").expect("there");
    let offsets = |object: &halocline_pool::Object| -> Vec<u64> {
        (0..object.extent_count())
            .map(|i| object.extent_ref(i).offset)
            .collect()
    };
    let shared = offsets(&after)
        .iter()
        .filter(|offset| offsets(&before).contains(offset))
        .count();
    // A part of each segment and the deleted rows of one; new are directories and dictionaries.
    assert_eq!((shared, before.extent_count(), after.extent_count()), (4, 7, 10));
    let table = open(&txn);
    assert!(table.check().is_empty(), "{:?}", table.check());
    assert_eq!(
        table.schema().field(2),
        &Field::new("zone", DataType::Utf8View, false)
    );
    assert_eq!(table.segments()[1].live_rows(), 2999);
    let space = table.segments()[1]
        .column(2)
        .code_space()
        .expect("one string")
        .clone();
    assert_eq!(space.equal(&zone).expect("a string"), CodePredicate::Any);
    assert_eq!(read(&table, 3).null_count(), 8999);
}

#[test]
fn what_a_new_column_cannot_be() {
    let pool = dram_pool();
    let txn = three_segments(&pool);
    let add = |name: &str, data_type: DataType, default: Option<ArrayRef>| {
        let field = Field::new(name, data_type, false);
        add_column(&txn, "t", &field, default.as_ref()).expect_err("refused")
    };
    let null: ArrayRef = Arc::new(Int64Array::from(vec![None]));
    let error = add("x", DataType::Int64, Some(null));
    assert_eq!(
        error.to_string(),
        "column `x` is NOT NULL, and table `t` has 9000 rows that need a value; give a default, or let it be NULL"
    );
    let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    assert!(matches!(
        add("word", DataType::Int64, None),
        ColumnsError::DuplicateColumn { .. }
    ));
    let error = add("x", DataType::Int32, Some(one));
    assert!(matches!(error, ColumnsError::TypeMismatch { .. }), "{error}");
    let error = add("x", DataType::Null, None);
    assert!(matches!(error, ColumnsError::UnsupportedType { .. }), "{error}");
    let wide: ArrayRef = Arc::new(
        arrow_array::Decimal128Array::from(vec![i128::MAX / 4])
            .with_precision_and_scale(38, 0)
            .expect("38 digits"),
    );
    let error = add("x", DataType::Decimal128(38, 1), Some(wide));
    assert!(matches!(error, ColumnsError::TypeMismatch { .. }), "{error}");
    assert_eq!(open(&txn).schema().fields().len(), 2);
}

#[test]
fn names_change_and_are_free_or_refused() {
    let pool = dram_pool();
    let txn = three_segments(&pool);
    let uid = open(&txn).uid();
    set_cluster(&txn, "t", Some(&["word".into(), "number".into()])).expect("columns");
    rename_column(&txn, "t", "word", "name").expect("a column");
    assert_eq!(
        open(&txn).cluster(),
        Some(&["name".to_owned(), "number".to_owned()][..])
    );
    rename_table(&txn, "t", "u").expect("free");
    let table = Table::open_in(&txn, "u").expect("renamed");
    assert_eq!((table.uid(), table.rows()), (uid, 9000));
    assert!(matches!(
        Table::open_in(&txn, "t"),
        Err(ColumnsError::NoSuchTable { .. })
    ));
    set_cluster(&txn, "u", None).expect("a table");
    assert_eq!(Table::open_in(&txn, "u").expect("there").cluster(), None);

    let error = rename_column(&txn, "u", "word", "x").expect_err("gone");
    assert!(matches!(error, ColumnsError::NoSuchColumn { .. }), "{error}");
    let error = rename_column(&txn, "u", "name", "number").expect_err("taken");
    assert!(matches!(error, ColumnsError::DuplicateColumn { .. }), "{error}");
    let error = rename_table(&txn, "u", "u").expect_err("taken");
    assert!(matches!(error, ColumnsError::TableExists { .. }), "{error}");
    let properties = TableProperties {
        cluster: Some(vec!["a".into(), "a".into()]),
        ..TableProperties::default()
    };
    let schema = Schema::new(vec![Field::new("a", DataType::Int8, true)]);
    let error = create_table(&txn, "v", &schema, &properties).expect_err("twice");
    assert!(matches!(error, ColumnsError::DuplicateColumn { .. }), "{error}");
    let error = create_table(&txn, "u", &schema, &TableProperties::default()).expect_err("taken");
    assert!(matches!(error, ColumnsError::TableExists { .. }), "{error}");
    assert!(truncate(&txn, "v").is_err());
}

#[test]
fn wrong_rows_are_refused_and_named() {
    let pool = dram_pool();
    let txn = three_segments(&pool);
    let error = delete_rows(&txn, "t", &rows(1, [4, 3000])).expect_err("beyond");
    assert_eq!(
        error.to_string(),
        "table `t`, segment 1 has 3000 rows, none of number 3000; open the table again"
    );
    let error = delete_rows(&txn, "t", &rows(7, [4])).expect_err("no segment");
    assert!(
        matches!(error, ColumnsError::NoSuchSegment { segment: 7, .. }),
        "{error}"
    );
    let nulls = RecordBatch::try_from_iter_with_nullable([
        (
            "a",
            Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef,
            true,
        ),
        ("b", Arc::new(StringArray::from(vec!["x", "y"])) as ArrayRef, true),
    ]);
    let error = append(&txn, &nulls.expect("two columns")).expect_err("NULL");
    assert_eq!(
        error.to_string(),
        "column `number`, row 1: NULL in a NOT NULL column"
    );
    let error = append(&txn, &batch(0..1).project(&[0]).expect("a column")).expect_err("one column");
    assert!(matches!(error, ColumnsError::ColumnCount { .. }), "{error}");
    assert_eq!(open(&txn).rows(), 9000);
}

#[test]
fn a_table_of_version_1_is_read_and_changed() {
    let pool = dram_pool();
    let txn = three_segments(&pool);
    let object = txn.get("table/t").expect("there");
    let extents: Vec<_> = (0..object.extent_count()).map(|i| object.extent_ref(i)).collect();
    let old = br#"{"v":1,"columns":[{"name":"number","type":"i64","nullable":false},
        {"name":"word","type":"utf8","nullable":false}],
        "segments":[{"rows":3000,"extents":2},{"rows":3000,"extents":2},{"rows":3000,"extents":2}]}"#;
    txn.put("table/t", ObjectKind::TABLE, old, extents.clone())
        .expect("known extents");
    txn.put("table/u", ObjectKind::TABLE, old, extents)
        .expect("known extents");
    let before = open(&txn);
    assert_eq!(ids(&before), [0, 1, 2]);
    assert_ne!(before.uid(), Table::open_in(&txn, "u").expect("there").uid());
    delete_rows(&txn, "t", &rows(1, [4])).expect("rows");
    append(&txn, &batch(0..5)).expect("rows of the table");
    let after = open(&txn);
    assert_eq!((after.uid(), ids(&after)), (before.uid(), vec![0, 1, 2, 3]));
    assert_eq!(after.live_rows(), 9004);
    assert!(after.check().is_empty(), "{:?}", after.check());
}

#[test]
fn descriptions_that_contradict_themselves_are_damaged() {
    let pool = dram_pool();
    let txn = three_segments(&pool);
    delete_rows(&txn, "t", &rows(1, [4])).expect("rows");
    let object = txn.get("table/t").expect("there");
    let extents: Vec<_> = (0..object.extent_count()).map(|i| object.extent_ref(i)).collect();
    let meta = String::from_utf8(object.meta().to_vec()).expect("JSON");
    let changes = [
        ("\"next_segment\":3", "\"next_segment\":2"),
        ("\"id\":1", "\"id\":2"),
        ("\"extents\":3", "\"extents\":2"),
        ("\"deleted\":1", "\"deleted\":3000"),
        ("\"deleted\":1", "\"deleted\":0"),
        ("\"rows\":3000", "\"rows\":3001"),
        ("\"deleted\":1", "\"deleted\":2"),
    ];
    for (from, to) in changes {
        assert!(meta.contains(from), "{meta}");
        let wrong = meta.replacen(from, to, 1);
        txn.put("table/t", ObjectKind::TABLE, wrong.as_bytes(), extents.clone())
            .expect("known extents");
        let error = match Table::open_in(&txn, "t") {
            Err(error) => error,
            // A wrong number of deleted rows is seen when they are read.
            Ok(table) => table.check().pop().expect("damage"),
        };
        assert!(matches!(error, ColumnsError::Damaged { .. }), "{to}: {error}");
    }
}
