//! Defaults of columns: every value comes back, changes of the table keep them, and what is none is refused.

use crate::common::{Shape, assert_same, dram_pool, random_array, types};
use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, new_null_array};
use arrow_schema::{DataType, Field, Schema};
use halocline_columns::compact::{MergeOptions, merge};
use halocline_columns::{
    ColumnsError, Table, TableOptions, TableProperties, TableWriter, add_column, create_table, delete_rows,
    rename_column, rename_table, set_cluster, set_default, truncate,
};
use halocline_pool::{ObjectKind, Txn};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Table `t` with the columns `a` and `b`, of which `b` has a default.
fn table(txn: &Txn) {
    let schema = Schema::new(vec![
        Field::new("a", DataType::Int64, false),
        Field::new("b", DataType::Utf8View, false),
    ]);
    create_table(txn, "t", &schema, &TableProperties::default()).expect("storable");
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a text that does not fit a view"]));
    set_default(txn, "t", "b", Some(&text)).expect("a text");
}

fn append(txn: &Txn, name: &str, rows: std::ops::Range<i64>) {
    let texts = StringArray::from_iter_values(rows.clone().map(|i| i.to_string()));
    let columns: [(&str, ArrayRef); 2] = [
        ("a", Arc::new(Int64Array::from_iter_values(rows))),
        ("b", Arc::new(texts)),
    ];
    let mut writer = TableWriter::append(txn, name, TableOptions::default()).expect("a table");
    writer
        .write(&RecordBatch::try_from_iter(columns).expect("columns of one length"))
        .expect("rows of the table");
    writer.finish().expect("finished");
}

fn meta(txn: &Txn) -> String {
    let object = txn.get("table/t").expect("there");
    String::from_utf8(object.meta().to_vec()).expect("JSON")
}

#[test]
fn values_of_every_type_come_back() {
    let pool = dram_pool();
    for (seed, distinct) in [(1, 0), (2, 0), (3, 0), (4, 9)] {
        let txn = pool.begin().expect("no other writer");
        let types = types();
        let field = |(i, data_type): (usize, &DataType)| Field::new(format!("c{i}"), data_type.clone(), true);
        let schema = Schema::new(types.iter().enumerate().map(field).collect::<Vec<_>>());
        let name = format!("t{seed}");
        create_table(&txn, &name, &schema, &TableProperties::default()).expect("storable");
        let shape = Shape {
            distinct,
            nulls: 0,
            seed,
        };
        let values: Vec<ArrayRef> = types.iter().map(|t| random_array(t, 1, shape)).collect();
        for (i, value) in values.iter().enumerate() {
            set_default(&txn, &name, &format!("c{i}"), Some(value)).expect("a value of the type");
        }
        txn.commit().expect("committed");
        let table = Table::open(&pool.snapshot().expect("open"), &name).expect("there");
        for (i, value) in values.iter().enumerate() {
            assert_same(table.default_value(i).expect("a default"), value);
        }
    }
}

#[test]
fn changes_of_the_table_keep_them() {
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    table(&txn);
    append(&txn, "t", 0..2000);
    append(&txn, "t", 2000..2500);
    delete_rows(&txn, "t", &BTreeMap::from([(0, (0..100).collect())])).expect("rows");
    set_cluster(&txn, "t", Some(&["a".into()])).expect("a column");
    let number: ArrayRef = Arc::new(Int32Array::from(vec![-7]));
    add_column(&txn, "t", &Field::new("c", DataType::Int32, true), Some(&number)).expect("new");
    let open = |name: &str| Table::open_in(&txn, name).expect("there");
    assert!(open("t").default_value(2).is_none(), "only rows that are there");
    set_default(&txn, "t", "c", Some(&number)).expect("a number");
    rename_column(&txn, "t", "c", "number").expect("free");
    merge(&txn, "t", &[0, 1], &MergeOptions::default()).expect("segments");
    rename_table(&txn, "t", "u").expect("free");
    truncate(&txn, "u").expect("there");
    let text: ArrayRef = Arc::new(arrow_array::StringViewArray::from(vec![
        "a text that does not fit a view",
    ]));
    let of_others = open("u").with_segments(vec![]);
    for table in [open("u"), of_others] {
        assert!(table.default_value(0).is_none());
        assert_same(table.default_value(1).expect("a text"), &text);
        assert_same(table.default_value(2).expect("a number"), &number);
    }
}

#[test]
fn only_tables_with_defaults_are_of_version_3() {
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    table(&txn);
    assert!(meta(&txn).starts_with("{\"v\":3,"), "{}", meta(&txn));
    let null = new_null_array(&DataType::Utf8, 1);
    set_default(&txn, "t", "b", Some(&null)).expect("NULL is none");
    assert!(
        meta(&txn).starts_with("{\"v\":2,") && !meta(&txn).contains("default"),
        "{}",
        meta(&txn)
    );
    assert!(
        Table::open_in(&txn, "t")
            .expect("there")
            .default_value(1)
            .is_none()
    );
    // Rows whose chunks are encoded make it version 4, whatever its defaults.
    append(&txn, "t", 0..10);
    assert!(meta(&txn).starts_with("{\"v\":4,"), "{}", meta(&txn));
}

#[test]
fn what_is_no_default_is_refused() {
    let pool = dram_pool();
    let txn = pool.begin().expect("no other writer");
    table(&txn);
    let number: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let set = |column: &str| set_default(&txn, "t", column, Some(&number)).expect_err("refused");
    assert!(matches!(set("c"), ColumnsError::NoSuchColumn { .. }));
    assert!(matches!(set("a"), ColumnsError::TypeMismatch { .. }));
    assert!(matches!(set("b"), ColumnsError::TypeMismatch { .. }));
    let right = meta(&txn);
    let text = "{\"text\":\"a text that does not fit a view\"}";
    assert!(right.contains(text), "{right}");
    for wrong in ["{\"key\":1}", "{\"bytes\":[1]}", "{\"other\":1}", "7"] {
        let wrong = right.replace(text, wrong);
        txn.put("table/t", ObjectKind::TABLE, wrong.as_bytes(), vec![])
            .expect("a description");
        let error = Table::open_in(&txn, "t").expect_err("damaged");
        assert!(matches!(error, ColumnsError::Damaged { .. }), "{error}");
    }
}
