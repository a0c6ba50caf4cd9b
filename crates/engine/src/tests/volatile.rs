//! Volatile indexes: defined, built by the first query that has a use for one, kept up with their table, let
//! go, stored again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use halocline_sql::placement_spec::PlacementSpec;

use super::model::runtime;
use super::{check, rows, sorted};
use crate::statement::set_placement;
use crate::{Database, DatabaseOptions, EngineError, IndexInfo, Placement};

const ROWS: i64 = 20_000;

/// Numbers, and strings that are too many for the table to have codes for them.
const TABLE: &str = "CREATE TABLE t (a bigint NOT NULL, s varchar, b bigint NOT NULL)";

fn insert(from: i64, to: i64) -> String {
    let to = to - 1;
    format!(
        "INSERT INTO t (a, s, b) SELECT v % 97, CASE WHEN v % 13 > 0 THEN 'string number ' || (v * 7919 % 100003) END, v \
         FROM generate_series({from}, {to}) AS s(v)"
    )
}

/// Creates the table with rows and a volatile index `i`.
async fn fill(db: &Database) {
    for text in [
        TABLE,
        &insert(0, ROWS),
        "CREATE INDEX i ON t (a, s) WITH (placement = 'volatile')",
        "SET halocline.index = force",
    ] {
        said(db, text).await.unwrap();
    }
}

async fn said(db: &Database, text: &str) -> Result<String, String> {
    let result = db.sql(text).await.map_err(|error| error.to_string())?;
    Ok(result.message().unwrap_or_default().to_owned())
}

async fn run(db: &Database, text: &str) -> String {
    said(db, text)
        .await
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn index(db: &Database) -> IndexInfo {
    db.info().unwrap().indexes.remove(0)
}

async fn shown(db: &Database, text: &str) -> Vec<String> {
    sorted(&rows(db, text).await.unwrap())
}

/// Returns the reason in the plan.
async fn explained(db: &Database) -> String {
    shown(db, "EXPLAIN SELECT count(*) FROM t WHERE a = 5")
        .await
        .concat()
}

/// Asserts that each query returns the same result with the index as without it.
async fn agrees(db: &Database) {
    for condition in [
        "a = 5",
        "a BETWEEN 10 AND 40 AND b % 2 = 0",
        "s = 'string number 7919'",
        "s BETWEEN 'string number 2' AND 'string number 4' AND a < 50",
        "s IS NULL AND a > 90",
        "s LIKE 'string number 1%'",
        "a = 5 OR s = 'string number 15838'",
        "b < 100",
    ] {
        let text = format!("SELECT count(*), sum(b), min(s) FROM t WHERE {condition}");
        let found = shown(db, &text).await;
        run(db, "SET halocline.index = off").await;
        let expected = shown(db, &text).await;
        run(db, "SET halocline.index = force").await;
        assert_eq!(found, expected, "{condition}");
    }
}

fn memory() -> Database {
    Database::in_memory(&DatabaseOptions::default()).unwrap()
}

#[test]
fn nothing_of_it_is_stored() {
    runtime().block_on(async {
        let db = memory();
        fill(&db).await;
        let defined = index(&db);
        assert_eq!(
            (defined.bytes, defined.rows, defined.dram_bytes),
            (0, ROWS as u64, None)
        );
        let text = defined.placement_text();
        assert!(text.starts_with("volatile: not built, up to about "), "{text}");
        check(&db).unwrap();
        // A query that has no use for it builds nothing; one on strings that only the index has codes for
        // does.
        shown(&db, "SELECT count(*) FROM t WHERE b < 100").await;
        assert_eq!(index(&db).dram_bytes, None);
        shown(&db, "SELECT count(*) FROM t WHERE s = 'string number 7919'").await;
        let built = index(&db).dram_bytes.unwrap();
        assert!(built > 0 && db.info().unwrap().placed_bytes == built);
        let plan = explained(&db).await;
        assert!(plan.contains("ElfScan: table=t, index=i"), "{plan}");
        agrees(&db).await;
        check(&db).unwrap();
        let listed = shown(&db, "SHOW INDEXES").await;
        assert!(
            listed[0].contains(&format!("|0|volatile|NULL|{built}|NULL|")),
            "{listed:?}"
        );
        // To others and back: what is stored comes and goes.
        let used = || db.info().unwrap().pool.used_bytes;
        let (without, stored) = (used(), run(&db, "ALTER INDEX i SET (placement = 'hybrid')").await);
        assert!(
            stored.contains("hybrid: ") && stored.contains("in DRAM"),
            "{stored}"
        );
        let hybrid = index(&db);
        assert!(hybrid.bytes > 0 && used() >= without + hybrid.bytes);
        assert_eq!(db.info().unwrap().placed_bytes, hybrid.dram_bytes.unwrap());
        agrees(&db).await;
        let text = run(&db, "ALTER INDEX i SET (placement = 'volatile')").await;
        assert!(
            text.starts_with("index i: volatile: ") && text.ends_with("in DRAM"),
            "{text}"
        );
        assert_eq!((index(&db).bytes, index(&db).dram_bytes), (0, Some(built)));
        assert!(used() <= without);
        agrees(&db).await;
        assert_eq!(db.info().unwrap().placed_bytes, built);
        run(&db, "DROP INDEX i").await;
        assert_eq!(db.info().unwrap().placed_bytes, 0);
        agrees(&db).await;
    });
}

#[test]
fn it_keeps_up_with_its_table() {
    runtime().block_on(async {
        let db = memory();
        fill(&db).await;
        agrees(&db).await;
        let mut last = index(&db).dram_bytes.unwrap();
        for text in [
            insert(ROWS, ROWS + 5000).as_str(),
            "INSERT INTO t VALUES (5, 'string number 7919', -1), (5, NULL, -2)",
            "DELETE FROM t WHERE b % 3 = 0",
            "UPDATE t SET s = 'string number 3', a = a + 1 WHERE b % 101 = 0",
            "VACUUM t",
            "ALTER TABLE t ADD COLUMN d int DEFAULT 5",
            "ALTER TABLE t RENAME COLUMN d TO e",
            "VACUUM FULL t",
            "ALTER TABLE t CLUSTER BY (a, s)",
            "VACUUM FULL t",
        ] {
            run(&db, text).await;
            agrees(&db).await;
            let info = index(&db);
            assert_eq!((info.bytes, &info.fallback), (0, &None), "{text}");
            assert_eq!(
                db.info().unwrap().placed_bytes,
                info.dram_bytes.unwrap(),
                "{text}"
            );
            check(&db).unwrap();
            if text.contains("generate_series") {
                assert!(info.dram_bytes.unwrap() > last);
            }
            last = info.dram_bytes.unwrap();
        }
        run(&db, "ALTER TABLE t RENAME TO u").await;
        run(&db, "ALTER TABLE u RENAME TO t").await;
        agrees(&db).await;
        assert_eq!(index(&db).dram_bytes, Some(last));
        // Within a transaction: the trees there are, while they cover the rows it sees.
        for end in ["ROLLBACK", "COMMIT"] {
            run(&db, "BEGIN").await;
            let plan = explained(&db).await;
            assert!(plan.contains("ElfScan"), "{plan}");
            run(&db, &insert(ROWS, ROWS + 3000)).await;
            let all = shown(&db, "SELECT count(*) FROM t WHERE a >= 0").await;
            run(&db, end).await;
            let after = shown(&db, "SELECT count(*) FROM t WHERE a >= 0").await;
            assert_eq!(all == after, end == "COMMIT");
            agrees(&db).await;
        }
        run(&db, "TRUNCATE t").await;
        agrees(&db).await;
        assert_eq!(db.info().unwrap().placed_bytes, 0);
        run(&db, "CREATE OR REPLACE TABLE t AS SELECT 1 AS a").await;
        assert_eq!(db.info().unwrap().indexes.len(), 0);
        check(&db).unwrap();
    });
}

#[test]
fn it_is_built_again_after_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    let open = |path: &Path, read_only| {
        let options = DatabaseOptions::default().with_read_only(read_only);
        let db = Database::open(path, &options).unwrap();
        runtime().block_on(run(&db, "SET halocline.index = force"));
        db
    };
    let db = Database::create(&path, &DatabaseOptions::default()).unwrap();
    let built = runtime().block_on(async {
        fill(&db).await;
        agrees(&db).await;
        index(&db).dram_bytes
    });
    drop(db);
    for read_only in [false, true] {
        let db = open(&path, read_only);
        let info = index(&db);
        assert_eq!((info.placement.as_str(), info.dram_bytes), ("volatile", None));
        runtime().block_on(agrees(&db));
        assert_eq!(index(&db).dram_bytes, built);
        check(&db).unwrap();
    }
}

#[test]
fn without_room_the_table_is_scanned() {
    runtime().block_on(async {
        let db = memory();
        fill(&db).await;
        run(&db, "SET halocline.dram_budget = '16KiB'").await;
        agrees(&db).await;
        let short = index(&db);
        let reason = short.fallback.clone().unwrap();
        assert!(
            reason.contains("halocline.dram_budget leaves 16384 bytes of DRAM, no room for it, it takes "),
            "{reason}"
        );
        assert_eq!((short.dram_bytes, db.info().unwrap().placed_bytes), (Some(0), 0));
        let plan = explained(&db).await;
        assert!(
            plan.contains("FusedAggregate") && plan.contains("index i: halocline.dram_budget leaves"),
            "{plan}"
        );
        assert!(shown(&db, "SHOW INDEXES").await[0].contains("the table is scanned instead"));
        check(&db).unwrap();
        // More than it takes, and just that.
        run(&db, "SET halocline.dram_budget = unlimited").await;
        assert_eq!(index(&db).dram_bytes, None);
        agrees(&db).await;
        let bytes = index(&db).dram_bytes.unwrap();
        run(&db, &format!("SET halocline.dram_budget = {bytes}")).await;
        assert_eq!(index(&db).dram_bytes, Some(bytes));
        assert!(explained(&db).await.contains("ElfScan"));
        run(&db, &format!("SET halocline.dram_budget = {}", bytes - 1)).await;
        assert_eq!(db.info().unwrap().placed_bytes, 0);
        agrees(&db).await;
        assert!(
            index(&db)
                .fallback
                .is_some_and(|reason| reason.contains(&format!("it takes {bytes} or")))
        );
        // What others let go is there for it.
        let limit = bytes + 8192;
        run(&db, &format!("SET halocline.dram_budget = {limit}")).await;
        for text in [
            "CREATE INDEX h ON t (a, b, s)",
            "ALTER INDEX h SET (placement = 'hybrid')",
        ] {
            run(&db, text).await;
        }
        agrees(&db).await;
        let info = db.info().unwrap();
        assert!(
            info.placed_bytes <= limit && info.indexes[0].dram_bytes > Some(0),
            "{info:?}"
        );
        assert!(info.indexes[1].fallback.is_some());
        run(&db, "DROP INDEX h").await;
        agrees(&db).await;
        assert_eq!(index(&db).dram_bytes, Some(bytes));
        // Its own limit.
        let text = run(&db, "ALTER INDEX i SET (dram = '8KiB')").await;
        assert!(
            text.contains("volatile, at most 8KiB of DRAM: 0 bytes in DRAM (8192 bytes of DRAM have no room"),
            "{text}"
        );
        agrees(&db).await;
        assert_eq!(db.info().unwrap().placed_bytes, 0);
    });
}

#[test]
fn storing_it_again_can_be_cancelled() {
    runtime().block_on(async {
        let db = memory();
        fill(&db).await;
        agrees(&db).await;
        let placed = PlacementSpec {
            placement: Some(Placement::SlowOnly),
            dram: None,
        };
        let (now, before) = (AtomicBool::new(true), db.info().unwrap());
        let ended = db.session.change(&db.engine, "ALTER INDEX", &now, |transaction| {
            set_placement(transaction, "i", false, placed, &now)
        });
        assert!(matches!(ended, Err(EngineError::Cancelled)), "{ended:?}");
        let after = db.info().unwrap();
        assert_eq!(after.pool.generation, before.pool.generation);
        assert_eq!(index(&db).placement, "volatile");
        agrees(&db).await;
        // A build that is cancelled leaves a table that is scanned, and the next query builds.
        run(&db, "SET halocline.dram_budget = 0").await;
        run(&db, "SET halocline.dram_budget = unlimited").await;
        let catalog = db.engine.catalog().unwrap();
        let (open, table) = (&catalog.indexes()[0], catalog.table("t").unwrap());
        let ended = open.place(&table.table, true, &Arc::new(AtomicBool::new(true)));
        assert!(ended.is_none() && open.now().is_none());
        assert_eq!(db.info().unwrap().placed_bytes, 0);
        agrees(&db).await;
        assert!(index(&db).dram_bytes > Some(0));
        // In a transaction it is stored at once, and comes with the commit.
        for (end, expected) in [("ROLLBACK", "volatile"), ("COMMIT", "static")] {
            run(&db, "BEGIN").await;
            run(&db, "INSERT INTO t VALUES (5, 'one more', 7)").await;
            run(&db, "ALTER INDEX i SET (placement = 'static')").await;
            agrees(&db).await;
            run(&db, end).await;
            agrees(&db).await;
            assert_eq!(index(&db).placement, expected);
        }
        assert!(index(&db).bytes > 0);
        check(&db).unwrap();
    });
}

#[test]
fn a_build_is_told_of_while_it_runs() {
    runtime().block_on(async {
        let db = Database::in_memory(&DatabaseOptions::default()).unwrap();
        fill(&db).await;
        assert_eq!(db.building(), Vec::<String>::new());
        let (watched, over) = (db.clone(), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&over);
        let watcher = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                if watched.building() == ["i"] {
                    return true;
                }
                std::thread::yield_now();
            }
            false
        });
        // One build may be over before anybody looks.
        for _ in 0..500 {
            if watcher.is_finished() {
                break;
            }
            run(&db, "SELECT count(*) FROM t WHERE a = 5").await;
            run(&db, "SET halocline.dram_budget = '1KiB'").await;
            run(&db, "RESET halocline.dram_budget").await;
        }
        over.store(true, Ordering::Relaxed);
        assert!(watcher.join().unwrap(), "no build was seen");
        run(&db, "SELECT count(*) FROM t WHERE a = 5").await;
        assert_eq!(db.building(), Vec::<String>::new());
    });
}
