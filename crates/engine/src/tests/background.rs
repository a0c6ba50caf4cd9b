//! Compaction in the background: it happens, it makes way, and it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use halocline_explore::Tracked;

use super::model::runtime;
use super::{check, create, rows, small, sorted};
use crate::{Compaction, Database};

fn segments(db: &Database) -> usize {
    db.info().unwrap().tables[0].segments
}

async fn fill(db: &Database, parts: i64) {
    for part in 0..parts {
        let (from, to) = (part * 20, part * 20 + 19);
        let sql = format!("INSERT INTO t SELECT i FROM generate_series({from}, {to}) AS s(i)");
        rows(db, &sql).await.unwrap();
    }
}

#[test]
fn segments_are_merged_unasked() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let db = create(&medium, Compaction::Off, small(None));
    runtime().block_on(async {
        rows(&db, "CREATE TABLE t (i bigint)").await.unwrap();
        rows(&db, "CREATE INDEX x ON t (i)").await.unwrap();
        fill(&db, 6).await;
        assert_eq!(segments(&db), 6);
        rows(&db, "SET halocline.compaction = auto").await.unwrap();
        while segments(&db) > 1 {
            std::thread::yield_now();
        }
        // Once more, this time after a publish.
        fill(&db, 3).await;
        while segments(&db) > 1 {
            std::thread::yield_now();
        }
        rows(&db, "SET halocline.compaction = off").await.unwrap();
        let count = rows(&db, "SELECT count(*), sum(i) FROM t WHERE i >= 0").await;
        assert_eq!(sorted(&count.unwrap()), ["180|8910|"]);
        let refused = rows(&db, "SET halocline.compaction = often").await.unwrap_err();
        assert!(refused.contains("off or auto, not 'often'"), "{refused}");
    });
    check(&db).unwrap();
}

/// Writers and readers in several threads, beside merges that begin after every publish.
#[test]
fn writers_and_readers_go_on_beside_it() {
    const ROUNDS: i64 = 30;
    let medium = Arc::new(Tracked::new(0).unwrap());
    let db = create(&medium, Compaction::Auto, small(None));
    runtime().block_on(async { rows(&db, "CREATE TABLE t (i bigint)").await.unwrap() });
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let reader = db.session();
            runtime().block_on(async {
                let mut last = 0;
                while !over.load(Ordering::Relaxed) {
                    let found = rows(&reader, "SELECT i FROM t").await.unwrap();
                    // Each writer adds 20 rows a round and deletes 10 of them in the next statement.
                    let count: usize = found.iter().map(|batch| batch.num_rows()).sum();
                    assert!(
                        count.is_multiple_of(10) && count + 40 > last,
                        "{count} rows after {last}"
                    );
                    last = count;
                }
            });
        });
        let writers: Vec<_> = [0, 1_000_000]
            .map(|base| {
                let writer = db.session();
                scope.spawn(move || {
                    runtime().block_on(async {
                        for round in 0..ROUNDS {
                            let (from, to) = (base + round * 20, base + round * 20 + 19);
                            let add =
                                format!("INSERT INTO t SELECT i FROM generate_series({from}, {to}) AS s(i)");
                            rows(&writer, &add).await.unwrap();
                            let delete = format!("DELETE FROM t WHERE i BETWEEN {from} AND {}", from + 9);
                            rows(&writer, &delete).await.unwrap();
                        }
                    });
                })
            })
            .into_iter()
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    let count = runtime()
        .block_on(rows(&db, "SELECT count(*), min(i) FROM t"))
        .unwrap();
    assert_eq!(sorted(&count), ["600|10|"]);
    check(&db).unwrap();
}
