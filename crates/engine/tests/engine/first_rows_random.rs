//! Random queries for the first rows of groups, beside plain DataFusion.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use halocline_engine::Database;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::support::{lines, new_pool, plain_datafusion, query, run};

/// Queries tried per run.
const QUERIES: usize = 60;

/// Columns of the table, all but the unique one.
const COLUMNS: [&str; 8] = ["k", "j", "s", "d", "x", "n", "b", "m"];

fn seeded() -> StdRng {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("HALOCLINE_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    #[expect(clippy::print_stdout, reason = "the seed repeats a failure")]
    {
        println!("HALOCLINE_SEED={seed}");
    }
    StdRng::seed_from_u64(seed)
}

/// Rows with integers, texts, dates, floats, decimals and booleans, all with NULLs; `v` is unique. There is
/// one zero, as plain DataFusion keeps 0.0 and -0.0 apart.
fn rows(rng: &mut StdRng, first: usize, count: usize) -> String {
    let mut random = |most: usize| rng.random_range(1..most);
    let (k, j, s, d, n, null, factor) = (
        random(60),
        random(9),
        random(40),
        random(90),
        random(50),
        random(40),
        random(1000),
    );
    format!(
        "SELECT CASE WHEN v % {null} = 0 THEN NULL ELSE CAST((v * {factor}) % {k} - 20 AS INT) END AS k, \
         CASE WHEN v % 13 = 5 THEN NULL ELSE v % {j} END AS j, \
         CASE WHEN v % 17 = 3 THEN NULL ELSE 'the same beginning'||CAST((v * 31) % {s} AS VARCHAR) END AS s, \
         CASE WHEN v % 19 = 3 THEN NULL ELSE date '1969-12-01' + CAST(v % {d} AS INT) END AS d, \
         CASE WHEN v % 23 = 3 THEN NULL WHEN v % 29 = 4 THEN CAST('NaN' AS DOUBLE) \
         WHEN v % 31 = 4 THEN CAST('-Infinity' AS DOUBLE) WHEN v % 7 = 1 THEN CAST('0' AS DOUBLE) \
         ELSE CAST((v % 31) - 5 AS DOUBLE) / 4 END AS x, \
         CASE WHEN v % 11 = 3 THEN NULL ELSE CAST((v * 7) % {n} - 9 AS DECIMAL(30, 3)) / 8 END AS n, \
         CASE WHEN v % 5 = 3 THEN NULL ELSE v % 3 = 1 END AS b, \
         CASE WHEN v % 37 = 3 THEN NULL ELSE to_timestamp(v * 1000 % 77777) END AS m, v \
         FROM generate_series({first}, {}) AS t(v)",
        first + count
    )
}

/// A table with several segments, deleted rows and rows in the log.
async fn table(rng: &mut StdRng) -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    let first = rng.random_range(0..1000);
    run(&db, &format!("CREATE TABLE t AS {}", rows(rng, first, 1000))).await;
    for part in 0..rng.random_range(0..3) {
        run(
            &db,
            &format!("INSERT INTO t {}", rows(rng, 3000 + part * 500, 400)),
        )
        .await;
        // A publish of anything makes a segment of them.
        run(&db, &format!("CREATE TABLE t{part} AS SELECT 1 AS one")).await;
    }
    for statement in [
        format!("DELETE FROM t WHERE v % 11 = {}", rng.random_range(0..11)),
        format!("INSERT INTO t {}", rows(rng, 6000, 60)),
        "UPDATE t SET k = k + 1 WHERE v % 50 = 7".to_owned(),
        "DELETE FROM t WHERE v = 6004".to_owned(),
    ] {
        run(&db, &statement).await;
    }
    (dir, db)
}

/// Plain DataFusion over the same rows.
async fn plain(db: &Database) -> SessionContext {
    let context = plain_datafusion();
    let batches = db.sql("SELECT * FROM t").await.unwrap().collect().await.unwrap();
    let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    context
}

async fn vary(db: &Database, rng: &mut StdRng) {
    let partitions = rng.random_range(1..4);
    run(
        db,
        &format!("SET datafusion.execution.target_partitions = {partitions}"),
    )
    .await;
    let rows = [8192, 100, 7].choose(rng).unwrap();
    run(db, &format!("SET datafusion.execution.batch_size = {rows}")).await;
}

/// A query whose rows do not depend on the order of rows that tie.
fn question(rng: &mut StdRng) -> String {
    let mut some = |most: usize| -> Vec<&str> {
        let number = rng.random_range(1..=most);
        COLUMNS.choose_multiple(rng, number).copied().collect()
    };
    let (groups, order) = (some(2), some(3));
    let direction = |rng: &mut StdRng, column: &str| {
        let directions = ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"];
        format!("{column}{}", directions.choose(rng).unwrap())
    };
    let mut sorted: Vec<String> = order.iter().map(|column| direction(rng, column)).collect();
    let function = *["row_number", "rank"].choose(rng).unwrap();
    let is_unique = rng.random_bool(0.5);
    if is_unique {
        sorted.push("v".into());
    }
    // Rows that tie have different numbers in any order, but no other columns tell them apart.
    let output = if is_unique || function == "rank" {
        "*".to_owned()
    } else {
        let others = order.iter().filter(|column| !groups.contains(column));
        let columns: Vec<&str> = groups.iter().chain(others).copied().collect();
        format!("{}, place", columns.join(", "))
    };
    let most = *[1, 1, 2, 3, 5, 30, 64].choose(rng).unwrap();
    let condition = match rng.random_range(0..8) {
        0 => format!("place = {most}"),
        1 => format!("place < {}", most + 1),
        2 if is_unique => format!("place <= {most} AND v % 3 = 1"),
        3 => format!("place IN (1, {most})"),
        4 => format!("place BETWEEN 2 AND {most}"),
        _ => format!("place <= {most}"),
    };
    let parts = ["v % 3 > 0", "s LIKE '%1%'", "v < 0", "k = 7"];
    let rows = if rng.random_bool(0.6) {
        "t".to_owned()
    } else {
        format!("(SELECT * FROM t WHERE {})", parts.choose(rng).unwrap())
    };
    format!(
        "SELECT {output} FROM (SELECT *, {function}() OVER (PARTITION BY {} ORDER BY {}) AS place FROM {rows}) WHERE {condition}",
        groups.join(", "),
        sorted.join(", ")
    )
}

async fn agrees(db: &Database, plain: &SessionContext, rng: &mut StdRng) -> bool {
    vary(db, rng).await;
    let text = question(rng);
    let mut expected = lines(&plain.sql(&text).await.unwrap().collect().await.unwrap());
    let mut found = query(db, &text).await;
    expected.sort_unstable();
    found.sort_unstable();
    let plan = query(db, &format!("EXPLAIN {text}")).await.join("\n");
    assert_eq!(found, expected, "{text}\n{plan}");
    plan.contains("FirstRowsFilter")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_groups_agree() {
    let mut rng = seeded();
    let (_dir, db) = table(&mut rng).await;
    let reference = plain(&db).await;
    let mut filtered = 0;
    for _ in 0..QUERIES {
        filtered += usize::from(agrees(&db, &reference, &mut rng).await);
    }
    assert!(filtered > QUERIES / 2, "{filtered} plans of {QUERIES}");
    // Again within a transaction that has changed the table.
    run(&db, "BEGIN").await;
    for statement in [
        format!("INSERT INTO t {}", rows(&mut rng, 8000, 300)),
        "DELETE FROM t WHERE v % 9 = 2".to_owned(),
        "UPDATE t SET k = 3 WHERE v % 20 = 1".to_owned(),
    ] {
        run(&db, &statement).await;
    }
    let reference = plain(&db).await;
    for _ in 0..QUERIES / 4 {
        agrees(&db, &reference, &mut rng).await;
    }
    run(&db, "ROLLBACK").await;
}
