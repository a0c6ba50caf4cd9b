//! Full disks of several sizes: what frees space works on each, in any order, and changes what it says.

use std::sync::Arc;

use halocline_catalog::tuning::Tuning;
use halocline_explore::Tracked;
use halocline_media::MediumAccess;

use super::model::runtime;
use super::{create, open, rows, small, sorted};
use crate::{Compaction, Database};

/// Returns small thresholds, but a log of the default size, so that a full disk has no room for another one.
fn tuning() -> Tuning {
    Tuning {
        log_bytes: 1 << 20,
        ..small(None)
    }
}

async fn count(db: &Database, table: &str) -> String {
    let count = rows(db, &format!("SELECT count(*) FROM {table}")).await.unwrap();
    sorted(&count).concat().trim_end_matches('|').to_owned()
}

/// Fills a disk with rows of tables with and without a primary key, and with small changes in the log.
async fn fill(db: &Database) {
    let create = [
        "CREATE TABLE t (k bigint, v bigint, s text)",
        "CREATE INDEX i ON t (k)",
        "CREATE TABLE u (k bigint)",
        "CREATE TABLE keyed (id bigint PRIMARY KEY, v text)",
    ];
    for statement in create {
        rows(db, statement).await.unwrap();
    }
    let mut next = 0;
    for many in [20_000, 2000, 200, 5] {
        for _ in 0..60 {
            let keys = format!("generate_series({next}, {})", next + many - 1);
            let statements = [
                format!("INSERT INTO t SELECT i, i * 7919, 's' || i FROM {keys} AS s(i)"),
                format!("INSERT INTO keyed SELECT i, repeat('y', 90) FROM {keys} AS s(i)"),
                format!("INSERT INTO u VALUES ({next}), ({many})"),
            ];
            let mut refused = 0;
            for statement in &statements {
                if let Err(error) = rows(db, statement).await {
                    assert!(error.contains("is full"), "{statement}: {error}");
                    refused += 1;
                }
            }
            if refused == statements.len() {
                break;
            }
            next += many;
        }
    }
}

/// Returns the number of rows of each table.
async fn counts(db: &Database) -> [String; 3] {
    [
        count(db, "t").await,
        count(db, "u").await,
        count(db, "keyed").await,
    ]
}

/// Opens a copy of a full disk.
fn reopen(image: &[u8], tuning: Tuning) -> Database {
    let medium = Arc::new(Tracked::from_image(image).unwrap());
    medium.limit(medium.len());
    open(&medium, Compaction::Off, tuning).unwrap()
}

/// Runs statements on a copy of a full disk, through another opening; returns the number of rows of each
/// table.
fn after(image: &[u8], statements: &[&str]) -> [String; 3] {
    runtime().block_on(async {
        let db = reopen(image, tuning());
        for statement in statements {
            rows(&db, statement)
                .await
                .unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        counts(&db).await
    })
}

/// Returns the bytes that an error names because the disk is full.
fn wanted(error: &str) -> u64 {
    let bytes = error
        .split_once(" by ")
        .and_then(|(_, after)| after.split_once(" bytes because its file system is full"));
    let (bytes, _) = bytes.unwrap_or_else(|| panic!("{error}"));
    bytes.parse().unwrap()
}

#[test]
fn what_frees_space_needs_none() {
    for disk in [5, 8, 12] {
        let medium = Arc::new(Tracked::new(0).unwrap());
        medium.limit(disk << 20);
        runtime().block_on(async {
            let db = create(&medium, Compaction::Off, tuning());
            fill(&db).await;
        });
        let image = medium.image();
        let [t, u, keyed] = after(&image, &[]);
        let empty = || "0".to_owned();
        let same = || [t.clone(), u.clone(), keyed.clone()];
        assert_ne!([&t, &u, &keyed], ["0"; 3], "{disk} MiB");
        assert_eq!(
            after(&image, &["TRUNCATE u"]),
            [t.clone(), empty(), keyed.clone()]
        );
        assert_eq!(
            after(&image, &["TRUNCATE t"]),
            [empty(), u.clone(), keyed.clone()]
        );
        assert_eq!(
            after(&image, &["TRUNCATE keyed"]),
            [t.clone(), u.clone(), empty()]
        );
        assert_eq!(after(&image, &["VACUUM"]), same());
        assert_eq!(after(&image, &["DROP INDEX i"]), same());
        assert_eq!(
            after(&image, &["DELETE FROM t"]),
            [empty(), u.clone(), keyed.clone()]
        );
        assert_eq!(
            after(&image, &["DELETE FROM u"]),
            [t.clone(), empty(), keyed.clone()]
        );
        assert_eq!(
            after(&image, &["DELETE FROM keyed WHERE id < 100"])[..2],
            [t.clone(), u.clone()]
        );
        let all = [
            "DELETE FROM t WHERE k % 3 = 0",
            "BEGIN",
            "DELETE FROM u",
            "TRUNCATE t",
            "COMMIT",
            "DROP TABLE t, keyed",
            "VACUUM",
            "CREATE TABLE t AS SELECT 1 AS k",
            "CREATE TABLE keyed (id bigint PRIMARY KEY)",
            "INSERT INTO keyed VALUES (1), (2)",
        ];
        assert_eq!(after(&image, &all), ["1".to_owned(), empty(), "2".to_owned()]);
    }
}

/// The list of deleted rows is longer than what `DELETE` may take of the reserve, so the log carries it, which
/// this pool has not had before; a list that is longer than all of the reserve is refused.
#[test]
fn a_deletion_of_more_rows_than_the_reserve_can_list_changes_nothing() {
    const ROWS: u64 = 5_000_000;
    const LISTED: u64 = 2_400_000;
    let medium = Arc::new(Tracked::new(0).unwrap());
    runtime().block_on(async {
        let db = create(&medium, Compaction::Off, small(None));
        let table = format!("CREATE TABLE t AS SELECT i AS k FROM generate_series(1, {ROWS}) AS s(i)");
        for statement in [
            table.as_str(),
            "CREATE TABLE u (k bigint)",
            "CREATE TABLE keyed (id bigint PRIMARY KEY)",
        ] {
            rows(&db, statement).await.unwrap();
        }
        medium.limit(medium.len());
        for many in [20_000, 2000, 200] {
            let numbers =
                format!("SELECT i * 2654435761 % 4294967291 FROM generate_series(1, {many}) AS s(i)");
            while rows(&db, &format!("INSERT INTO u {numbers}")).await.is_ok() {}
        }
    });
    let image = medium.image();
    runtime().block_on(async {
        let db = reopen(&image, small(None));
        let before = counts(&db).await;
        assert_eq!(before[0], ROWS.to_string());
        let error = rows(&db, "DELETE FROM t WHERE k % 2 = 0").await.unwrap_err();
        assert!(wanted(&error) >= ROWS / 8, "{error}");
        assert_eq!(counts(&db).await, before);
        // In parts it works.
        let part = format!("DELETE FROM t WHERE k % 2 = 0 AND k <= {LISTED}");
        rows(&db, &part).await.unwrap();
        assert_eq!(count(&db, "t").await, (ROWS - LISTED / 2).to_string());
    });
}

#[test]
fn a_deletion_of_more_keys_than_segments_are_kept_for_changes_nothing() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    medium.limit(12 << 20);
    runtime().block_on(async {
        let db = create(&medium, Compaction::Off, tuning());
        fill(&db).await;
    });
    let image = medium.image();
    runtime().block_on(async {
        let db = reopen(&image, tuning());
        let before = counts(&db).await;
        let error = rows(&db, "DELETE FROM keyed WHERE id % 2 = 0").await.unwrap_err();
        let keys: u64 = before[2].parse().unwrap();
        assert!(wanted(&error) > keys / 2 * size_of::<i64>() as u64, "{error}");
        assert_eq!(counts(&db).await, before);
        // In parts it works.
        rows(&db, "DELETE FROM keyed WHERE id < 100").await.unwrap();
        assert_eq!(count(&db, "keyed").await, (keys - 100).to_string());
    });
}
