//! Death at any moment of a statement, of a transaction, of a compaction: each is there wholly or not at all,
//! and an acknowledged one is there.

use std::cell::RefCell;
use std::sync::Arc;

use halocline_catalog::tuning::Tuning;
use halocline_explore::{Explorer, Report, Tracked, Violation};
use tokio::runtime::Runtime;

use super::{check, create, open, rows, sorted};
use crate::{Compaction, Database};

/// Images tried per fence, about.
const IMAGES: usize = 16;

/// The steps in order; all statements of a step are acknowledged, and must appear, at once.
pub(super) const STEPS: &[&[&str]] = &[
    // Records of the log.
    &["INSERT INTO t VALUES (1000, 'one more'), (1001, NULL)"],
    &["UPDATE t SET s = 'changed' WHERE i IN (3, 1000)"],
    &["DELETE FROM t WHERE i BETWEEN 5 AND 8 OR i = 1001"],
    &[
        "BEGIN",
        "INSERT INTO t VALUES (2000, 'a')",
        "UPDATE t SET i = -i WHERE i > 15",
        "COMMIT",
    ],
    // Publishes, which fold the log.
    &["INSERT INTO t SELECT i, 'many' FROM generate_series(3000, 4500) AS s(i)"],
    &["DELETE FROM t WHERE i % 7 = 0"],
    &[
        "BEGIN",
        "INSERT INTO t SELECT i, 'more' FROM generate_series(5000, 6100) AS s(i)",
        "INSERT INTO u SELECT count(*) FROM t",
        "DELETE FROM t WHERE i < 100",
        "COMMIT",
    ],
    &["INSERT INTO t VALUES (7000, 'in the log')"],
    &["COPY t FROM 'FILE' (FORMAT csv)"],
    &["ALTER TABLE t ADD COLUMN n int DEFAULT 5"],
    &[
        "BEGIN",
        "ALTER TABLE u RENAME TO v",
        "ALTER TABLE v RENAME TO u",
        "COMMIT",
    ],
    &["VACUUM t"],
    // Its trees are let go, and stored again.
    &["ALTER INDEX x SET (placement = 'volatile')"],
    &["CREATE INDEX y ON t (s) WITH (placement = 'volatile')"],
    &["DELETE FROM t WHERE i % 11 = 0"],
    &["ALTER INDEX x SET (placement = 'slow-only')"],
    &["INSERT INTO t VALUES (8000, 'behind it', 1)"],
    &["ALTER TABLE t ALTER COLUMN i TYPE int, ADD COLUMN m int DEFAULT 3"],
    &[
        "BEGIN",
        "ALTER TABLE t DROP COLUMN n",
        "ALTER TABLE t ADD CHECK (i > -100), ALTER COLUMN i SET NOT NULL",
        "ALTER TABLE t ALTER COLUMN m DROP DEFAULT",
        "COMMIT",
    ],
    &["CREATE VIEW w AS SELECT i FROM t WHERE i < 50"],
    &[
        "BEGIN",
        "CREATE OR REPLACE VIEW w AS SELECT n FROM u",
        "INSERT INTO u VALUES (77)",
        "COMMIT",
    ],
    &["CREATE VIEW z AS SELECT * FROM w"],
    &["DROP VIEW w, z"],
    &["CREATE OR REPLACE TABLE u AS SELECT i AS n FROM t WHERE i > 4000"],
    &["TRUNCATE t"],
];

/// Returns all rows of both tables, and the views.
async fn state(db: &Database) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for text in [
        "SELECT * FROM t WHERE i IS NOT NULL",
        "SELECT * FROM u",
        "SELECT definition FROM information_schema.views WHERE definition IS NOT NULL",
    ] {
        all.extend(sorted(&rows(db, text).await?));
        all.push("end".into());
    }
    Ok(all)
}

async fn run(db: &Database, texts: &[impl AsRef<str>]) {
    for text in texts {
        rows(db, text.as_ref()).await.unwrap();
    }
}

/// Checks that the state after a crash is one of `allowed`; returns the reason if it is not.
async fn survives(medium: Arc<Tracked>, allowed: &[Vec<String>]) -> Result<(), String> {
    let db = open(&medium, Compaction::Off, Tuning::default())?;
    run(&db, &["SET halocline.index = force"]).await;
    let found = state(&db).await?;
    if !allowed.contains(&found) {
        let expected: Vec<usize> = allowed.iter().map(Vec::len).collect();
        return Err(format!("{} rows instead of one of {expected:?}", found.len()));
    }
    check(&db)
}

#[test]
fn statements_are_all_or_nothing() {
    let report = explore(STEPS, &Tuning::default()).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(
        report.fences > 2 * STEPS.len() - 6 && report.images > 100,
        "{report}"
    );
}

/// Explores crashes in these steps, for a database with this tuning.
///
/// # Errors
/// It leaves what it must not.
pub(super) fn explore(steps: &[&[&str]], tuning: &Tuning) -> Result<Report, Box<Violation>> {
    let runtime = Runtime::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.csv");
    std::fs::write(&file, "i,s\n7001,from a file\n7002,\n").unwrap();
    let steps = steps.iter().map(|step| {
        let texts = step
            .iter()
            .map(|text| text.replace("FILE", file.to_str().unwrap()));
        texts.collect::<Vec<_>>()
    });
    let steps: Vec<Vec<String>> = steps.collect();
    let kept = RefCell::new(None);
    let states = RefCell::new(Vec::new());
    let explorer = Explorer {
        limit: IMAGES,
        ..Explorer::default()
    };
    explorer.run(
        |medium| {
            let db = create(medium, Compaction::Off, tuning.clone());
            runtime.block_on(async {
                run(
                    &db,
                    &[
                        "CREATE TABLE t (i bigint, s varchar)",
                        "CREATE TABLE u (n bigint)",
                        "INSERT INTO t SELECT i, 'row ' || i FROM generate_series(0, 20) AS s(i)",
                        "CREATE INDEX x ON t (i, s)",
                    ],
                )
                .await;
            });
            states.borrow_mut().push(runtime.block_on(state(&db)).unwrap());
            kept.replace(Some(db));
        },
        |medium| {
            let db = kept.take().unwrap();
            for (number, step) in steps.iter().enumerate() {
                medium.begin(number as u64);
                runtime.block_on(run(&db, step));
                medium.acknowledge(number as u64);
                let now = runtime.block_on(state(&db)).unwrap();
                states.borrow_mut().push(now);
            }
        },
        |medium, crash| {
            let states = states.borrow();
            let (done, last) = crash.completed(0);
            runtime.block_on(survives(medium, &states[done..=last]))
        },
    )
}
