//! `DROP TABLE` of tables with and without a primary key: all are dropped or none.

use halocline_engine::{Database, DatabaseOptions};

use super::support::{error, new_pool, query, reopen, run};

async fn tables(db: &Database) -> String {
    let text = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1";
    query(db, text).await.join(" ")
}

async fn create(db: &Database) {
    for name in ["k1", "k2"] {
        run(db, &format!("CREATE TABLE {name} (a int PRIMARY KEY)")).await;
        run(db, &format!("INSERT INTO {name} VALUES (1), (2)")).await;
    }
    for name in ["p1", "p2"] {
        run(db, &format!("CREATE TABLE {name} AS SELECT 1 AS a")).await;
        run(db, &format!("CREATE INDEX i_{name} ON {name} (a)")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_tables_are_dropped_or_none() {
    let (dir, db) = new_pool();
    create(&db).await;
    let before = tables(&db).await;
    assert_eq!(before, "k1 k2 p1 p2");
    for list in [
        "k1, p1, missing",
        "missing, k1",
        "p1, k1, missing, p2",
        "k1, k2, missing",
    ] {
        let message = error(&db, &format!("DROP TABLE {list}")).await;
        assert!(message.contains("there is no table 'missing'"), "{message}");
        assert_eq!(tables(&db).await, before, "{list}");
    }
    run(&db, "BEGIN").await;
    let message = error(&db, "DROP TABLE p1, k1").await;
    assert!(message.contains("while a transaction is open"), "{message}");
    run(&db, "ROLLBACK").await;

    // Another writer keeps the tables without a key from being dropped.
    let writer = db.session();
    run(&writer, "BEGIN").await;
    run(&writer, "INSERT INTO p2 VALUES (2)").await;
    run(&db, "SET halocline.lock_wait = '50ms'").await;
    for list in ["k1, p1", "p1, k1, k2", "IF EXISTS k1, k2, p1, missing"] {
        let message = error(&db, &format!("DROP TABLE {list}")).await;
        assert!(message.contains("writ"), "{message}");
        assert_eq!(tables(&db).await, before, "{list}");
    }
    run(&writer, "ROLLBACK").await;
    let rows = "SELECT (SELECT sum(a) FROM k1) + (SELECT sum(a) FROM k2) + (SELECT sum(a) FROM p1)";
    assert_eq!(query(&db, rows).await, ["7"]);

    assert_eq!(
        run(&db, "DROP TABLE IF EXISTS k1, missing, p1, k1").await,
        "dropped table k1, p1 with index i_p1"
    );
    assert_eq!(tables(&db).await, "k2 p2");
    drop((db, writer));
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(tables(&db).await, "k2 p2");
    assert_eq!(
        run(&db, "DROP TABLE p2, k2").await,
        "dropped table p2, k2 with index i_p2"
    );
    assert_eq!(run(&db, "DROP TABLE IF EXISTS p2, k2").await, "nothing to drop");
    create(&db).await;
    assert_eq!(run(&db, "DROP TABLE k2, k1").await, "dropped table k2, k1");
    assert_eq!(tables(&db).await, "p1 p2");
    let stores = db.stores().unwrap().names();
    assert!(
        !stores.iter().any(|name| name.starts_with("sql/rows/")),
        "{stores:?}"
    );
}
