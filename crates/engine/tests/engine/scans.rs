//! Scans over several morsels and segments, with deleted rows and rows in the log: batches of selected rows.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use halocline_engine::Database;

use super::support::{new_pool, query, run};

/// Rows of the table: two segments, the second one of several morsels.
const ROWS: i64 = 300_000;

/// A row, which follows from its number.
fn word(v: i64) -> Option<String> {
    (v % 11 != 3).then(|| format!("w{}", v * 7919 % 97))
}

/// Two segments, one row of 19 deleted, and some rows in the log.
async fn table(db: &Database) {
    let rows = |from: i64, to: i64| {
        format!(
            "SELECT v, v * 7919 % 1000 AS a, CAST(v % 5000 AS decimal(15, 2)) AS price, \
             CASE WHEN v % 11 = 3 THEN NULL ELSE concat('w', v * 7919 % 97) END AS word, \
             concat('text ', v, ' of many') AS text FROM generate_series({from}, {to}) AS s(v)"
        )
    };
    let last = ROWS - 500;
    for text in [
        // Several threads would change the order of the rows.
        "SET datafusion.execution.target_partitions = 1".to_owned(),
        format!("CREATE TABLE t AS {}", rows(0, 69_999)),
        format!("INSERT INTO t {}", rows(70_000, last - 1)),
        "DELETE FROM t WHERE v % 19 = 4".to_owned(),
        format!("INSERT INTO t {}", rows(last, ROWS - 1)),
    ] {
        run(db, &text).await;
    }
}

fn is_live(v: i64) -> bool {
    v % 19 != 4 || v >= ROWS - 500
}

/// Numbers of the rows of every batch of a query, whose first column they are.
async fn batches(db: &Database, text: &str) -> Vec<Vec<i64>> {
    let batches = db.sql(text).await.unwrap().collect().await.unwrap();
    let numbers = |column: &arrow_array::ArrayRef| column.as_primitive::<Int64Type>().values().to_vec();
    batches.iter().map(|batch| numbers(batch.column(0))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selected_rows_come_in_order_and_in_even_batches() {
    let (_dir, db) = new_pool();
    table(&db).await;
    type Matches = fn(i64) -> bool;
    let conditions: [(&str, Matches); 8] = [
        ("TRUE", |_| true),
        ("a < 990", |v| v * 7919 % 1000 < 990),
        ("a < 500", |v| v * 7919 % 1000 < 500),
        ("a < 10", |v| v * 7919 % 1000 < 10),
        ("a = 1", |v| v * 7919 % 1000 == 1),
        ("a < 900 AND price >= 4000", |v| {
            v * 7919 % 1000 < 900 && v % 5000 >= 4000
        }),
        // Conditions on values.
        ("a < 900 AND a + price < 4000", |v| {
            v * 7919 % 1000 < 900 && v * 7919 % 1000 + v % 5000 < 4000
        }),
        ("concat(word, 'x') < 'w5'", |v| {
            word(v).is_some_and(|word| (word + "x").as_str() < "w5")
        }),
    ];
    for (condition, matches) in conditions {
        let expected: Vec<i64> = (0..ROWS).filter(|v| is_live(*v) && matches(*v)).collect();
        let found = batches(&db, &format!("SELECT v FROM t WHERE {condition}")).await;
        assert!(found.concat() == expected, "{condition}");
        assert!(found.iter().all(|batch| batch.len() <= 8192), "{condition}");
        // Both segments and the log end a batch, and a batch is less than half full at the most then.
        assert!(
            found.len() <= 2 * (expected.len() / 8192 + 4),
            "{condition}: {} batches",
            found.len()
        );

        let text =
            format!("SELECT v, word, text, price FROM t WHERE {condition} ORDER BY v LIMIT 40 OFFSET 500");
        let rows = query(&db, &text).await;
        let line = |v: &i64| {
            let word = word(*v).unwrap_or_else(|| "NULL".to_owned());
            format!("{v}|{word}|text {v} of many|{}.00", v % 5000)
        };
        let expected: Vec<String> = expected.iter().skip(500).take(40).map(line).collect();
        assert_eq!(rows, expected, "{condition}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_number_of_threads_and_rows_in_a_batch_gives_the_same() {
    let (_dir, db) = new_pool();
    table(&db).await;
    let expected: Vec<i64> = (0..ROWS)
        .filter(|v| is_live(*v) && v * 7919 % 1000 < 990 && v % 7 == 2)
        .collect();
    let sum = expected.iter().sum::<i64>();
    for (threads, rows) in [(1, 8192), (2, 8192), (3, 1000), (2, 1500), (1, 7)] {
        run(
            &db,
            &format!("SET datafusion.execution.target_partitions = {threads}"),
        )
        .await;
        run(&db, &format!("SET datafusion.execution.batch_size = {rows}")).await;
        // The second condition is one on values.
        let condition = "a < 990 AND v % 7 = 2";
        let text = format!("SELECT count(*), sum(v), min(text) IS NULL FROM t WHERE {condition}");
        let found = query(&db, &text).await;
        assert_eq!(
            found,
            [format!("{}|{sum}|false", expected.len())],
            "{threads}, {rows}"
        );
        let limited = batches(&db, &format!("SELECT v FROM t WHERE {condition} LIMIT 1234"))
            .await
            .concat();
        assert_eq!(limited.len(), 1234, "{threads}, {rows}");
        assert!(
            limited.iter().all(|v| expected.binary_search(v).is_ok()),
            "{threads}, {rows}"
        );
    }
}
