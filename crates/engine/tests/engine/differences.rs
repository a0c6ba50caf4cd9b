//! "Differences" in docs/sql.md: each line of the table is run, and the answer is the one that it states.

use std::fs;
use std::path::Path;

use super::support::{new_pool, query};

/// Returns the cells of the rows of the table below the heading.
fn lines() -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql.md");
    let text = fs::read_to_string(&path).unwrap();
    let section = text.split("\n## Differences\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = |line: &str| {
        let inner = line.trim_matches('|').replace("\\|", "\u{1}");
        inner
            .split('|')
            .map(|cell| cell.trim().replace('\u{1}', "|"))
            .collect()
    };
    rows.map(cells).collect()
}

/// Returns what a cell has in its first pair of backticks.
fn code(cell: &str) -> &str {
    cell.split('`')
        .nth(1)
        .unwrap_or_else(|| panic!("no code in '{cell}'"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_difference_is_as_stated() {
    let (_dir, db) = new_pool();
    let lines = lines();
    assert!(!lines.is_empty());
    for cells in lines {
        let (sql, here) = (code(&cells[0]), code(&cells[1]));
        match here.strip_prefix("error: ") {
            Some(part) => {
                let failed = match db.sql(sql).await {
                    Ok(result) => result.collect().await.map(drop),
                    Err(error) => Err(error),
                };
                let said = failed.expect_err(sql).to_string();
                assert!(said.contains(part), "{sql}: {said}");
            }
            None => assert_eq!(query(&db, sql).await.join(", "), here, "{sql}"),
        }
    }
}
