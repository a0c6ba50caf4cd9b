//! Death at any moment of a statement that creates, empties or drops tables with a primary key: the tables
//! are there as before it or as after it, with all their rows.

use std::cell::RefCell;
use std::sync::Arc;

use halocline_catalog::tuning::Tuning;
use halocline_explore::{Explorer, Report, Tracked, Violation};

use super::model::runtime;
use super::{check, create, open, rows, sorted};
use crate::{Compaction, Database};

/// Images tried per fence, about.
const IMAGES: usize = 8;

const SETUP: &[&str] = &[
    "CREATE TABLE t (i bigint, s varchar)",
    "INSERT INTO t SELECT i, 'row ' || i FROM generate_series(1, 40) AS s(i)",
    "CREATE INDEX x ON t (i)",
    "CREATE TABLE u AS SELECT 1 AS n",
    "CREATE TABLE first (a int PRIMARY KEY)",
];

/// Each step must appear at once.
const STEPS: &[&[&str]] = &[
    &["CREATE TABLE k (PRIMARY KEY (i)) AS SELECT i, s FROM t"],
    &["CREATE OR REPLACE TABLE k (s text PRIMARY KEY, n smallint) AS SELECT s, i FROM k WHERE i > 10"],
    &["INSERT INTO first VALUES (1), (2)"],
    &["TRUNCATE t, k, first"],
    &["INSERT INTO first VALUES (3)"],
    &["DROP TABLE k, t, first"],
    &["CREATE TABLE k (a int, b int, PRIMARY KEY (b)) AS SELECT n, n FROM u"],
    &["CREATE TABLE l (a int PRIMARY KEY)"],
    &["DROP TABLE IF EXISTS k, l"],
];

/// Steps whose changes make new tables, if they are not kept in DRAM.
const REWRITES: &[&[&str]] = &[
    &["CREATE TABLE k (PRIMARY KEY (i)) AS SELECT i, s FROM t"],
    &["UPDATE k SET s = s || '!' WHERE i % 2 = 0"],
    &["UPDATE k SET i = i + 1"],
    &["DELETE FROM k WHERE i > 20"],
    &["INSERT INTO k SELECT i + 30, s FROM t"],
    &["REPLACE INTO k SELECT i, 'replaced' FROM t"],
    &[
        "BEGIN",
        "UPDATE k SET i = i + 100",
        "DELETE FROM k WHERE i > 130",
        "COMMIT",
    ],
    &[
        "BEGIN",
        "UPDATE k SET s = s || '?'",
        "INSERT INTO u SELECT i FROM k WHERE i < 105",
        "INSERT INTO k SELECT n, 'from u' FROM u WHERE n < 100",
        "COMMIT",
    ],
    &["BEGIN", "DELETE FROM k", "ROLLBACK"],
    &["ALTER TABLE k ALTER COLUMN i TYPE int, ADD COLUMN n int DEFAULT 5"],
    &["ALTER TABLE k ALTER COLUMN n SET DEFAULT 6, RENAME COLUMN s TO r"],
    &[
        "BEGIN",
        "ALTER TABLE k DROP COLUMN n",
        "INSERT INTO u VALUES (7)",
        "ALTER TABLE k ADD CHECK (i > 0)",
        "INSERT INTO k VALUES (1000, 'last')",
        "COMMIT",
    ],
    &["BEGIN", "ALTER TABLE k DROP COLUMN r", "ROLLBACK"],
];

/// Steps that change a table with a unique constraint.
const UNIQUE: &[&[&str]] = &[
    &["CREATE TABLE k (i bigint PRIMARY KEY, s varchar UNIQUE) AS SELECT i, s FROM t"],
    &["UPDATE k SET s = s || '!' WHERE i % 2 = 0"],
    &["UPDATE k SET i = i + 1"],
    &["DELETE FROM k WHERE i > 20"],
    &["INSERT INTO k VALUES (100, 'row 30')"],
    &[
        "BEGIN",
        "UPDATE k SET s = s || '?'",
        "INSERT INTO k VALUES (101, 'row 30')",
        "COMMIT",
    ],
    &["ALTER TABLE k ADD COLUMN n bigint DEFAULT 1"],
    &["ALTER TABLE k ADD UNIQUE (i, n), ALTER COLUMN n TYPE int"],
    &["TRUNCATE k"],
    &["INSERT INTO k VALUES (1, 'row 1', 2)"],
    &["CREATE OR REPLACE TABLE k (i bigint PRIMARY KEY, s varchar UNIQUE) AS SELECT i, s FROM t"],
    &["BEGIN", "ALTER TABLE k DROP CONSTRAINT k_s_key", "COMMIT"],
    &["DROP TABLE k"],
];

/// Returns the tuning with which no changes are kept in DRAM.
fn none_in_dram() -> Tuning {
    Tuning {
        changes_bytes: 0,
        ..Tuning::default()
    }
}

/// Returns all tables with their rows.
async fn state(db: &Database) -> Result<Vec<String>, String> {
    let tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'";
    let mut all = Vec::new();
    for name in sorted(&rows(db, tables).await?) {
        let name = name.trim_end_matches('|');
        all.push(format!("table {name}"));
        all.extend(sorted(&rows(db, &format!("SELECT * FROM {name}")).await?));
    }
    Ok(all)
}

/// Checks that the tables after a crash are one of `allowed`, and that there are no stores of other tables.
async fn survives(medium: Arc<Tracked>, allowed: &[Vec<String>]) -> Result<(), String> {
    let db = open(&medium, Compaction::Off, Tuning::default())?;
    let found = state(&db).await?;
    if !allowed.contains(&found) {
        return Err(format!("{found:?} instead of one of {allowed:?}"));
    }
    let names = db.stores().map_err(|error| error.to_string())?.names();
    let stores = names.iter().filter(|name| name.starts_with("sql/rows/")).count();
    let tables = db
        .engine
        .stores
        .existing_tables()
        .map_err(|error| error.to_string())?;
    let tables = tables.map_or(0, |tables| tables.names().len());
    if stores != tables {
        return Err(format!("{stores} stores of {tables} tables"));
    }
    entries_are_complete(&db)?;
    check(&db)
}

/// Checks that unique constraints have an entry for each row, none of which is NULL in these tests, and that
/// there are no stores of other tables.
fn entries_are_complete(db: &Database) -> Result<(), String> {
    let stores = db.stores().map_err(|error| error.to_string())?;
    let tables = db.engine.stores.existing_tables();
    let Some(tables) = tables.map_err(|error| error.to_string())? else {
        return Ok(());
    };
    let mut expected = Vec::new();
    for name in tables.names() {
        let Some(table) = tables.table(&name).filter(|table| !table.unique().is_empty()) else {
            continue;
        };
        let index = table.store().name().replace("rows", "unique");
        let entries = stores.existing(&index).map_err(|error| error.to_string())?;
        let (rows, entries) = (table.store().scan::<&[u8]>(..), entries.scan::<&[u8]>(..));
        let (rows, entries) = (rows.count(), entries.count());
        if entries != rows * table.unique().len() {
            return Err(format!("{entries} entries of {rows} rows"));
        }
        expected.push(index);
    }
    let mut names = stores.names();
    names.retain(|name| name.starts_with("sql/unique/"));
    names.sort_unstable();
    expected.sort_unstable();
    if names == expected {
        Ok(())
    } else {
        Err(format!("{names:?} instead of {expected:?}"))
    }
}

/// Explores crashes in these steps.
///
/// # Errors
/// One leaves what it must not.
fn explore(steps: &[&[&str]], tuning: &Tuning) -> Result<Report, Box<Violation>> {
    let runtime = runtime();
    let (kept, states) = (RefCell::new(None), RefCell::new(Vec::new()));
    let explorer = Explorer {
        limit: IMAGES,
        ..Explorer::default()
    };
    explorer.run(
        |medium| {
            let db = create(medium, Compaction::Off, tuning.clone());
            runtime.block_on(async {
                for text in SETUP {
                    rows(&db, text).await.unwrap();
                }
            });
            let first = runtime.block_on(state(&db)).unwrap();
            states.borrow_mut().push(first);
            kept.replace(Some(db));
        },
        |medium| {
            let db = kept.take().unwrap();
            for (number, step) in steps.iter().enumerate() {
                medium.begin(number as u64);
                for text in *step {
                    runtime.block_on(rows(&db, text)).unwrap();
                }
                medium.acknowledge(number as u64);
                states.borrow_mut().push(runtime.block_on(state(&db)).unwrap());
            }
        },
        |medium, crash| {
            let states = states.borrow();
            let (done, last) = crash.completed(0);
            runtime.block_on(survives(medium, &states[done..=last]))
        },
    )
}

#[test]
fn tables_with_a_key_are_created_and_dropped_whole() {
    let report = explore(STEPS, &Tuning::default()).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.fences > STEPS.len() && report.images > 50, "{report}");
}

#[test]
fn several_statements_in_place_of_one_are_noticed() {
    for step in [
        ["DROP TABLE first", "DROP TABLE t"],
        ["TRUNCATE u", "TRUNCATE t"],
        [
            "CREATE TABLE k (i bigint PRIMARY KEY)",
            "INSERT INTO k SELECT i FROM t",
        ],
    ] {
        assert!(explore(&[&step], &Tuning::default()).is_err(), "{step:?}");
    }
}

#[test]
fn tables_are_made_anew_whole() {
    let report = explore(REWRITES, &none_in_dram()).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.fences > REWRITES.len() && report.images > 50, "{report}");
}

#[test]
fn entries_are_those_of_the_rows() {
    for tuning in [Tuning::default(), none_in_dram()] {
        let report = explore(UNIQUE, &tuning).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(report.fences > UNIQUE.len() && report.images > 50, "{report}");
    }
}

#[test]
fn several_rewrites_in_place_of_one_are_noticed() {
    let made = "CREATE TABLE k (PRIMARY KEY (i)) AS SELECT i, s FROM t";
    let halves = [
        "UPDATE k SET s = '-' WHERE i % 2 = 0",
        "UPDATE k SET s = '-' WHERE i % 2 = 1",
    ];
    assert!(explore(&[&[made], &halves], &none_in_dram()).is_err());
}
