//! The list of tables: creation and drop, each of them whole or not at all.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use halocline_keyed::{KeyedError, KeyedTables, KeyedView, TableDefinition};
use halocline_pool::Pool;
use halocline_store::{LoadOptions, StoreError, Stores};

fn definition(name: &str) -> TableDefinition {
    TableDefinition::new(name, &rows().schema(), &["a"]).unwrap()
}

fn rows() -> RecordBatch {
    let a: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    RecordBatch::try_from_iter([("a", a)]).unwrap()
}

fn stores_with_rows(stores: &Stores) -> usize {
    let names = stores.names();
    names.iter().filter(|name| name.starts_with("sql/rows/")).count()
}

#[test]
fn tables_are_filled_before_they_are_published() {
    let directory = tempfile::tempdir().unwrap();
    let pool = Pool::create(directory.path().join("p"), &Default::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let tables = KeyedTables::open(&stores).unwrap();
    let fill = |name: &str| {
        let unpublished = tables.prepare(definition(name)).unwrap();
        for row in unpublished.table().encode(&rows()).unwrap() {
            unpublished.table().store().put(row.key, row.value).unwrap();
        }
        unpublished
    };
    let (first, second, given_up) = (fill("t"), fill("t"), fill("u"));
    let between = tables.create(definition("v")).unwrap();
    assert!(between.store().is_empty());
    assert_eq!((tables.names(), stores_with_rows(&stores)), (vec!["v".into()], 4));
    drop(given_up);
    assert_eq!(tables.publish(first, false).unwrap().store().len(), 3);
    let taken = tables.publish(second, false).unwrap_err();
    assert!(matches!(taken, KeyedError::Exists { name } if name == "t"));
    assert_eq!((tables.names().len(), stores_with_rows(&stores)), (2, 2));
    let old = tables.table("t").unwrap();
    let new = tables
        .publish(tables.prepare(definition("t")).unwrap(), true)
        .unwrap();
    assert_eq!((new.store().len(), stores_with_rows(&stores)), (0, 2));
    assert!(old.store().put("k", "v").is_err(), "the replaced rows are gone");
    // As a crash leaves it.
    std::mem::forget(fill("w"));
    let reopened = KeyedTables::open(&stores).unwrap();
    assert_eq!((reopened.names(), stores_with_rows(&stores)), (tables.names(), 2));
}

#[test]
fn several_tables_are_dropped_together() {
    let directory = tempfile::tempdir().unwrap();
    let pool = Pool::create(directory.path().join("p"), &Default::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let tables = KeyedTables::open(&stores).unwrap();
    for name in ["a", "b", "c", "d"] {
        tables.create(definition(name)).unwrap();
    }
    let missing = tables.drop_tables(&["a", "x"]).unwrap_err();
    assert!(matches!(missing, KeyedError::NoTable { name } if name == "x"));
    assert_eq!(tables.names(), ["a", "b", "c", "d"]);
    tables.drop_tables(&["a", "c"]).unwrap();
    assert_eq!(
        (tables.names().join(" "), stores_with_rows(&stores)),
        ("b d".into(), 2)
    );

    #[derive(Debug)]
    struct Failure;
    impl From<KeyedError> for Failure {
        fn from(_: KeyedError) -> Self {
            Self
        }
    }
    impl From<StoreError> for Failure {
        fn from(_: StoreError) -> Self {
            Self
        }
    }
    tables
        .drop_tables_with(&["b", "d"], |_| Err(Failure))
        .unwrap_err();
    assert_eq!(
        (tables.names().join(" "), stores_with_rows(&stores)),
        ("b d".into(), 2)
    );
    let decide = |batch: &halocline_store::DecidedBatch| {
        let txn = pool.begin().map_err(|_| Failure)?;
        batch.put_into(&txn).map_err(|_| Failure)?;
        txn.commit().map(drop).map_err(|_| Failure)
    };
    tables.drop_tables_with(&["b", "d"], decide).unwrap();
    assert_eq!((tables.names().len(), stores_with_rows(&stores)), (0, 0));
    assert!(KeyedTables::open(&stores).unwrap().names().is_empty());
}

fn numbers(values: impl IntoIterator<Item = i32>) -> RecordBatch {
    let a: ArrayRef = Arc::new(values.into_iter().collect::<Int32Array>());
    RecordBatch::try_from_iter([("a", a)]).unwrap()
}

fn options() -> LoadOptions {
    LoadOptions::new(0, Arc::new(tempfile::tempfile))
}

#[test]
fn tables_are_loaded_in_any_order() {
    let directory = tempfile::tempdir().unwrap();
    let pool = Pool::create(directory.path().join("p"), &Default::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let tables = KeyedTables::open(&stores).unwrap();
    let mut load = tables.load(definition("t"), options()).unwrap();
    for part in (0..20).rev() {
        load.add(&numbers(part * 1000..(part + 1) * 1000)).unwrap();
    }
    assert_eq!((load.rows(), stores_with_rows(&stores)), (20_000, 0));
    assert!(load.table().store().get("k").is_err());
    let unpublished = load.finish(&AtomicBool::new(false)).unwrap();
    assert_eq!((tables.names().len(), stores_with_rows(&stores)), (0, 1));
    let table = tables.publish(unpublished, false).unwrap();
    let mut scan = table.scan(
        &KeyedView::Snapshot(stores.snapshot()),
        table.ranges(&[]).unwrap(),
        &[0],
    );
    let mut found = Vec::new();
    while let Some(batch) = scan.next_batch(1000).unwrap() {
        found.extend_from_slice(batch.column(0).as_primitive::<Int32Type>().values());
    }
    assert!(found.into_iter().eq(0..20_000));
    // What is not finished or not published leaves nothing.
    let mut load = tables.load(definition("u"), options()).unwrap();
    load.add(&rows()).unwrap();
    drop(load);
    let mut load = tables.load(definition("u"), options()).unwrap();
    load.add(&rows()).unwrap();
    drop(load.finish(&AtomicBool::new(false)).unwrap());
    assert_eq!((tables.names().len(), stores_with_rows(&stores)), (1, 1));
}

#[test]
fn rows_with_a_key_twice_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let pool = Pool::create(directory.path().join("p"), &Default::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let tables = KeyedTables::open(&stores).unwrap();
    for order in [[1, 2, 2], [2, 1, 2]] {
        let mut load = tables.load(definition("t"), options()).unwrap();
        load.add(&numbers(order)).unwrap();
        let table = Arc::clone(load.table());
        let error = load.finish(&AtomicBool::new(false)).unwrap_err();
        let KeyedError::Store {
            source: StoreError::DuplicateKey { key, pair, .. },
            ..
        } = error
        else {
            panic!("{error}");
        };
        let values = table.decode_key(&key).unwrap();
        assert_eq!((values[0].as_primitive::<Int32Type>().value(0), pair), (2, 3));
        assert_eq!(stores_with_rows(&stores), 0);
    }
}

#[test]
fn tables_without_rows_are_replaced_by_loaded_ones() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    let pool = Pool::create(&path, &Default::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let tables = KeyedTables::open(&stores).unwrap();
    let loaded = || {
        let mut load = tables.load(definition("t"), options()).unwrap();
        load.add(&rows()).unwrap();
        load.finish(&AtomicBool::new(false)).unwrap()
    };
    let empty = tables.create(definition("t")).unwrap();
    let row = empty.encode(&numbers([9])).unwrap().remove(0);
    empty.store().put(&row.key, &row.value).unwrap();
    let refused = tables
        .publish_in_place_of(loaded(), &empty, stores.begin())
        .unwrap_err();
    assert!(matches!(refused, KeyedError::Changed { .. }), "{refused}");
    empty.store().delete(&row.key).unwrap();
    let before = tables
        .publish(tables.prepare(definition("t")).unwrap(), true)
        .unwrap();
    let refused = tables
        .publish_in_place_of(loaded(), &empty, stores.begin())
        .unwrap_err();
    assert!(matches!(refused, KeyedError::Changed { .. }), "{refused}");
    let after = tables
        .publish_in_place_of(loaded(), &before, stores.begin())
        .unwrap();
    assert_eq!((after.store().len(), stores_with_rows(&stores)), (3, 2));
    assert!(
        before.store().put("k", "v").is_err(),
        "nobody writes to the old rows"
    );
    assert!(before.store().get("k").unwrap().is_none(), "but they can be read");
    drop(before);
    drop(tables.create(definition("u")).unwrap());
    assert_eq!(stores_with_rows(&stores), 2);
    drop((empty, after, tables, stores));
    let stores = Stores::open(&pool).unwrap();
    let tables = KeyedTables::open(&stores).unwrap();
    assert_eq!(tables.table("t").unwrap().store().len(), 3);
}
