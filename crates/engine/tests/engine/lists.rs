//! Lists and structs in queries: literals, elements, functions, `unnest`.

use super::support::{error, new_pool, query, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn literals_and_elements() {
    let (_dir, db) = new_pool();
    for (expression, expected) in [
        (
            "[1, 2, 3], array_length([1, 2, 3]), [1, 2, 3][1]",
            "[1, 2, 3]|3|1",
        ),
        (
            "[10, 20, 30][-1], [10, 20][5], [10, 20, 30][2:3]",
            "30|NULL|[20, 30]",
        ),
        ("{'a': 1, 'b': 'x'}, {'a': 1, 'b': 'x'}['b']", "{a: 1, b: x}|x"),
        (
            "list_contains([1, 2], 2), list_append([1], 2), [1] || [2]",
            "true|[1, 2]|[1, 2]",
        ),
        (
            "list_value(1, 2), list_min([3, 1]), list_max([3, 1]), list_sort([3, 1])",
            "[1, 2]|1|3|[1, 3]",
        ),
        (
            "list_distinct([1, 1]), list_position(['a', 'b'], 'b'), array_to_string([1, 2], '-')",
            "[1]|2|1-2",
        ),
        (
            "string_split('a,b', ',')[2], list_first([1, 2]), list_last([1, 2])",
            "b|1|2",
        ),
        (
            "1 = ANY([1, 2]), 3 = ANY(array[1, 2]), 3 <> ALL([1, 2]), 3 = ANY([1, NULL])",
            "true|false|true|NULL",
        ),
    ] {
        assert_eq!(
            query(&db, &format!("SELECT {expression}")).await,
            [expected],
            "{expression}"
        );
    }
    let found = error(&db, "SELECT list_transform([1, 2], x -> x + 1)").await;
    assert!(
        found.contains("whose argument is a function, is not supported"),
        "{found}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unnest_makes_rows() {
    let (_dir, db) = new_pool();
    assert_eq!(query(&db, "SELECT unnest([1, 2, 3])").await, ["1", "2", "3"]);
    assert_eq!(
        query(&db, "SELECT x + 1 FROM unnest([1, 2]) AS t(x) WHERE x > 1").await,
        ["3"]
    );
    run(&db, "CREATE TABLE t (g int, x int)").await;
    run(&db, "INSERT INTO t VALUES (1, 3), (1, 1), (2, 2)").await;
    let sql = "SELECT g, unnest(l) AS x FROM (SELECT g, array_agg(x ORDER BY x) AS l FROM t GROUP BY g) ORDER BY g, x";
    assert_eq!(query(&db, sql).await, ["1|1", "1|3", "2|2"]);
    let sql = "SELECT g, array_agg(x ORDER BY x DESC)[1] FROM t GROUP BY g ORDER BY g";
    assert_eq!(query(&db, sql).await, ["1|3", "2|2"]);
    let found = error(&db, "CREATE TABLE l AS SELECT [1, 2] AS a").await;
    assert!(!found.is_empty());
}
