//! The list of tables: creation and drop, each of them whole or not at all.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use halocline_keyed::{KeyedError, KeyedTables, TableDefinition};
use halocline_pool::Pool;
use halocline_store::{StoreError, Stores};

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
