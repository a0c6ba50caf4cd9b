//! Queries that fit into little memory only when they are planned again.

use super::support::{new_pool, query, run};

const TABLE: &str = "CREATE TABLE t AS SELECT value AS k, (value * 31) % 997 AS v, \
    'a' || (value * 7919) % 60013 AS a, CASE WHEN value % 7 = 0 THEN NULL ELSE repeat('b', 20) || value % 100 END AS b, \
    'c' || (value * 104729) % 30011 AS c, 'd' || value % 11 AS d, repeat('e', CAST(value % 40 AS INT)) AS e, \
    CAST('f' || value % 13 AS BYTEA) AS f FROM generate_series(1, 120000) AS g(value)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_of_many_strings_are_spilled() {
    let (_dir, db) = new_pool();
    run(&db, TABLE).await;
    for text in [
        "SELECT a, b, c, d, e, f, sum(v) AS s, count(*) AS n FROM t GROUP BY a, b, c, d, e, f \
         ORDER BY s DESC, a, b, c, d, e LIMIT 20",
        "SELECT t.a, u.b, t.c, u.d, u.e, u.f, sum(u.v * t.v) AS s FROM t JOIN t AS u ON t.k = u.k \
         WHERE t.v > 30 GROUP BY t.a, u.b, t.c, u.d, u.e, u.f ORDER BY s DESC, 1, 2, 3 LIMIT 20",
        "SELECT count(*), min(a), max(b), min(f), sum(length(e)) FROM (SELECT DISTINCT a, b, c, d, e, f FROM t)",
        "SELECT count(*), min(x), max(b), max(n) FROM \
         (SELECT upper(a) AS x, b, c, d, e, f, count(*) OVER (PARTITION BY d) AS n FROM t GROUP BY upper(a), b, c, d, e, f)",
    ] {
        run(&db, "RESET halocline.memory").await;
        let expected = query(&db, text).await;
        run(&db, "SET halocline.memory = '32MiB'").await;
        assert_eq!(query(&db, text).await, expected, "{text}");
    }
}
