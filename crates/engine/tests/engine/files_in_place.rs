//! CSV files in place: types from a sample, parts decoded in parallel, and rows in order. `COPY … TO` too.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use halocline_engine::Database;

use super::support::{error, new_pool, query, run};

/// Rows of a file that is too large for all of its values to be looked at.
const ROWS: usize = 300_000;

/// Writes a file of rows `id,price,note,sparse`, one of which is another.
fn large(dir: &Path, name: &str, other: (usize, &str)) -> PathBuf {
    let mut text = String::from("id,price,note,sparse\n");
    for id in 0..ROWS {
        if id == other.0 {
            writeln!(text, "{}", other.1).unwrap()
        } else {
            writeln!(text, "{id},{},\"note, {}\",", id % 100, id % 7).unwrap()
        }
    }
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A place that is in no part of the sample.
const BETWEEN: usize = ROWS / 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_unlike_the_sample_widens_the_type_before_the_first_row() {
    let (dir, db) = new_pool();
    let double = large(dir.path(), "double.csv", (BETWEEN, "7,2.5,x,"));
    let file = double.display();
    let sum = format!("SELECT sum(price), arrow_typeof(max(price)), count(*) FROM '{file}'");
    let ids: usize = (0..ROWS).map(|id| id % 100).sum::<usize>() - BETWEEN % 100;
    let expected = format!("{:.9e}|Float64|{ROWS}", ids as f64 + 2.5);
    assert_eq!(query(&db, &sum).await, [expected]);
    let text = large(dir.path(), "text.csv", (BETWEEN, "7,x,x,"));
    let file = text.display();
    assert_eq!(
        query(&db, &format!("SELECT max(price) FROM '{file}'")).await,
        ["x"]
    );
    run(
        &db,
        &format!("CREATE TABLE made AS SELECT * FROM '{}'", double.display()),
    )
    .await;
    assert_eq!(
        query(&db, "SELECT count(*), max(arrow_typeof(price)) FROM made").await,
        [format!("{ROWS}|Float64")]
    );
    // A table of the session learns, too.
    let third = large(dir.path(), "third.csv", (BETWEEN, "7,2.5,x,"));
    let create = format!(
        "CREATE EXTERNAL TABLE third STORED AS CSV LOCATION '{}'",
        third.display()
    );
    run(&db, &create).await;
    assert_eq!(
        query(&db, "SELECT count(*) FROM third WHERE price = 2.5").await,
        ["1"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_unlike_the_sample_is_an_error_with_its_line_after_the_first_row() {
    let (dir, db) = new_pool();
    let path = large(dir.path(), "text.csv", (BETWEEN, "7,x,x,"));
    let select = format!("SELECT price FROM '{}'", path.display());
    let text = error(&db, &select).await;
    let place = format!(
        "text.csv, line {}, column price: 'x' is not a value of type bigint",
        BETWEEN + 2
    );
    assert!(text.contains(&place), "{text}");
    // The session expects such values now.
    assert_eq!(query(&db, &select).await.len(), ROWS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_file_in_place_keep_their_order_and_errors_their_line() {
    let (dir, db) = new_pool();
    let path = large(dir.path(), "quoted.csv", (BETWEEN, "7,1,\"a\nb, \"\"c\"\"\",5"));
    let file = path.display();
    let ids = query(&db, &format!("SELECT id FROM '{file}'")).await;
    assert_eq!(ids.len(), ROWS);
    let expected = |row: usize| if row == BETWEEN { 7 } else { row };
    assert!(
        ids.iter()
            .enumerate()
            .all(|(row, id)| *id == expected(row).to_string())
    );
    assert_eq!(
        query(
            &db,
            &format!("SELECT note, sparse FROM '{file}' WHERE sparse IS NOT NULL")
        )
        .await,
        ["a\nb, \"c\"|5"]
    );
    assert_eq!(
        query(
            &db,
            &format!("SELECT id FROM '{file}' LIMIT 2 OFFSET {}", BETWEEN - 1)
        )
        .await,
        [(BETWEEN - 1).to_string(), "7".into()]
    );
    let plan = query(&db, &format!("EXPLAIN SELECT id FROM '{file}' LIMIT 1"))
        .await
        .join("\n");
    assert!(
        plan.contains("CsvScan") && plan.contains("columns=[id], limit=1"),
        "{plan}"
    );
    let ragged = large(dir.path(), "ragged.csv", (BETWEEN, "7,1,x"));
    let text = error(&db, &format!("SELECT count(*) FROM '{}'", ragged.display())).await;
    let place = format!("ragged.csv, line {}: has 3 columns instead of 4", BETWEEN + 2);
    assert!(text.contains(&place), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_to_keeps_the_order_of_the_rows() {
    let (dir, db) = new_pool();
    let path = large(dir.path(), "rows.csv", (ROWS, ""));
    run(
        &db,
        "CREATE TABLE t (id bigint, price bigint, note text, sparse text)",
    )
    .await;
    run(&db, &format!("COPY t FROM '{}'", path.display())).await;
    for (i, select) in [
        "SELECT * FROM t",
        "SELECT id + 0 AS id FROM t WHERE price < 50",
        "SELECT id FROM t UNION ALL SELECT id + 1000000 FROM t",
        "SELECT id FROM t LIMIT 150000 OFFSET 10",
    ]
    .iter()
    .enumerate()
    {
        let file = dir.path().join(format!("{i}.csv"));
        query(&db, &format!("COPY ({select}) TO '{}'", file.display())).await;
        let text = std::fs::read_to_string(&file).unwrap();
        let ids: Vec<u64> = text
            .lines()
            .skip(1)
            .map(|line| line.split(',').next().unwrap().parse().unwrap())
            .collect();
        assert!(ids.len() > ROWS / 4 && ids.is_sorted(), "{select}");
    }
}

/// Checks that the column `id` of a table is ordered by a key, and that the table has a number of rows.
async fn is_in_order(db: &Database, dir: &Path, table: &str, key: impl Fn(u64) -> u64, rows: usize) {
    let file = dir.join("rows of a table.csv");
    query(
        db,
        &format!("COPY (SELECT id FROM {table}) TO '{}'", file.display()),
    )
    .await;
    let text = std::fs::read_to_string(&file).unwrap();
    let ids: Vec<u64> = text
        .lines()
        .skip(1)
        .map(|line| key(line.parse().unwrap()))
        .collect();
    assert!(
        ids.len() == rows && ids.is_sorted(),
        "{table}: {} rows",
        ids.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_rows_keep_the_order_of_a_file_and_of_order_by() {
    let (dir, db) = new_pool();
    run(&db, "SET datafusion.execution.target_partitions = 4").await;
    let path = large(dir.path(), "rows.csv", (ROWS, ""));
    let file = path.display();
    let all = ROWS as u64;
    for (i, (select, rows, descends)) in [
        (format!("SELECT * FROM '{file}'"), ROWS, false),
        (
            format!("SELECT id + 0 AS id, upper(note) AS note FROM '{file}' WHERE price < 50"),
            ROWS / 2,
            false,
        ),
        (format!("SELECT * FROM '{file}' LIMIT 250000"), 250_000, false),
        (format!("SELECT id FROM '{file}' ORDER BY id DESC"), ROWS, true),
        (
            format!("SELECT a.id FROM '{file}' AS a JOIN '{file}' AS b ON a.id = b.id ORDER BY a.id"),
            ROWS,
            false,
        ),
        ("SELECT id FROM made0 ORDER BY id DESC".to_owned(), ROWS, true),
        (
            "SELECT id, count(*) AS n FROM made0 GROUP BY id ORDER BY id".to_owned(),
            ROWS,
            false,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let key = |id: u64| if descends { all - id } else { id };
        run(&db, &format!("CREATE TABLE made{i} AS {select}")).await;
        is_in_order(&db, dir.path(), &format!("made{i}"), key, rows).await;
        run(
            &db,
            &format!("CREATE TABLE filled{i} AS SELECT * FROM made{i} LIMIT 0"),
        )
        .await;
        run(&db, &format!("INSERT INTO filled{i} {select}")).await;
        is_in_order(&db, dir.path(), &format!("filled{i}"), key, rows).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn binaries_survive_copy_to_and_copy_from() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE t (id int, b bytea, s text)").await;
    run(
        &db,
        "INSERT INTO t VALUES (1, X'', ''), (2, NULL, NULL), (3, X'61', 'a'), (4, X'fffe00', 'b'), \
         (5, X'5c7836312c220a27', 'c'), (6, X'5c', 'd')",
    )
    .await;
    let file = dir.path().join("t.csv");
    query(&db, &format!("COPY t TO '{}'", file.display())).await;
    run(&db, "CREATE TABLE u (id int, b bytea, s text)").await;
    run(&db, &format!("COPY u FROM '{}'", file.display())).await;
    let rows = query(&db, "SELECT * FROM t ORDER BY id").await;
    assert_eq!(query(&db, "SELECT * FROM u ORDER BY id").await, rows);
    assert_eq!(query(&db, "SELECT id FROM u WHERE b IS NULL").await, ["2"]);
    // A column alone, where NULL is a blank line.
    let alone = dir.path().join("alone.csv");
    query(&db, &format!("COPY (SELECT b FROM t) TO '{}'", alone.display())).await;
    run(&db, "CREATE TABLE v (b bytea)").await;
    run(&db, &format!("COPY v FROM '{}'", alone.display())).await;
    let differ = "SELECT count(*) FROM (SELECT b FROM t EXCEPT SELECT b FROM v) AS d";
    assert_eq!(query(&db, differ).await, ["0"]);
    assert_eq!(query(&db, "SELECT count(*), count(b) FROM v").await, ["6|5"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_may_begin_with_a_byte_order_mark() {
    let (_dir, db) = new_pool();
    assert_eq!(
        query(&db, "\u{feff}SELECT $$a;b$$, E'\\';' /* /* ; */ ; */").await,
        ["a;b|';"]
    );
    assert_eq!(
        db.split("\u{feff}SELECT 1; SELECT $x$;$x$").unwrap(),
        ["SELECT 1", "SELECT $x$;$x$"]
    );
}
