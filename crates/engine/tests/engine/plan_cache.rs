//! The plan cache: texts that differ in literals only, and what makes a plan unusable.

use halocline_engine::{Database, DatabaseOptions};

use super::support::{error, lines, new_pool, query, reopen, run};

/// The use of the plan cache that EXPLAIN ANALYZE shows.
async fn cache_use(db: &Database, text: &str) -> String {
    let plan = query(db, &format!("EXPLAIN ANALYZE {text}")).await.join("\n");
    let (_, rest) = plan
        .split_once("plan_cache=[")
        .unwrap_or_else(|| panic!("{plan}"));
    rest.split(']').next().unwrap().to_owned()
}

async fn numbers() -> Database {
    let db = Database::in_memory(&DatabaseOptions::default()).unwrap();
    run(
        &db,
        "CREATE TABLE t AS SELECT i AS a, CAST(i AS decimal(9, 2)) AS d, 'text ' || i AS s, CAST(i AS double) AS f, \
         DATE '2026-01-01' + CAST(i % 300 AS int) AS day FROM generate_series(0, 9999) AS x(i)",
    )
    .await;
    run(&db, "CREATE INDEX i ON t USING elf (a)").await;
    db
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_is_planned_once() {
    let db = numbers().await;
    let text = |a: i32| format!("SELECT s FROM t WHERE a = {a}");
    assert_eq!(cache_use(&db, &text(1)).await, "first use");
    assert_eq!(cache_use(&db, &text(2)).await, "plan added");
    assert_eq!(cache_use(&db, &text(3)).await, "hit");
    assert_eq!(query(&db, &text(4)).await, ["text 4"]);
    assert_eq!(
        query(&db, &format!("{}; -- again", text(-4))).await,
        Vec::<String>::new()
    );
    // Each session has its own plans.
    assert_eq!(cache_use(&db.session(), &text(3)).await, "first use");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn types_of_literals_matter() {
    let db = numbers().await;
    for text in [
        "SELECT a FROM t WHERE d = 8.7",
        "SELECT a FROM t WHERE d = 8.70",
        "SELECT a FROM t WHERE d = 8",
        "SELECT a FROM t WHERE d = '8'",
        "SELECT a FROM t WHERE d = 8e0",
        "SELECT a FROM t WHERE d = -8",
        "SELECT a FROM t WHERE d = 8 LIMIT 1",
    ] {
        assert_eq!(cache_use(&db, text).await, "first use", "{text}");
    }
    for (text, rows) in [
        ("SELECT a FROM t WHERE d = 9.0", 1),
        ("SELECT a FROM t WHERE d = 9.5", 0),
        ("SELECT a FROM t WHERE d = 9.00", 1),
        ("SELECT a FROM t WHERE d = 9", 1),
        ("SELECT a FROM t WHERE d = '9'", 1),
        ("SELECT a FROM t WHERE d = -9", 0),
    ] {
        for _ in 0..3 {
            assert_eq!(query(&db, text).await.len(), rows, "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_access_path_follows_the_values() {
    let db = numbers().await;
    let text = |a: i32| format!("SELECT s, d FROM t WHERE a < {a}");
    for a in [1, 2, 3] {
        query(&db, &text(a)).await;
    }
    // Of almost all rows, scan and index cost about the same: the estimate shows that they were compared anew.
    for (a, path) in [(3, "ElfScan"), (9_990, "estimated_rows=9990"), (4, "ElfScan")] {
        let plan = query(&db, &format!("EXPLAIN ANALYZE {}", text(a)))
            .await
            .join("\n");
        assert!(plan.contains(path) && plan.contains("plan_cache=[hit]"), "{plan}");
        assert!(plan.contains("columns=[s, d]"), "{plan}");
    }
    run(&db, "SET halocline.index = off").await;
    for a in [3, 3, 3] {
        let plan = query(&db, &format!("EXPLAIN ANALYZE {}", text(a)))
            .await
            .join("\n");
        assert!(
            plan.contains("PoolScan") && plan.contains("no_index=[halocline.index = off]"),
            "{plan}"
        );
    }
    run(&db, "RESET halocline.index").await;
    let plan = query(&db, &format!("EXPLAIN ANALYZE {}", text(3)))
        .await
        .join("\n");
    assert!(plan.contains("ElfScan"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analyze_shows_where_the_time_goes() {
    let db = numbers().await;
    for _ in 0..3 {
        let plan = query(&db, "EXPLAIN ANALYZE SELECT count(*) FROM t WHERE a > 5").await;
        let times = plan
            .iter()
            .find(|line| line.starts_with("Statement Times|"))
            .unwrap();
        let mut rest = times.as_str();
        for step in ["parse=", "plan=", "optimise=", "execute=", "plan_cache=["] {
            let (_, behind) = rest.split_once(step).unwrap_or_else(|| panic!("{times}"));
            rest = behind;
        }
        assert!(plan.iter().any(|line| line.contains("output_rows=")), "{plan:?}");
    }
    let plan = query(
        &db,
        "EXPLAIN ANALYZE SELECT x.a FROM t x JOIN t y ON x.a = y.a WHERE x.a = 1",
    )
    .await;
    assert!(
        plan.iter()
            .any(|line| line.contains("plan_cache=[") && line.contains("execute=")),
        "{plan:?}"
    );
    let plan = query(&db, "EXPLAIN SELECT a FROM t").await;
    assert!(!plan.iter().any(|line| line.contains("plan_cache=[")), "{plan:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_depends_on_more_than_its_literals_is_planned_each_time() {
    let db = numbers().await;
    run(&db, "CREATE TABLE u AS SELECT 1 AS a").await;
    for text in [
        "SELECT a FROM t WHERE day < now() AND a = 1",
        "SELECT a, random() FROM t WHERE a = 1",
        "SELECT a FROM t WHERE a = 1 AND a IN (SELECT a FROM u WHERE random() < 2)",
        "SELECT t.a FROM t JOIN u ON t.a = u.a WHERE t.day < now()",
        "SELECT * FROM generate_series(1, 3)",
        "SELECT table_name FROM information_schema.tables",
    ] {
        for _ in 0..3 {
            let seen = cache_use(&db, text).await;
            assert!(seen == "first use" || seen == "not used", "{text}: {seen}");
        }
        let before = query(&db, text).await.len();
        assert_eq!(query(&db, text).await.len(), before);
    }
    let now = "SELECT arrow_typeof(a), now() FROM t WHERE a = 1";
    let first = query(&db, now).await;
    let second = query(&db, now).await;
    let third = query(&db, now).await;
    assert!(
        first != second && second != third,
        "{first:?} {second:?} {third:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cache_can_be_switched_off() {
    let db = numbers().await;
    let text = "SELECT s FROM t WHERE a = 17";
    for _ in 0..3 {
        assert_eq!(query(&db, text).await, ["text 17"]);
    }
    assert_eq!(cache_use(&db, text).await, "hit");
    run(&db, "SET halocline.plan_cache = off").await;
    for _ in 0..3 {
        assert_eq!(cache_use(&db, text).await, "not used");
        assert_eq!(query(&db, text).await, ["text 17"]);
    }
    run(&db, "SET halocline.plan_cache = on").await;
    // Plans made with other settings are not used.
    assert_eq!(cache_use(&db, text).await, "plan added");
    let text = error(&db, "SET halocline.plan_cache = perhaps").await;
    assert!(
        text.contains("halocline.plan_cache is on or off, not 'perhaps'"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_types_of_the_answer_are_the_same() {
    let db = numbers().await;
    let plain = db.session();
    run(&plain, "SET halocline.plan_cache = off").await;
    for text in [
        "SELECT * FROM t WHERE a = 5",
        "SELECT s, a FROM t WHERE a = 5",
        "SELECT a AS x, a + 1, t.d, upper(s) FROM t AS t WHERE a BETWEEN 5 AND 7",
        "SELECT y.s FROM (SELECT a, s FROM t WHERE a < 100) AS y WHERE y.a = 5",
        "SELECT count(*), sum(a), avg(d) AS m FROM t WHERE a > 9000",
        "SELECT count(*) FROM t",
        "SELECT count(*) AS n, count(1) FROM t",
        "SELECT day, count(*) FROM t WHERE a < 900 GROUP BY day HAVING count(*) > 2 ORDER BY day LIMIT 3",
        "SELECT DISTINCT day FROM t WHERE a < 3 ORDER BY 1",
        "SELECT a FROM t WHERE a < 30 LIMIT 0",
        "SELECT a FROM t WHERE a < 30 ORDER BY a LIMIT 2 OFFSET 3",
        "SELECT a FROM t WHERE 1 = 2",
        "SELECT a FROM t WHERE 1 = 1 AND a = 4",
        "SELECT a FROM t WHERE day = DATE '2026-01-05' AND a < 1000",
        "SELECT a FROM t WHERE f = 7.0 OR f < -0.0 OR f IN (0.0, 9e0)",
        "SELECT a FROM t WHERE NOT (s LIKE 'text 1%' OR a >= 20)",
        "SELECT a FROM t WHERE a + 1 = 5 AND a * 2 < 100 AND a * 2 > 3",
        "SELECT CASE WHEN a = 5 THEN 'five' END FROM t WHERE a = 5",
    ] {
        let expected = plain.sql(text).await.unwrap();
        let schema = expected.schema();
        let expected = lines(&expected.collect().await.unwrap());
        for round in 0..4 {
            let result = db.sql(text).await.unwrap();
            assert_eq!(result.schema(), schema, "{text}, round {round}");
            let (mut found, mut rows) = (lines(&result.collect().await.unwrap()), expected.clone());
            found.sort();
            rows.sort();
            assert_eq!(found, rows, "{text}, round {round}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_stay_the_same() {
    let db = numbers().await;
    let plain = db.session();
    run(&plain, "SET halocline.plan_cache = off").await;
    for (good, bad) in [
        (
            "SELECT a FROM t WHERE day = '2026-01-05'",
            "SELECT a FROM t WHERE day = 'yesterday'",
        ),
        (
            "SELECT a FROM t WHERE day = DATE '2026-01-05'",
            "SELECT a FROM t WHERE day = DATE 'yesterday'",
        ),
    ] {
        for _ in 0..3 {
            query(&db, good).await;
        }
        assert_eq!(error(&db, bad).await, error(&plain, bad).await);
        query(&db, good).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_this_and_another_handle_are_seen() {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i AS a, i * 2 AS b FROM generate_series(1, 100) AS s(i)",
    )
    .await;
    let other = reopen(&dir, &DatabaseOptions::default());
    let text = "SELECT * FROM t WHERE a = 7";
    let count = "SELECT count(*) FROM t";
    for _ in 0..3 {
        assert_eq!(query(&other, text).await, ["7|14"]);
        assert_eq!(query(&other, count).await, ["100"]);
    }
    run(&db, "INSERT INTO t VALUES (7, 0)").await;
    assert_eq!(query(&other, text).await.len(), 2);
    assert_eq!(query(&other, count).await, ["101"]);
    run(&db, "DELETE FROM t WHERE a > 50").await;
    assert_eq!(query(&other, count).await, ["51"]);
    run(&db, "ALTER TABLE t ADD COLUMN c text DEFAULT 'c'").await;
    assert_eq!(query(&other, &format!("{text} AND b = 14")).await, ["7|14|c"]);
    assert_eq!(query(&other, text).await, ["7|14|c", "7|0|c"]);
    run(&db, "ALTER TABLE t RENAME COLUMN a TO z").await;
    assert!(error(&other, text).await.contains('a'));
    run(&db, "DROP TABLE t").await;
    assert!(error(&other, text).await.contains("there is no table 't'"));
    assert!(error(&other, count).await.contains("there is no table 't'"));
    run(&db, "CREATE TABLE t AS SELECT 'x' AS b, CAST(7 AS smallint) AS a").await;
    assert_eq!(query(&other, text).await, ["x|7"]);
    assert_eq!(query(&other, count).await, ["1"]);
    run(&other, "DROP TABLE t").await;
    run(&other, "CREATE TABLE t (a bigint PRIMARY KEY, b text)").await;
    run(&other, "INSERT INTO t VALUES (7, 'keyed')").await;
    for _ in 0..3 {
        assert_eq!(query(&other, text).await, ["7|keyed"]);
        assert_eq!(query(&other, count).await, ["1"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_transactions_have_their_own_rows() {
    let db = numbers().await;
    let other = db.session();
    let text = "SELECT count(*) FROM t WHERE a >= 9000";
    let all = "SELECT count(*) FROM t";
    for _ in 0..3 {
        assert_eq!(query(&db, text).await, ["1000"]);
        assert_eq!(query(&other, text).await, ["1000"]);
        assert_eq!(
            (query(&db, all).await, query(&other, all).await),
            (vec!["10000".to_owned()], vec!["10000".to_owned()])
        );
    }
    run(&db, "BEGIN").await;
    run(&db, "DELETE FROM t WHERE a >= 9500").await;
    assert_eq!(
        (query(&db, text).await, query(&other, text).await),
        (vec!["500".to_owned()], vec!["1000".to_owned()])
    );
    assert_eq!(
        (query(&db, all).await, query(&other, all).await),
        (vec!["9500".to_owned()], vec!["10000".to_owned()])
    );
    run(&db, "DROP TABLE t").await;
    assert!(error(&db, text).await.contains("there is no table 't'"));
    assert_eq!(query(&other, text).await, ["1000"]);
    run(&db, "ROLLBACK").await;
    assert_eq!(query(&db, text).await, ["1000"]);
    assert_eq!(query(&db, all).await, ["10000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_texts_do_not_fill_memory() {
    let db = numbers().await;
    for column in 0..400 {
        let text = format!("SELECT a AS a{column} FROM t WHERE a = 1");
        for _ in 0..2 {
            assert_eq!(query(&db, &text).await, ["1"]);
        }
    }
    for limit in 0..20 {
        let text = format!("SELECT a FROM t WHERE a < 10 LIMIT {limit}");
        for _ in 0..3 {
            assert_eq!(query(&db, &text).await.len(), limit.min(10));
        }
    }
    // The first one is forgotten.
    assert_eq!(
        cache_use(&db, "SELECT a AS a0 FROM t WHERE a = 1").await,
        "first use"
    );
}

/// The physical plan in the output of EXPLAIN. Repeated expressions are numbered by the passes of rules.
fn physical(plan: &[String]) -> String {
    let plan = plan.iter().find(|row| row.starts_with("physical_plan|")).unwrap();
    let (first, others) = plan.split_once("__common_expr_").unwrap_or((plan, ""));
    let others = others.split("__common_expr_");
    let unnumbered = others.map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
    format!("{first}{}", unnumbered.collect::<Vec<_>>().join("expr"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_lists_of_rules_make_the_same_plans() {
    let db = numbers().await;
    run(&db, "INSERT INTO t (a, s) VALUES (10000, 'in the log')").await;
    run(&db, "CREATE TABLE k (id bigint PRIMARY KEY, v int)").await;
    run(
        &db,
        "INSERT INTO k SELECT i, i % 7 FROM generate_series(0, 999) AS x(i)",
    )
    .await;
    // DataFusion plans with all rules.
    let all = db.context().unwrap();
    for text in [
        "SELECT * FROM t WHERE a = 5",
        "SELECT s FROM t WHERE a = 5 AND s LIKE '%5'",
        "SELECT a + 1 AS x, upper(s) FROM t AS y WHERE a BETWEEN 5 AND 7 AND a % 2 = 1",
        "SELECT s FROM t WHERE a * 2 > 30 AND a * 2 < 90",
        "SELECT y.s FROM (SELECT a, s FROM t WHERE a < 100) AS y WHERE y.a = 5",
        "SELECT s FROM t",
        "SELECT s FROM t LIMIT 3",
        "SELECT s FROM t WHERE a < 30 LIMIT 3 OFFSET 2",
        "SELECT s FROM t WHERE a * 2 < 30 LIMIT 3",
        "SELECT a FROM t WHERE 1 = 2",
        "SELECT a FROM t WHERE NULL",
        "SELECT a, s FROM t WHERE a < 100 ORDER BY s DESC LIMIT 3",
        "SELECT day, count(*), sum(a) FROM t WHERE a < 900 GROUP BY day HAVING count(*) > 2 ORDER BY day",
        "SELECT DISTINCT day FROM t WHERE a < 3",
        "SELECT count(DISTINCT day), min(s) FROM t WHERE a < 1000",
        "SELECT count(*), min(a) FROM t",
        "SELECT v FROM k WHERE id = 5",
        "SELECT v FROM k WHERE id BETWEEN 5 AND 9 AND v = 2 ORDER BY id LIMIT 2",
        "SELECT v, count(*) FROM k GROUP BY v",
    ] {
        let text = format!("EXPLAIN {text}");
        let complete = all.sql(&text).await.unwrap().collect().await.unwrap();
        assert_eq!(
            physical(&query(&db, &text).await),
            physical(&lines(&complete)),
            "{text}"
        );
    }
}

/// Queries of several tables, with what they return over the tables of [`two_tables`].
const OF_SEVERAL: [(&str, &[&str]); 6] = [
    (
        "SELECT t.a FROM t JOIN u ON t.a = u.a WHERE t.s <> 'x' ORDER BY 1",
        &["1", "2"],
    ),
    (
        "SELECT a FROM t WHERE a IN (SELECT a FROM u) ORDER BY a",
        &["1", "2"],
    ),
    (
        "SELECT a FROM t WHERE a < 3 UNION ALL SELECT a FROM u WHERE a > 1 ORDER BY a",
        &["0", "1", "2", "2"],
    ),
    (
        "SELECT a, row_number() OVER (ORDER BY a DESC) FROM u ORDER BY a",
        &["1|2", "2|1"],
    ),
    ("SELECT (SELECT max(a) FROM u) + a FROM u ORDER BY 1", &["3", "4"]),
    (
        "WITH v AS (SELECT a FROM u) SELECT count(*) FROM v, t WHERE v.a = t.a",
        &["2"],
    ),
];

async fn two_tables() -> Database {
    let db = numbers().await;
    run(
        &db,
        "CREATE TABLE u AS SELECT i AS a FROM generate_series(1, 2) AS x(i)",
    )
    .await;
    db
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_of_several_tables_are_kept_for_a_version() {
    let db = two_tables().await;
    for (text, rows) in OF_SEVERAL {
        assert_eq!(cache_use(&db, text).await, "first use", "{text}");
        assert_eq!(cache_use(&db, text).await, "plan added", "{text}");
        assert_eq!(cache_use(&db, &format!("{text} -- again")).await, "hit", "{text}");
        for _ in 0..3 {
            assert_eq!(query(&db, text).await, rows, "{text}");
        }
    }
    let of_one = |value: i32| format!("SELECT t.a FROM t JOIN u ON t.a = u.a WHERE t.a = {value}");
    for value in [1, 1, 2, 2, 3, 1] {
        let expected: &[&str] = match value {
            1 => &["1"],
            2 => &["2"],
            _ => &[],
        };
        assert_eq!(query(&db, &of_one(value)).await, expected);
    }
    // A plan of another session is not used, nor one made with other settings.
    let text = OF_SEVERAL[0].0;
    assert_eq!(cache_use(&db.session(), text).await, "first use");
    run(&db, "SET halocline.star_join = off").await;
    assert_eq!(cache_use(&db, text).await, "plan added");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_of_several_tables_see_changes() {
    let db = two_tables().await;
    let text = "SELECT count(*), max(u.a) FROM t JOIN u ON t.a = u.a";
    let changes = [
        ("SELECT 1", "2|2"),
        ("INSERT INTO u VALUES (7)", "3|7"),
        ("DELETE FROM t WHERE a = 2", "2|7"),
        ("UPDATE u SET a = 8 WHERE a = 7", "2|8"),
        ("VACUUM", "2|8"),
        ("DROP TABLE u", ""),
        ("CREATE TABLE u AS SELECT CAST(3 AS smallint) AS a", "1|3"),
        ("ALTER TABLE u ADD COLUMN s TEXT", "1|3"),
    ];
    for (change, expected) in changes {
        run(&db, change).await;
        for _ in 0..4 {
            match expected {
                "" => assert!(error(&db, text).await.contains("no table"), "{change}"),
                _ => assert_eq!(query(&db, text).await, [expected], "{change}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_does_not_use_kept_plans() {
    let db = two_tables().await;
    let text = "SELECT count(*) FROM t JOIN u ON t.a = u.a";
    for _ in 0..3 {
        assert_eq!(query(&db, text).await, ["2"]);
    }
    run(&db, "BEGIN").await;
    assert_eq!(cache_use(&db, text).await, "not used");
    run(&db, "INSERT INTO u VALUES (9)").await;
    assert_eq!(query(&db, text).await, ["3"]);
    assert_eq!(query(&db.session(), text).await, ["2"]);
    run(&db, "ROLLBACK").await;
    assert_eq!(query(&db, text).await, ["2"]);
    assert_eq!(cache_use(&db, &format!("{text}  ")).await, "plan added");
}
