//! Queries with the recorded answers of another database.
//!
//! A file has blocks that an empty line separates: a statement, a line `----`, and the rows in the order of the
//! query, values separated by `|`. The first block creates the tables.

use super::support::{lines, new_pool, run};

/// Runs all queries of a file over tables of the pool, and reports those with other answers.
async fn agrees(text: &str, prepare: &[&str]) {
    let (_dir, db) = new_pool();
    let mut blocks = text
        .split("\n\n")
        .map(str::trim)
        .filter(|block| !block.starts_with('#'));
    let setup = blocks.next().unwrap().trim_end_matches("----");
    for statement in setup
        .split(';')
        .map(str::trim)
        .filter(|statement| !statement.is_empty())
    {
        run(&db, statement).await;
    }
    for statement in prepare {
        run(&db, statement).await;
    }
    let (mut differences, mut count) = (Vec::new(), 0);
    for block in blocks.filter(|block| !block.is_empty()) {
        let (statement, rows) = block.split_once("\n----").unwrap();
        let expected: Vec<&str> = rows.lines().filter(|row| !row.is_empty()).collect();
        count += 1;
        let found = match db.sql(statement).await {
            Ok(result) => match result.collect().await {
                Ok(batches) => lines(&batches),
                Err(error) => vec![format!("error: {error}")],
            },
            Err(error) => vec![format!("error: {error}")],
        };
        if found != expected {
            differences.push(format!(
                "{statement}\n  found    {found:?}\n  expected {expected:?}"
            ));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {count} differ:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subqueries() {
    agrees(include_str!("recorded/subqueries.txt"), &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subqueries_over_stored_and_indexed_tables() {
    agrees(
        include_str!("recorded/subqueries.txt"),
        &[
            "VACUUM",
            "CREATE INDEX ia ON a (k, x)",
            "CREATE INDEX ib ON b (k, v)",
        ],
    )
    .await;
}
