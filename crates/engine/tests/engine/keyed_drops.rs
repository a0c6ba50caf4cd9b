//! `DROP TABLE` and `TRUNCATE` of tables with and without a primary key: all of the tables or none.

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_tables_are_emptied_or_none() {
    let (dir, db) = new_pool();
    create(&db).await;
    let rows = "SELECT (SELECT count(*) FROM k1) AS k1, (SELECT count(*) FROM k2) AS k2, \
                (SELECT count(*) FROM p1) AS p1, (SELECT count(*) FROM p2) AS p2";
    for list in [
        "k1, missing",
        "missing, k1",
        "p1, k1, missing, p2",
        "k1, k2, missing",
    ] {
        let message = error(&db, &format!("TRUNCATE {list}")).await;
        assert!(message.contains("there is no table 'missing'"), "{message}");
        assert_eq!(query(&db, rows).await, ["2|2|1|1"], "{list}");
    }
    run(&db, "BEGIN").await;
    let message = error(&db, "TRUNCATE p1, k1").await;
    assert!(message.contains("while a transaction is open"), "{message}");
    run(&db, "ROLLBACK").await;

    // Another writer keeps the tables without a key from being emptied.
    let writer = db.session();
    run(&writer, "BEGIN").await;
    run(&writer, "INSERT INTO p2 VALUES (2)").await;
    run(&db, "SET halocline.lock_wait = '50ms'").await;
    let message = error(&db, "TRUNCATE k1, p1").await;
    assert!(message.contains("writ"), "{message}");
    run(&writer, "ROLLBACK").await;
    assert_eq!(query(&db, rows).await, ["2|2|1|1"]);

    assert_eq!(
        run(&db, "TRUNCATE TABLE IF EXISTS p1, missing, k1, p1").await,
        "truncated table p1, k1"
    );
    assert_eq!(query(&db, rows).await, ["0|2|0|1"]);
    run(&db, "INSERT INTO k1 VALUES (7)").await;
    assert_eq!(run(&db, "TRUNCATE k1, k2").await, "truncated table k1, k2");
    assert_eq!(query(&db, rows).await, ["0|0|0|1"]);
    assert_eq!(
        run(&db, "TRUNCATE TABLE IF EXISTS missing").await,
        "nothing to truncate"
    );
    run(&db, "INSERT INTO k2 VALUES (7)").await;
    assert_eq!(
        run(&db, "TRUNCATE TABLE IF EXISTS k2, missing").await,
        "truncated table k2"
    );
    run(&db, "INSERT INTO k1 VALUES (8)").await;
    drop((db, writer));
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(query(&db, rows).await, ["1|0|0|1"]);
    let stores = db.stores().unwrap().names();
    let of_tables = stores.iter().filter(|name| name.starts_with("sql/rows/"));
    assert_eq!(of_tables.count(), 2, "{stores:?}");
}

/// The space of a dropped table with a key is used by other tables, and `VACUUM` gives it to the file system.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_space_of_a_dropped_table_comes_back() {
    let (_dir, db) = new_pool();
    let rows = "SELECT value AS a, repeat('x', 900) AS s FROM generate_series(1, 20000)";
    run(&db, "CREATE TABLE k (a bigint PRIMARY KEY, s text)").await;
    run(&db, &format!("INSERT INTO k {rows}")).await;
    run(&db, "CREATE TABLE other (a bigint PRIMARY KEY)").await;
    run(&db, "INSERT INTO other VALUES (1), (2)").await;
    let full = db.info().unwrap().pool;
    run(&db, "DROP TABLE k").await;
    run(&db, "VACUUM").await;
    let allocated = db.info().unwrap().pool.allocated_bytes;
    assert!(allocated < full.allocated_bytes / 2, "{allocated} of {full:?}");
    run(&db, &format!("CREATE TABLE p AS {rows}")).await;
    let len = db.info().unwrap().pool;
    assert!(len.bytes <= full.bytes, "{len:?} of {full:?}");
    assert_eq!(
        query(
            &db,
            "SELECT (SELECT sum(a) FROM other) + (SELECT count(*) FROM p)"
        )
        .await,
        ["20003"]
    );
}
