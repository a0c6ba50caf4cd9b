//! Windows that `WINDOW` names, and windows that add to them.

use super::support::{error, new_pool, query, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_stand_for_windows_and_parts_of_them() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a', 10), (2, 'b', 20), (3, 'a', 30), (4, 'b', 40), (5, 'a', 50)) AS v(i, k, x)",
    )
    .await;
    for (text, expected) in [
        (
            "SELECT i, sum(x) OVER (w ROWS 1 PRECEDING) FROM t WINDOW w AS (ORDER BY i) ORDER BY i",
            "1|10 2|30 3|50 4|70 5|90",
        ),
        (
            "SELECT i, sum(x) OVER (w ORDER BY i DESC) FROM t WINDOW w AS (PARTITION BY k) ORDER BY i",
            "1|90 2|60 3|80 4|40 5|50",
        ),
        (
            "SELECT i, sum(x) OVER v FROM t WINDOW w AS (PARTITION BY k), v AS (w ORDER BY i) ORDER BY i",
            "1|10 2|20 3|40 4|60 5|90",
        ),
        (
            "SELECT i, sum(x) OVER v FROM t WINDOW w AS (PARTITION BY k), v AS w ORDER BY i",
            "1|90 2|60 3|90 4|60 5|90",
        ),
        (
            "SELECT i, sum(x) OVER v, count(*) OVER w FROM t WINDOW w AS (PARTITION BY k), v AS (w ORDER BY i ROWS \
             BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) ORDER BY i",
            "1|80|3 2|40|2 3|60|3 4|20|2 5|40|3",
        ),
        (
            "SELECT i, sum(x) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE TIES) FROM t \
             WINDOW w AS (PARTITION BY k ORDER BY x > 20) ORDER BY i",
            "1|90 2|60 3|40 4|60 5|60",
        ),
        (
            "SELECT i, sum(x) OVER (w) FROM t WINDOW w AS (PARTITION BY k ORDER BY i) ORDER BY i",
            "1|10 2|20 3|40 4|60 5|90",
        ),
        (
            "SELECT i FROM t WINDOW w AS (PARTITION BY k ORDER BY i) QUALIFY row_number() OVER w = 2 ORDER BY i",
            "3 4",
        ),
        (
            "SELECT i FROM t QUALIFY row_number() OVER (w ORDER BY i DESC) = 1 WINDOW w AS (PARTITION BY k) ORDER BY i",
            "4 5",
        ),
        (
            "SELECT i FROM t WINDOW w AS (PARTITION BY k ORDER BY i DESC) ORDER BY row_number() OVER w, i",
            "4 5 2 3 1",
        ),
        // A subquery has names of its own.
        (
            "SELECT i, (SELECT max(s) FROM (SELECT sum(b.x) OVER w AS s FROM t AS b WHERE b.k = a.k WINDOW w AS (ORDER BY b.i))) \
             FROM t AS a WINDOW w AS (ORDER BY i DESC) ORDER BY sum(i) OVER w",
            "5|90 4|60 3|90 2|60 1|90",
        ),
        (
            "SELECT sum(x) OVER w AS s FROM t WINDOW w AS (ORDER BY i) UNION ALL \
             SELECT sum(x) OVER w FROM t WINDOW w AS (PARTITION BY k) ORDER BY s",
            "10 30 60 60 60 90 90 90 100 150",
        ),
        (
            "SELECT i, sum(x) OVER W FROM t WINDOW w AS (ORDER BY i) ORDER BY i",
            "1|10 2|30 3|60 4|100 5|150",
        ),
        (
            "SELECT sum(i) OVER w AS s FROM t GROUP BY i WINDOW w AS (ORDER BY sum(x)) ORDER BY s",
            "1 3 6 10 15",
        ),
    ] {
        assert_eq!(query(&db, text).await.join(" "), expected, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_that_cannot_be_added_to_are_refused() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (i int, k int)").await;
    for (window, clause, expected) in [
        (
            "(w PARTITION BY k)",
            "w AS (ORDER BY i)",
            "PARTITION BY cannot be added",
        ),
        ("(w ORDER BY k)", "w AS (ORDER BY i)", "has an ORDER BY already"),
        (
            "(w ROWS 1 PRECEDING)",
            "w AS (ORDER BY i ROWS 2 PRECEDING)",
            "has a frame",
        ),
        ("v", "w AS (ORDER BY i)", "the window v is not defined"),
        ("v", "v AS (w), w AS (ORDER BY i)", "the window w is not defined"),
        (
            "w",
            "w AS (ORDER BY i), W AS (ORDER BY k)",
            "the window w is defined twice",
        ),
    ] {
        let text = format!("SELECT sum(i) OVER {window} FROM t WINDOW {clause}");
        let error = error(&db, &text).await;
        assert!(error.contains(expected), "{text}: {error}");
    }
    let error = error(&db, "SELECT i FROM t ORDER BY sum(i) OVER w").await;
    assert!(error.contains("the window w is not defined"), "{error}");
}
