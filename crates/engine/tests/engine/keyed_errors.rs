//! Tables with a primary key: errors that concern one row name it.

use super::support::{error, new_pool, query, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_name_the_key_and_the_number_of_the_row() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t (a text, b int, n smallint, c text, PRIMARY KEY (a, b))",
    )
    .await;
    run(
        &db,
        "INSERT INTO t VALUES ('x', 1, 1, ''), ('y', 2, 2, ''), ('z', 3, 3, '')",
    )
    .await;
    let huge = "repeat('0123456789', 110000)";
    let series = "FROM generate_series(1, 20000) AS s(i)";
    for (text, expected) in [
        (
            "INSERT INTO t (a, b) VALUES ('u', 1), ('y', 2)".to_owned(),
            "INSERT INTO t, row 2: there is a row with the primary key (y, 2) already; UPDATE that row",
        ),
        (
            "INSERT INTO t (b, a) VALUES (5, 'u'), (6, 'u'), (5, 'u')".into(),
            "INSERT INTO t, row 3: there is a row with the primary key (u, 5) already; give one row",
        ),
        (
            format!("INSERT INTO t (a, b) SELECT 'u', i % 15000 {series} ORDER BY i"),
            "INSERT INTO t, row 15001: there is a row with the primary key (u, 1) already; give one row",
        ),
        (
            format!(
                "INSERT INTO t (a, b) SELECT CASE i WHEN 12345 THEN 'y' ELSE 'w' END, CASE i WHEN 12345 THEN 2 ELSE i END {series} ORDER BY i"
            ),
            "INSERT INTO t, row 12345: there is a row with the primary key (y, 2) already",
        ),
        (
            "INSERT INTO t (b) VALUES (8), (9)".into(),
            "INSERT INTO t, row 1, primary key (NULL, 8), column a: is NULL, but the column is NOT NULL",
        ),
        (
            "INSERT INTO t (b, a) VALUES (8, 'u'), (NULL, 'v')".into(),
            "INSERT INTO t, row 2, primary key (v, NULL), column b: is NULL",
        ),
        (
            format!("INSERT INTO t (a, b) SELECT 'u', nullif(i, 17000) {series} ORDER BY i"),
            "INSERT INTO t, row 17000, primary key (u, NULL), column b: is NULL",
        ),
        (
            "INSERT INTO t (a, b, n) SELECT 'u', i, 32766 + i FROM generate_series(1, 3) AS s(i) ORDER BY i"
                .into(),
            "INSERT INTO t, row 2, primary key (u, 2), column n: '32768' is not a value of type smallint",
        ),
        (
            format!(
                "INSERT INTO t (a, b, c) SELECT 'u', i, CASE i WHEN 9000 THEN {huge} END {series} ORDER BY i"
            ),
            "INSERT INTO t, row 9000, primary key (u, 9000): the columns besides the key take 1100007 bytes",
        ),
        (
            format!(
                "INSERT INTO t (a, b) VALUES ('u', 1), ('{}', 2)",
                "longer ".repeat(200)
            ),
            "INSERT INTO t, row 2, primary key (longer longer longer longer longer longe…, 2): the key takes",
        ),
        (
            "INSERT INTO t (a, b, n) VALUES ('v', 1, 1), ('z', 3, 1), ('x', 1, 1) \
             ON CONFLICT (a, b) DO UPDATE SET n = 9 - t.n * 30000"
                .into(),
            "INSERT INTO t, row 2, primary key (z, 3), column n: '-89991' is not a value of type smallint",
        ),
        (
            "INSERT INTO t (a, b, n) VALUES ('v', 1, 1), ('v', 1, 2) ON CONFLICT (a, b) DO UPDATE SET n = 9"
                .into(),
            "INSERT INTO t, row 2: there is a row with the primary key (v, 1) already; give one row",
        ),
        (
            format!(
                "INSERT INTO t (a, b) VALUES ('v', 1), ('y', 2) ON CONFLICT (a, b) DO UPDATE SET c = {huge}"
            ),
            "INSERT INTO t, row 2, primary key (y, 2): the columns besides the key take",
        ),
        (
            format!("INSERT OR REPLACE INTO t (a, b, c) SELECT 'y', 2, {huge}"),
            "INSERT INTO t, row 1, primary key (y, 2): the columns besides the key take",
        ),
        (
            format!("INSERT OR IGNORE INTO t (a, b) SELECT repeat('k', 2000), i {series}"),
            "INSERT INTO t, row 1, primary key (kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk…, 1): the key takes",
        ),
        (
            "UPDATE t SET a = 'y', b = 2 WHERE a = 'x'".into(),
            "UPDATE t: there is a row with the primary key (y, 2) already; give the row another key",
        ),
        (
            "UPDATE t SET a = 'same', b = 0".into(),
            "UPDATE t: there is a row with the primary key (same, 0) already; give one row for each key",
        ),
        (
            "UPDATE t SET b = NULL WHERE a = 'y'".into(),
            "UPDATE t, primary key (y, 2), column b: is NULL, but the column is NOT NULL",
        ),
        (
            "UPDATE t SET b = b + 1, n = n * 12000".into(),
            "UPDATE t, primary key (z, 3), column n: '36000' is not a value of type smallint",
        ),
        (
            format!("UPDATE t SET c = CASE a WHEN 'y' THEN {huge} END, b = b + 10"),
            "UPDATE t, primary key (y, 2): the columns besides the key take",
        ),
        (
            "UPDATE t SET a = repeat(a, 2000) WHERE b > 2".into(),
            "UPDATE t, primary key (z, 3): the key takes 2006 bytes, and at most 1024 are possible",
        ),
    ] {
        let message = error(&db, &text).await;
        assert!(message.contains(expected), "{text}: {message}");
    }
    let rows = ["x|1|1", "y|2|2", "z|3|3"];
    assert_eq!(query(&db, "SELECT a, b, n FROM t").await, rows);
}
