//! Readers in other processes, while a writer changes and compacts: every answer is one of a committed
//! version.

use std::process::{Command, Stdio};

use halocline_engine::{Compaction, Database, DatabaseOptions};
use tokio::runtime::Runtime;

use crate::common::Home;

/// Queries of a reader.
const QUERIES: usize = 60;
/// Reading processes.
const READERS: usize = 2;
/// Rows from the beginning.
const ROWS: i64 = 1500;
/// Of one version, `version + ROWS` rows, all with that version.
const QUERY: &str = "SELECT min(version), max(version), count(*), sum(i) FROM t WHERE version >= 0;\n";

async fn run(database: &Database, sql: &str) {
    let answer = database.sql(sql).await;
    let rows = answer
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
        .collect()
        .await;
    rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

#[test]
fn answers_are_of_committed_versions() {
    let home = Home::new();
    home.write("queries.sql", QUERY.repeat(QUERIES));
    let options = DatabaseOptions::default().with_compaction(Compaction::Auto);
    let database = Database::create(&home.path("p"), &options).unwrap();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        run(&database, "CREATE TABLE t (i bigint, version bigint)").await;
        let rows = format!("INSERT INTO t SELECT i, 0 FROM generate_series(1, {ROWS}) AS s(i)");
        run(&database, &rows).await;
        run(&database, "CREATE INDEX x ON t (version)").await;
    });
    let mut readers: Vec<_> = (0..READERS)
        .map(|_| {
            Command::new(assert_cmd::cargo::cargo_bin("halocline"))
                .current_dir(home.directory())
                .args(["sql", "p", "-f", "queries.sql", "--output", "csv", "--read-only"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut version = 0;
    while readers
        .iter_mut()
        .any(|reader| reader.try_wait().unwrap().is_none())
    {
        version += 1;
        runtime.block_on(async {
            run(&database, "BEGIN").await;
            let update = format!("UPDATE t SET version = {version} WHERE version < {version}");
            run(&database, &update).await;
            run(&database, &format!("INSERT INTO t VALUES (0, {version})")).await;
            run(&database, "COMMIT").await;
            if version % 5 == 0 {
                run(&database, "VACUUM FULL t").await;
            }
        });
    }
    for reader in readers {
        let output = reader.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let numbers = |line: &str| -> Option<Vec<i64>> { line.split(',').map(|n| n.parse().ok()).collect() };
        let answers: Vec<Vec<i64>> = text.lines().filter_map(numbers).collect();
        assert_eq!(answers.len(), QUERIES, "{text}");
        let mut last = 0;
        for answer in answers {
            let seen = answer[0];
            assert_eq!(answer, [seen, seen, ROWS + seen, ROWS * (ROWS + 1) / 2]);
            assert!((last..=version).contains(&seen), "{seen} after {last}");
            last = seen;
        }
    }
}
