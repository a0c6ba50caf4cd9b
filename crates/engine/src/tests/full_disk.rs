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

/// Runs a statement on a copy of a full disk, through another opening; returns the number of rows of each
/// table.
fn after(image: &[u8], statements: &[&str]) -> [String; 3] {
    let medium = Arc::new(Tracked::from_image(image).unwrap());
    medium.limit(medium.len());
    runtime().block_on(async {
        let db = open(&medium, Compaction::Off, tuning()).unwrap();
        for statement in statements {
            rows(&db, statement)
                .await
                .unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        [
            count(&db, "t").await,
            count(&db, "u").await,
            count(&db, "keyed").await,
        ]
    })
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
