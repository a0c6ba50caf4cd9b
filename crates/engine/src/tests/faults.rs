//! Injected faults prove that the other tests can fail.

use halocline_catalog::tuning::{EngineFault, Tuning};
use halocline_pool::{Pool, PoolOptions};

use super::crash::{self, STEPS};
use super::model::{first_failure, runtime};
use super::{rows, small, sorted};
use crate::{Database, DatabaseOptions};

/// Sequences after which a fault must have been noticed.
const SEQUENCES: u64 = 60;

#[test]
fn the_model_notices_faults() {
    for fault in [
        EngineFault::ForgetLog,
        EngineFault::FoldGoneRows,
        EngineFault::ForgetDeletions,
        EngineFault::StaleIndex,
        EngineFault::ReadRecordsTwice,
        EngineFault::KeepAddedRows,
        EngineFault::HalfUpdate,
        EngineFault::KeepFailed,
        EngineFault::CommitEarly,
        EngineFault::TruncateSegmentsOnly,
        EngineFault::CompactWithoutLog,
    ] {
        let noticed = first_failure(1..=SEQUENCES, Some(fault));
        assert!(noticed.is_some(), "{fault:?} was not noticed");
    }
    assert_eq!(first_failure(1..=3, None), None);
}

#[test]
fn crashes_show_faults() {
    for fault in [EngineFault::AcknowledgeEarly, EngineFault::CommitEarly] {
        let tuning = Tuning {
            injected: Some(fault),
            ..Tuning::default()
        };
        let explored = crash::explore(&STEPS[..4], &tuning);
        assert!(explored.is_err(), "{fault:?} was not noticed");
    }
    crash::explore(&STEPS[..4], &Tuning::default()).unwrap_or_else(|violation| panic!("{violation}"));
}

/// Returns true if a handle that has read one generation with its log also reads the next ones, which another
/// handle publishes.
fn read_by_another_handle(injected: Option<EngineFault>) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("test.pool");
    let options = PoolOptions::default();
    let over = |pool| Database::with_tuning(pool, &DatabaseOptions::default(), small(injected));
    let writer = over(Pool::create(&path, &options).unwrap());
    let reader = over(Pool::open(&path, &options).unwrap());
    let reads_the_same = || async {
        let [written, read] = [&writer, &reader].map(|db| rows(db, "SELECT * FROM t"));
        sorted(&written.await.unwrap()) == sorted(&read.await.unwrap())
    };
    runtime().block_on(async {
        for text in [
            "CREATE TABLE t (i bigint)",
            "INSERT INTO t VALUES (1)",
            "INSERT INTO t VALUES (2)",
            "INSERT INTO t SELECT i FROM generate_series(3, 30) AS s(i)",
            "DELETE FROM t WHERE i = 4",
        ] {
            rows(&writer, text).await.unwrap();
            if !reads_the_same().await {
                return false;
            }
        }
        true
    })
}

#[test]
fn a_second_handle_shows_mixed_versions() {
    assert!(read_by_another_handle(None));
    assert!(!read_by_another_handle(Some(EngineFault::MixVersions)));
}
