//! Damaged bytes under a database: queries, statements that copy, merges and the scrub find it, and nothing
//! hides it.

use std::sync::Arc;

use halocline_explore::Tracked;
use halocline_media::{Medium, MediumAccess};
use halocline_pool::{ExtentRef, Pool};
use halocline_workloads::SplitMix64;

use super::model::runtime;
use super::{create, open, rows, small, sorted};
use crate::{Compaction, Database};

const ROWS: u64 = 60_000;
/// Every value of every column.
const ALL: &str = "SELECT count(*), sum(a), sum(b), count(DISTINCT s), min(s), max(s) FROM ";

/// Creates a database with a table of two segments, each in extents of more than 64 KiB, with an index, and
/// with a small table. Returns its medium.
fn filled() -> Arc<Tracked> {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let db = create(&medium, Compaction::Off, small(None));
    runtime().block_on(async {
        rows(&db, "CREATE TABLE t (a bigint, b bigint, s varchar)")
            .await
            .unwrap();
        for part in 0..2 {
            let (from, to) = (part * ROWS / 2, (part + 1) * ROWS / 2 - 1);
            let sql = format!(
                "INSERT INTO t SELECT i * 7919 % 1000003, i % 5000, concat('text ', i % 9000) \
                 FROM generate_series({from}, {to}) AS s(i)"
            );
            rows(&db, &sql).await.unwrap();
        }
        rows(&db, "CREATE INDEX x ON t (b)").await.unwrap();
        rows(
            &db,
            "CREATE TABLE u AS SELECT i FROM generate_series(1, 50) AS s(i)",
        )
        .await
        .unwrap();
    });
    medium
}

fn extents(medium: &Arc<Tracked>, object: &str) -> Vec<ExtentRef> {
    let pool = Pool::open_on(Medium::from(medium)).unwrap();
    let object = pool.snapshot().unwrap().object(object).unwrap();
    (0..object.extent_count()).map(|i| object.extent_ref(i)).collect()
}

fn flip(medium: &Tracked, at: u64, bit: u8) {
    let mut byte = [0];
    medium.load(at, &mut byte);
    medium.store(at, &[byte[0] ^ bit]);
}

/// Returns a random offset in the longest extent of an object.
fn place(medium: &Arc<Tracked>, object: &str, random: &mut SplitMix64) -> u64 {
    let extents = extents(medium, object);
    let longest = extents.iter().max_by_key(|extent| extent.len).unwrap();
    assert!(longest.sums, "more than 64 KiB");
    longest.offset + random.below(longest.len)
}

fn reopened(medium: &Arc<Tracked>) -> Database {
    open(medium, Compaction::Off, small(None)).unwrap()
}

fn generation(db: &Database) -> u64 {
    db.info().unwrap().pool.generation
}

/// Returns the result of a query, or its error.
async fn answer(db: &Database, sql: &str) -> Result<Vec<String>, String> {
    rows(db, sql).await.map(|rows| sorted(&rows))
}

#[test]
fn queries_answer_right_or_name_the_damage() {
    let medium = filled();
    let mut random = SplitMix64::new(0xda3a6e);
    let queries = [
        format!("{ALL}t"),
        "SELECT a, s FROM t WHERE b = 77".to_owned(),
        "SELECT sum(a) FROM t WHERE s = 'text 4321'".to_owned(),
        "SELECT count(*) FROM t WHERE b BETWEEN 100 AND 140 AND s LIKE 'text 1%'".to_owned(),
    ];
    runtime().block_on(async {
        let sound = reopened(&medium);
        let mut expected = vec![];
        for query in &queries {
            expected.push(answer(&sound, query).await.unwrap());
        }
        drop(sound);
        let mut refused = 0;
        for round in 0..60 {
            let object = ["table/t", "index/x"][round % 2];
            let at = place(&medium, object, &mut random);
            let bit = 1 << random.below(8);
            flip(&medium, at, bit);
            let db = reopened(&medium);
            rows(
                &db,
                ["SET halocline.index = force", "SET halocline.index = auto"][round % 4 / 2],
            )
            .await
            .unwrap();
            for (query, expected) in queries.iter().zip(&expected) {
                match answer(&db, query).await {
                    Ok(found) => assert_eq!(found, *expected, "round {round}, bit {bit} at {at}: {query}"),
                    Err(error) => {
                        refused += 1;
                        let named = error.contains("`t`") || error.contains(object);
                        assert!(named && error.contains("check"), "{error}");
                    }
                }
            }
            assert_eq!(answer(&db, "SELECT count(*) FROM u").await.unwrap(), ["50|"]);
            flip(&medium, at, bit);
        }
        assert!(refused > 10, "only {refused} queries met the damage");
    });
}

#[test]
fn whatever_copies_rows_stops_at_damage() {
    let mut medium = filled();
    let mut random = SplitMix64::new(0x1a4d);
    let statements = [
        "CREATE TABLE copy AS SELECT * FROM t",
        "VACUUM FULL t",
        "INSERT INTO t SELECT * FROM t",
        "CREATE INDEX y ON t (s, a)",
        "UPDATE t SET a = a + 1",
    ];
    runtime().block_on(async {
        let expected = answer(&reopened(&medium), &format!("{ALL}t")).await.unwrap();
        let mut stopped = 0;
        for round in 0..30 {
            let at = place(&medium, "table/t", &mut random);
            let bit = 1 << random.below(8);
            flip(&medium, at, bit);
            let db = reopened(&medium);
            rows(&db, "SET halocline.verify = off").await.unwrap();
            let before = generation(&db);
            let statement = statements[round % statements.len()];
            match answer(&db, statement).await {
                Err(error) => {
                    stopped += 1;
                    let named = error.contains("table `t`, segment") && error.contains("column `");
                    assert!(named, "round {round}, {statement}: {error}");
                    assert_eq!(generation(&db), before, "{statement}");
                    flip(&medium, at, bit);
                    let found = answer(&db, &format!("{ALL}t")).await.unwrap();
                    assert_eq!(found, expected, "the pool is as it was: {statement}");
                }
                Ok(_) => {
                    // Nothing that belongs to a row was damaged.
                    let copied = match statement {
                        "CREATE TABLE copy AS SELECT * FROM t" => Some("copy"),
                        "VACUUM FULL t" => Some("t"),
                        _ => None,
                    };
                    if let Some(table) = copied {
                        assert_eq!(answer(&db, &format!("{ALL}{table}")).await.unwrap(), expected);
                    }
                    drop(db);
                    medium = filled();
                }
            }
        }
        assert!(stopped > 10, "only {stopped} statements met the damage");
    });
}

#[test]
fn a_copy_does_not_rely_on_what_was_intact_once() {
    let medium = filled();
    let mut random = SplitMix64::new(77);
    runtime().block_on(async {
        let db = reopened(&medium);
        let expected = answer(&db, &format!("{ALL}t")).await.unwrap();
        for statement in ["CREATE TABLE copy AS SELECT * FROM t", "VACUUM FULL t"] {
            let mut stopped = false;
            for _ in 0..20 {
                let at = place(&medium, "table/t", &mut random);
                flip(&medium, at, 4);
                let result = answer(&db, statement).await;
                flip(&medium, at, 4);
                db.engine.pool.forget_verified();
                if result.is_err() {
                    stopped = true;
                    break;
                }
                assert_eq!(answer(&db, &format!("{ALL}t")).await.unwrap(), expected);
                let _ = answer(&db, "DROP TABLE copy").await;
            }
            assert!(stopped, "{statement}");
        }
    });
}

#[test]
fn a_merge_in_the_background_reports_damage_and_leaves_the_table_alone() {
    let medium = filled();
    let extents = extents(&medium, "table/t");
    let longest = extents.iter().max_by_key(|extent| extent.len).unwrap();
    // Of a chunk, wherever padding is.
    for step in 1..10 {
        flip(&medium, longest.offset + longest.len * step / 10, 8);
    }
    let db = reopened(&medium);
    runtime().block_on(async {
        rows(&db, "SET halocline.compaction = auto").await.unwrap();
        while db.info().unwrap().damage.is_empty() {
            std::thread::yield_now();
        }
        let damage = db.info().unwrap().damage;
        assert!(
            damage[0].contains("table `t`, segment") && damage[0].contains("check"),
            "{damage:?}"
        );
        let segments = |name: &str| {
            let info = db.info().unwrap();
            let table = info.tables.iter().find(|table| table.name == name);
            table.unwrap().segments
        };
        assert_eq!(segments("t"), 2, "the damage is where it was");
        // Others are merged all the same.
        for part in 0..6 {
            let sql = format!("INSERT INTO u SELECT i + {part} FROM generate_series(1, 20) AS s(i)");
            rows(&db, &sql).await.unwrap();
        }
        while segments("u") > 1 {
            std::thread::yield_now();
        }
        assert_eq!(
            db.info().unwrap().damage,
            damage,
            "it is not tried again and again"
        );
    });
    assert!(!db.check(&mut |_| ()).unwrap().problems.is_empty());
}

#[test]
fn the_scrub_finds_what_nobody_reads() {
    let medium = filled();
    let db = reopened(&medium);
    runtime().block_on(async {
        rows(&db, "SET halocline.scrub = '4GiB/s'").await.unwrap();
        db.engine.scrub.wait_for_passes(1);
        assert_eq!(db.info().unwrap().damage, Vec::<String>::new());
        rows(&db, "SET halocline.scrub = off").await.unwrap();
        let mut random = SplitMix64::new(5);
        flip(&medium, place(&medium, "index/x", &mut random), 1);
        flip(&medium, place(&medium, "table/t", &mut random), 1);
        rows(&db, "SET halocline.scrub = '4GiB/s'").await.unwrap();
        let shown = answer(&db, "SHOW halocline.scrub").await.unwrap();
        assert!(shown[0].contains("4GiB/s"), "{shown:?}");
        while db.info().unwrap().damage.len() < 2 {
            std::thread::yield_now();
        }
        let damage = db.info().unwrap().damage.join("\n");
        assert!(
            damage.contains("'index/x'") && damage.contains("'table/t'"),
            "{damage}"
        );
        let refused = rows(&db, "SET halocline.scrub = fast").await.unwrap_err();
        assert!(refused.contains("'10MiB/s'"), "{refused}");
    });
}

/// Asserts that damaged values were not verified: they were read as they are, or rejected for their contents.
fn assert_not_verified(found: Result<Vec<String>, String>) {
    if let Err(error) = found {
        assert!(!error.contains("its checksum"), "{error}");
    }
}

#[test]
fn verification_can_be_switched() {
    let medium = filled();
    let db = reopened(&medium);
    let query = "SELECT count(*), sum(a) FROM t WHERE a >= 0";
    runtime().block_on(async {
        let expected = answer(&db, query).await.unwrap();
        let part = *extents(&medium, "table/t")
            .iter()
            .max_by_key(|extent| extent.len)
            .unwrap();
        let places: Vec<u64> = (1..40).map(|step| part.offset + part.len * step / 40).collect();
        let flip_all = || places.iter().for_each(|at| flip(&medium, *at, 16));
        flip_all();
        assert_not_verified(answer(&db, query).await);
        rows(&db, "SET halocline.verify = always").await.unwrap();
        let error = answer(&db, query).await.unwrap_err();
        assert!(
            error.contains("table `t`, segment") && error.contains("column `a`, chunk"),
            "{error}"
        );
        rows(&db, "SET halocline.verify = off").await.unwrap();
        assert_not_verified(answer(&db, query).await);
        rows(&db, "SET halocline.verify = lazy").await.unwrap();
        answer(&db, query).await.unwrap_err();
        flip_all();
        assert_eq!(answer(&db, query).await.unwrap(), expected);
        let refused = rows(&db, "SET halocline.verify = never").await.unwrap_err();
        assert!(refused.contains("lazy, off or always, not 'never'"), "{refused}");
        let shown = answer(&db, "SHOW halocline.verify").await.unwrap();
        assert!(shown[0].contains("lazy"), "{shown:?}");
    });
}
