//! A table whose deleted rows are damaged keeps nobody from publishing, and loses nothing that the log says
//! of it.

use std::sync::Arc;

use halocline_catalog::tuning::{EngineFault, Tuning};
use halocline_explore::Tracked;
use halocline_media::{Medium, MediumAccess};
use halocline_pool::Pool;

use super::model::runtime;
use super::{create, open, rows, small, sorted};
use crate::{Compaction, Database};

const ALL: &str = "SELECT i FROM damaged";

/// Returns thresholds at which changes of a few rows are too large for the log, which has room for all
/// records of these tests.
fn tuning(injected: Option<EngineFault>) -> Tuning {
    Tuning {
        log_bytes: 64 << 10,
        ..small(injected)
    }
}

/// Returns the offset of the deleted rows, the last extent of the table.
fn deleted_rows(medium: &Arc<Tracked>) -> u64 {
    let pool = Pool::open_on(Medium::from(medium)).unwrap();
    let object = pool.snapshot().unwrap().object("table/damaged").unwrap();
    object.extent_ref(object.extent_count() - 1).offset
}

/// Flips a bit of the byte at `offset`.
fn flip(medium: &Tracked, offset: u64) {
    let mut byte = [0];
    medium.load(offset, &mut byte);
    medium.store(offset, &[byte[0] ^ 1]);
}

async fn run(db: &Database, statements: &[&str]) {
    for statement in statements {
        rows(db, statement).await.unwrap();
    }
}

/// Publishes beside a damaged table, undoes the damage, and returns the rows of the table before and after
/// its changes are published. An injected injected may have rewritten the table, so that reads of it fail.
fn published_beside(injected: Option<EngineFault>) -> [Result<Vec<String>, String>; 2] {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let db = create(&medium, Compaction::Off, tuning(injected));
    runtime().block_on(async {
        let published = [
            "CREATE TABLE damaged AS SELECT i FROM generate_series(1, 100) AS s(i)",
            "CREATE TABLE other (i bigint)",
            "DELETE FROM damaged WHERE i <= 50",
            // There is no log before.
            "INSERT INTO other VALUES (-1)",
        ];
        run(&db, &published).await;
        let logged = [
            "DELETE FROM damaged WHERE i <= 53",
            "INSERT INTO damaged VALUES (200), (201)",
            "DELETE FROM damaged WHERE i = 201",
            "INSERT INTO damaged VALUES (202)",
        ];
        run(&db, &logged).await;
        drop(db);
        let damaged = deleted_rows(&medium);
        flip(&medium, damaged);

        let db = open(&medium, Compaction::Off, tuning(injected)).unwrap();
        for round in 0..3 {
            let many =
                format!("INSERT INTO other SELECT i + 100 * {round} FROM generate_series(1, 50) AS s(i)");
            run(&db, &[&many, "INSERT INTO other VALUES (-2)"]).await;
        }
        let other = sorted(&rows(&db, "SELECT count(*), min(i) FROM other").await.unwrap());
        assert_eq!(other, ["154|-2|"]);
        let refused = rows(&db, ALL).await.unwrap_err();
        assert!(refused.contains("table/damaged"), "{refused}");
        let session = db.session();
        let changes = [
            "BEGIN",
            "INSERT INTO damaged VALUES (203)",
            "INSERT INTO other SELECT * FROM generate_series(1, 50)",
        ];
        run(&session, &changes).await;
        let committed = rows(&session, "COMMIT").await;
        if injected.is_none() {
            let refused = committed.unwrap_err();
            assert!(refused.contains("`damaged`"), "{refused}");
        }
        drop(session);
        drop(db);

        let reopened = || open(&medium, Compaction::Off, tuning(injected)).unwrap();
        let damage = reopened().check(&mut |_| ()).unwrap().problems.join("; ");
        assert!(damage.contains("table damaged"), "{damage}");
        flip(&medium, damaged);
        let mended = reopened();
        let logged = rows(&mended, ALL).await.map(|rows| sorted(&rows));
        run(
            &mended,
            &["INSERT INTO other SELECT * FROM generate_series(1, 50)"],
        )
        .await;
        [logged, rows(&mended, ALL).await.map(|rows| sorted(&rows))]
    })
}

#[test]
fn what_the_log_says_of_a_damaged_table_stays_in_the_log() {
    let mut expected: Vec<String> = (54..=100).chain([200, 202]).map(|i| format!("{i}|")).collect();
    expected.sort_unstable();
    let [logged, folded] = published_beside(None);
    assert_eq!(logged.as_ref(), Ok(&expected));
    assert_eq!(folded, Ok(expected));
}

#[test]
fn its_loss_would_be_noticed() {
    let [logged, _] = published_beside(Some(EngineFault::ForgetUnfolded));
    assert_ne!(logged.map(|rows| rows.len()), Ok(49));
}

#[test]
fn a_damaged_table_with_changes_in_the_log_can_be_dropped() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let db = create(&medium, Compaction::Off, tuning(None));
    runtime().block_on(async {
        let statements = [
            "CREATE TABLE damaged AS SELECT i FROM generate_series(1, 100) AS s(i)",
            "DELETE FROM damaged WHERE i <= 50",
            "INSERT INTO damaged VALUES (200)",
            "DELETE FROM damaged WHERE i <= 53",
        ];
        run(&db, &statements).await;
        drop(db);
        flip(&medium, deleted_rows(&medium));
        let db = open(&medium, Compaction::Off, tuning(None)).unwrap();
        let other = "CREATE TABLE other AS SELECT * FROM generate_series(1, 50)";
        run(&db, &[other, "DROP TABLE damaged"]).await;
        assert_eq!(db.info().unwrap().pool.log_bytes, 0);
        assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
    });
}
