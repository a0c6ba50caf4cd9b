//! Forms of queries that are written as others, and names in another case.

use super::support::{error, new_pool, query, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forms_answer_as_what_they_stand_for() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT v AS a, v % 3 AS b FROM generate_series(1, 100) AS s(v)",
    )
    .await;
    run(
        &db,
        "CREATE TABLE u AS SELECT * FROM (VALUES (1), (2), (2)) AS v(b)",
    )
    .await;
    for (text, expected) in [
        (
            "SELECT a FROM t ORDER BY a OFFSET 1 FETCH NEXT 2 ROWS ONLY",
            vec!["2", "3"],
        ),
        ("SELECT a FROM t ORDER BY a FETCH FIRST ROW ONLY", vec!["1"]),
        (
            "SELECT b, count(*) AS n FROM t GROUP BY ALL ORDER BY ALL",
            vec!["0|33", "1|34", "2|33"],
        ),
        (
            "SELECT b, a FROM t WHERE a < 4 ORDER BY ALL DESC",
            vec!["2|2", "1|1", "0|3"],
        ),
        ("SELECT 2 AS x UNION ALL SELECT 1 ORDER BY ALL", vec!["1", "2"]),
        ("SELECT count(*) FROM (FROM u) AS w", vec!["3"]),
        ("FROM (SELECT a FROM t WHERE a < 2) AS w", vec!["1"]),
        ("SELECT count(*) FROM t SEMI JOIN u USING (b)", vec!["67"]),
        ("SELECT count(*) FROM t ANTI JOIN u ON t.b = u.b", vec!["33"]),
        ("SELECT count(*) FROM t TABLESAMPLE (7 ROWS)", vec!["7"]),
        ("SELECT count(*) FROM t TABLESAMPLE (700 ROWS)", vec!["100"]),
        (
            "SELECT count(t.a) FROM t TABLESAMPLE BERNOULLI (100)",
            vec!["100"],
        ),
        ("SELECT count(*) FROM t AS x TABLESAMPLE 0 PERCENT", vec!["0"]),
        (
            "SELECT count(*) <= 100 FROM (SELECT * FROM t) AS x TABLESAMPLE SYSTEM (50)",
            vec!["true"],
        ),
    ] {
        assert_eq!(query(&db, text).await, expected, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unquoted_columns_are_found_in_their_case() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE p AS SELECT 1 AS \"studyName\", 'x' AS \"Species\", 2 AS \"Twice\", 3 AS \"TWICE\"",
    )
    .await;
    for (text, expected) in [
        ("SELECT studyName FROM p", "1"),
        (
            "SELECT p.SPECIES FROM p WHERE studyname = 1 ORDER BY species",
            "x",
        ),
        (
            "SELECT max(studyname) FROM p GROUP BY species HAVING max(STUDYNAME) > 0",
            "1",
        ),
        ("SELECT (SELECT max(q.species) FROM p AS q) FROM p", "x"),
        ("SELECT \"Twice\" FROM p", "2"),
    ] {
        assert_eq!(query(&db, text).await, [expected], "{text}");
    }
    // Several columns are meant, or none.
    for text in [
        "SELECT twice FROM p",
        "SELECT \"studyname\" FROM p",
        "SELECT nothing FROM p",
    ] {
        let error = error(&db, text).await;
        assert!(error.contains("No field named"), "{text}: {error}");
    }
    run(
        &db,
        "UPDATE p SET \"Species\" = 'y' WHERE studyName = 1 AND SPECIES = 'x'",
    )
    .await;
    assert_eq!(query(&db, "SELECT species FROM p").await, ["y"]);
}
