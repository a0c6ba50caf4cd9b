//! Two conditions of a column that meet when filters move, as one of them compares with a constant of a
//! derived table: beside brute force over all operators, sides and constants.

use super::support::{new_pool, query, run};

const OPERATORS: [&str; 5] = ["=", "<", "<=", ">", ">="];

/// Returns true if `left op right` is true.
fn holds(left: Option<i64>, op: &str, right: Option<i64>) -> bool {
    let (Some(left), Some(right)) = (left, right) else {
        return false;
    };
    match op {
        "=" => left == right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        _ => left >= right,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_that_meet_are_as_by_brute_force() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT * FROM (VALUES (3), (5), (6), (8), (NULL)) AS v(i)",
    )
    .await;
    let values = [Some(3), Some(5), Some(6), Some(8), None];
    for (moved, other) in [(Some(5), 5), (Some(5), 6), (Some(6), 5), (None, 5)] {
        let constant = moved.map_or("CAST(NULL AS bigint)".to_owned(), |value: i64| value.to_string());
        for (first, second) in OPERATORS
            .iter()
            .flat_map(|op| OPERATORS.map(|other| (*op, other)))
        {
            for [is_first_swapped, is_second_swapped] in
                [[false, false], [false, true], [true, false], [true, true]]
            {
                let of_moved = if is_first_swapped {
                    format!("y {first} i")
                } else {
                    format!("i {first} y")
                };
                let of_other = if is_second_swapped {
                    format!("{other} {second} i")
                } else {
                    format!("i {second} {other}")
                };
                let expected = values.iter().filter(|&&value| {
                    let of_moved = if is_first_swapped {
                        holds(moved, first, value)
                    } else {
                        holds(value, first, moved)
                    };
                    let of_other = if is_second_swapped {
                        holds(Some(other), second, value)
                    } else {
                        holds(value, second, Some(other))
                    };
                    of_moved && of_other
                });
                let text = format!(
                    "SELECT count(*) FROM (SELECT i, {constant} AS y FROM t) WHERE {of_moved} AND {of_other}"
                );
                assert_eq!(query(&db, &text).await, [expected.count().to_string()], "{text}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_of_subqueries_meet_those_of_their_places() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i, CAST(f AS double) AS f, CAST(f AS decimal(10, 2)) AS n, CAST(d AS timestamp) AS d \
         FROM (VALUES (1, '0.0', '2024-01-01'), (2, '-0.0', '2024-01-02'), (3, '1.5', '2024-01-01'), (4, '1.5', '2024-01-03')) AS v(i, f, d)",
    )
    .await;
    for (text, expected) in [
        (
            "SELECT i FROM t WHERE 1 IN (SELECT count(*) FROM t GROUP BY d HAVING count(*) = 1) ORDER BY i",
            "1 2 3 4",
        ),
        (
            "SELECT i FROM (SELECT i, n, 1.5 AS y FROM t) WHERE CAST(1.5 AS decimal(10, 2)) = n AND y = n ORDER BY i",
            "3 4",
        ),
        (
            "SELECT i FROM (SELECT i, f, CAST('-0.0' AS double) AS y FROM t) WHERE y = f AND f = CAST('0.0' AS double) ORDER BY i",
            "1 2",
        ),
        (
            "SELECT i FROM (SELECT i, d, DATE '2024-01-01' AS y FROM t) WHERE y = d AND TIMESTAMP '2024-01-01 00:00:00' = d ORDER BY i",
            "1 3",
        ),
        (
            "SELECT count(*) FROM (SELECT count(*) AS c FROM t HAVING count(*) = 4) WHERE 4 = c AND c >= 4",
            "1",
        ),
    ] {
        assert_eq!(query(&db, text).await.join(" "), expected, "{text}");
    }
}
