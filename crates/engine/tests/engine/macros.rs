//! Macros: what their calls become, and what is refused.

use halocline_engine::{Database, DatabaseOptions};

use super::support::{error, new_pool, query, reopen, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_become_expressions() {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i AS a, 'row ' || i AS s FROM generate_series(1, 5) AS g(i)",
    )
    .await;
    assert_eq!(
        run(&db, "CREATE MACRO add(x, y := 10) AS x + y").await,
        "macro add"
    );
    assert_eq!(
        query(&db, "SELECT add(1, 2), add(1), add(y := 5, x := 1)").await,
        ["3|11|6"]
    );
    // Arguments keep together.
    run(&db, "CREATE MACRO twice(x) AS x * 2").await;
    assert_eq!(
        query(
            &db,
            "SELECT twice(1 + 2), -twice(2), add(twice(3), twice(add(1, 1)))"
        )
        .await,
        ["6|-4|10"]
    );
    assert_eq!(
        query(
            &db,
            "SELECT add(a) AS n FROM t WHERE twice(a) > 5 ORDER BY add(a) DESC LIMIT 2"
        )
        .await,
        ["15", "14"]
    );
    run(&db, "CREATE MACRO total(x) AS sum(x) FILTER (WHERE x > 1)").await;
    assert_eq!(
        query(
            &db,
            "SELECT total(a), a % 2 AS odd FROM t GROUP BY odd ORDER BY odd"
        )
        .await,
        ["6|0", "8|1"]
    );
    run(
        &db,
        "CREATE FUNCTION half(x int) RETURNS decimal(10, 1) RETURN x / 2.0",
    )
    .await;
    assert_eq!(
        query(&db, "SELECT half('7'), arrow_typeof(half(1))").await,
        ["3.5|Decimal128(10, 1)"]
    );
    run(&db, "CREATE MACRO largest() AS (SELECT max(a) FROM t)").await;
    assert_eq!(query(&db, "SELECT largest() + 1").await, ["6"]);
    // They are called wherever expressions are.
    run(&db, "UPDATE t SET a = add(a, largest()) WHERE twice(a) = 4").await;
    assert_eq!(query(&db, "SELECT a FROM t WHERE s = 'row 2'").await, ["7"]);
    run(&db, "INSERT INTO t VALUES (add(90), 'new')").await;
    run(&db, "DELETE FROM t WHERE a = twice(50)").await;
    assert_eq!(query(&db, "SELECT count(*) FROM t").await, ["5"]);
    run(
        &db,
        "CREATE VIEW v AS SELECT twice(a) AS b FROM t WHERE a = largest()",
    )
    .await;
    assert_eq!(query(&db, "SELECT b FROM v").await, ["14"]);
    // A column has the text of the call as its name.
    let columns = db
        .sql("SELECT add(1, 2), add(1) + 1 FROM t")
        .await
        .unwrap()
        .schema();
    let names: Vec<&str> = columns
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    assert_eq!(names, ["add(1, 2)", "add(1) + 1"]);
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    assert_eq!(query(&db, "SELECT add(1), b FROM v").await, ["11|14"]);
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
    let info = db.info().unwrap();
    assert_eq!(
        info.macros[0].statement,
        "CREATE MACRO \"add\"(x, y := 10) AS x + y"
    );
    assert_eq!(
        info.macros[1].statement,
        "CREATE MACRO half(x INT) RETURNS DECIMAL(10,1) AS x / 2.0"
    );
}

async fn numbers() -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i AS a FROM generate_series(1, 100) AS g(i)",
    )
    .await;
    run(&db, "CREATE MACRO m(x) AS x + 1").await;
    (dir, db)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_follow_a_replaced_macro() {
    let (_dir, db) = numbers().await;
    let other = db.session();
    run(&db, "PREPARE p AS SELECT count(*) FROM t WHERE m(a) <= $1").await;
    let texts = [
        "SELECT a FROM t WHERE a = m(6)",
        "SELECT count(*) FROM t x JOIN t y ON x.a = m(y.a)",
    ];
    for _ in 0..3 {
        assert_eq!(query(&db, texts[0]).await, ["7"]);
        assert_eq!(query(&db, texts[1]).await, ["99"]);
        assert_eq!(query(&db, "EXECUTE p (11)").await, ["10"]);
    }
    run(&other, "CREATE OR REPLACE MACRO m(x) AS x + 50").await;
    for _ in 0..3 {
        assert_eq!(query(&db, texts[0]).await, ["56"]);
        assert_eq!(query(&db, texts[1]).await, ["50"]);
        assert_eq!(query(&db, "EXECUTE p (60)").await, ["10"]);
    }
    run(&db, "BEGIN").await;
    run(&db, "CREATE OR REPLACE MACRO m(x) AS 0").await;
    run(&db, "CREATE MACRO n() AS 1").await;
    assert_eq!(query(&db, "SELECT m(7), n()").await, ["0|1"]);
    assert_eq!(query(&other, "SELECT m(7)").await, ["57"]);
    run(&db, "ROLLBACK").await;
    assert_eq!(query(&db, "SELECT m(7)").await, ["57"]);
    assert_eq!(run(&db, "DROP MACRO m").await, "dropped macro m");
    assert!(error(&db, texts[0]).await.contains("no function 'm'"));
    assert_eq!(run(&db, "DROP FUNCTION IF EXISTS m").await, "nothing to drop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_macros_and_calls_are_refused() {
    let (_dir, db) = numbers().await;
    run(&db, "CREATE MACRO n(x, y) AS m(x) * y").await;
    for (text, reason) in [
        ("CREATE MACRO m(x) AS 1", "macro 'm' exists already"),
        ("CREATE MACRO abs(x) AS 1", "function 'abs' exists already"),
        ("CREATE MACRO sum(x) AS 1", "function 'sum' exists already"),
        ("CREATE MACRO a(x, X) AS 1", "named twice"),
        ("CREATE MACRO a(x := 1, y) AS 1", "has no default"),
        ("CREATE MACRO a(x) AS x, 1", "is not an expression"),
        ("CREATE MACRO a(x) AS x FROM t", "is not an expression"),
        ("CREATE MACRO a(x) AS TABLE SELECT 1", "this form of CREATE MACRO"),
        ("CREATE MACRO a(x) AS", "this form of CREATE MACRO"),
        (
            "CREATE FUNCTION a() RETURNS int AS $$ SELECT 1 $$ LANGUAGE sql",
            "this form of CREATE MACRO",
        ),
        ("CREATE TEMP MACRO a(x) AS 1", "a temporary macro"),
        ("CREATE MACRO a(x) AS $1", "a macro has parameters of its own"),
        ("CREATE MACRO a(x) AS a(x - 1)", "it calls itself"),
        ("CREATE OR REPLACE MACRO m(x) AS n(x, 1)", "it calls itself"),
        ("SELECT n(1)", "macro n(x, y): a call does not give y"),
        ("SELECT n(1, 2, 3)", "a call has more arguments"),
        ("SELECT n(1, z := 2)", "it has no parameter z"),
        ("SELECT n(1, x := 2)", "x is given twice"),
        ("SELECT n(*)", "is not an argument"),
        ("SELECT m(a) OVER () FROM t", "without OVER"),
        (
            "DROP MACRO nothing",
            "there is no macro 'nothing' in the pool; it has m, n",
        ),
        ("DROP MACRO m CASCADE", "CASCADE"),
    ] {
        let said = error(&db, text).await;
        assert!(said.contains(reason), "{text}: {said}");
    }
    assert_eq!(query(&db, "SELECT n(1, 2)").await, ["4"]);
    assert_eq!(
        run(&db, "CREATE MACRO IF NOT EXISTS m(x) AS 1").await,
        "macro m is there already"
    );
    // Calls cannot grow without bounds.
    run(&db, "CREATE MACRO w1(x) AS x + x").await;
    let mut refused = None;
    for at in 2..=20 {
        let text = format!("CREATE MACRO w{at}(x) AS w{0}(x) + w{0}(x)", at - 1);
        if let Err(error) = db.sql(&text).await {
            refused = Some((at, error.to_string()));
            break;
        }
        if at == 6 {
            assert_eq!(query(&db, "SELECT w6(1)").await, ["64"]);
        }
    }
    let (at, said) = refused.unwrap();
    assert!(at > 6 && said.contains("too many expressions"), "{at}: {said}");
}
