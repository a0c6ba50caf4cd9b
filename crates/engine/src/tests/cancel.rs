//! Statements that are cancelled while they commit.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use halocline_catalog::transaction::Transaction;
use halocline_explore::Tracked;
use halocline_sql::cancel::NEVER;

use super::model::runtime;
use super::{check, create, rows, small, sorted};
use crate::statement::{build_index, insert_batch};
use crate::{Compaction, Database, EngineError, IndexSpec, Layout, Order};

fn batch(numbers: Range<i64>) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    RecordBatch::try_from_iter([("i", numbers)]).unwrap()
}

/// Inserts more rows than a record of the log holds.
fn insert(transaction: &mut Transaction, table: &str) -> Result<u64, EngineError> {
    insert_batch(transaction, table, &batch(100..150), None)
}

/// Returns the generation of the pool and its bytes in use.
fn state(db: &Database) -> (u64, u64) {
    let pool = db.info().unwrap().pool;
    (pool.generation, pool.used_bytes)
}

#[test]
fn a_cancelled_commit_leaves_nothing() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let db = create(&medium, Compaction::Off, small(None));
    let run = |text: &str| runtime().block_on(rows(&db, text)).unwrap();
    // One table has an index to bring up to date, the other has none.
    for table in ["t", "u"] {
        run(&format!("CREATE TABLE {table} (i bigint)"));
    }
    run("CREATE INDEX x ON t (i)");
    for table in ["t", "u"] {
        db.insert(table, &batch(0..50)).unwrap();
    }
    let now = AtomicBool::new(true);
    let before = state(&db);
    let (session, engine) = (&db.session, &db.engine);
    for table in ["t", "u"] {
        let ended = session.change(engine, "insert", &now, |transaction| insert(transaction, table));
        assert!(matches!(ended, Err(EngineError::Cancelled)), "{ended:?}");

        run("BEGIN");
        session
            .change(engine, "insert", &NEVER, |transaction| insert(transaction, table))
            .unwrap();
        let ended = session.slot().commit(&now);
        assert!(matches!(ended, Err(EngineError::Cancelled)), "{ended:?}");
        assert!(!db.in_transaction());
    }
    let spec = IndexSpec::new("y", "t", ["i"])
        .with_layout(Layout::Packed)
        .with_order(Order::Auto);
    let ended = session.change(engine, "CREATE INDEX", &NEVER, |transaction| {
        build_index(transaction, &spec, false, false, &now)
    });
    assert!(matches!(ended, Err(EngineError::Cancelled)), "{ended:?}");
    assert_eq!(state(&db), before);
    // What is a record of the log is done before anyone could want its end.
    db.insert("t", &batch(50..51)).unwrap();
    let one = |transaction: &mut Transaction| insert_batch(transaction, "t", &batch(51..52), None);
    session.change(engine, "insert", &now, one).unwrap();
    check(&db).unwrap();

    db.insert("t", &batch(52..99)).unwrap();
    db.create_index(&spec).unwrap();
    for (mode, table, expected) in [
        ("off", "t", "99|4851|"),
        ("force", "t", "99|4851|"),
        ("off", "u", "50|1225|"),
    ] {
        run(&format!("SET halocline.index = {mode}"));
        let found = run(&format!("SELECT count(*), sum(i) FROM {table} WHERE i >= 0"));
        assert_eq!(sorted(&found), [expected], "{mode}, {table}");
    }
    check(&db).unwrap();
}
