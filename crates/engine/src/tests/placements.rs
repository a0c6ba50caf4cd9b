//! Placed indexes: what statements say and keep, and that answers and budgets hold while placements are
//! switched.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::model::runtime;
use super::{check, rows, sorted};
use crate::{Database, DatabaseOptions, IndexInfo};

const ROWS: i64 = 40_000;

/// Creates a table with rows and an index on two of its columns.
async fn fill(db: &Database) {
    for text in [
        "CREATE TABLE t (a bigint NOT NULL, b bigint NOT NULL, c bigint NOT NULL)",
        &insert(0, ROWS),
        "CREATE INDEX i ON t (a, b)",
        "SET halocline.index = force",
    ] {
        run(db, text).await;
    }
}

fn insert(from: i64, to: i64) -> String {
    let to = to - 1;
    format!("INSERT INTO t SELECT v % 97, (v * 7919) % 1009, v FROM generate_series({from}, {to}) AS s(v)")
}

async fn run(db: &Database, text: &str) {
    said(db, text).await.unwrap();
}

/// Returns the message of a statement.
async fn said(db: &Database, text: &str) -> Result<String, String> {
    let result = db.sql(text).await.map_err(|error| error.to_string())?;
    Ok(result.message().unwrap_or_default().to_owned())
}

async fn refused(db: &Database, text: &str) -> String {
    let error = said(db, text).await.unwrap_err();
    assert!(error.len() < 400, "{error}");
    error
}

fn index(db: &Database) -> IndexInfo {
    db.info().unwrap().indexes.remove(0)
}

/// Returns the result of a query on the indexed columns, whose ranges depend on `number`.
async fn answer(db: &Database, number: i64) -> Vec<String> {
    let (a, b) = (number % 97, number % 500);
    let text = format!(
        "SELECT count(*), sum(c) FROM t WHERE a BETWEEN {a} AND {} AND b BETWEEN {b} AND {} AND c < {ROWS}",
        a + number % 5,
        b + 100
    );
    sorted(&rows(db, &text).await.unwrap())
}

fn memory(options: &DatabaseOptions) -> Database {
    Database::in_memory(options).unwrap()
}

#[test]
fn statements_say_what_is_in_dram() {
    runtime().block_on(async {
        let db = memory(&DatabaseOptions::default());
        fill(&db).await;
        let plain = index(&db);
        assert_eq!((plain.placement.as_str(), plain.dram_bytes), ("slow-only", None));
        let text = said(&db, "ALTER INDEX i SET (placement = 'static', dram = '64KiB')")
            .await
            .unwrap();
        assert!(text.contains("static, at most 64KiB of DRAM: "), "{text}");
        let placed = index(&db);
        assert_eq!(
            (placed.placement.as_str(), placed.dram),
            ("static", Some(64 << 10))
        );
        let bytes = placed.dram_bytes.unwrap();
        assert!(bytes > 0 && bytes <= 64 << 10, "{bytes}");
        assert_eq!(db.info().unwrap().placed_bytes, bytes);
        // Without parentheses, one of the two: the other stays.
        run(&db, "ALTER INDEX IF EXISTS I SET placement = HYBRID;").await;
        let hybrid = index(&db);
        assert_eq!(
            (hybrid.placement.as_str(), hybrid.dram),
            ("hybrid", Some(64 << 10))
        );
        assert!(hybrid.fallback.unwrap().contains("slow tier"));
        run(&db, "alter index i set (dram = unlimited)").await;
        let hybrid = index(&db);
        assert_eq!((hybrid.dram, &hybrid.fallback), (None, &None));
        assert!(hybrid.dram_bytes.unwrap() >= hybrid.bytes);
        // Nothing is copied before a query asks.
        run(
            &db,
            "CREATE INDEX j ON t (c) WITH (placement = 'static:1', dram = 1000000, layout = 'published')",
        )
        .await;
        let created = db.info().unwrap().indexes.remove(1);
        assert_eq!(
            (created.placement.as_str(), created.dram_bytes),
            ("static:1", None)
        );
        rows(&db, "SELECT count(*) FROM t WHERE c = 5").await.unwrap();
        assert!(
            db.info().unwrap().indexes[1]
                .dram_bytes
                .is_some_and(|bytes| bytes > 0)
        );
        let shown = sorted(&rows(&db, "SHOW INDEXES").await.unwrap());
        assert!(
            shown[0].starts_with("i|t|a, b|packed|40000|") && shown[0].contains("|hybrid|NULL|"),
            "{shown:?}"
        );
        assert!(
            shown[1].contains("|static:1|1000000|") && shown[1].ends_with("|NULL|"),
            "{shown:?}"
        );
        for text in ["DROP INDEX j", "ALTER INDEX i SET (placement = 'slow-only')"] {
            run(&db, text).await;
        }
        assert_eq!(db.info().unwrap().placed_bytes, 0);
        // Within a transaction it comes with the commit, or not at all.
        for (end, expected) in [("ROLLBACK", "slow-only"), ("COMMIT", "dual-access")] {
            run(&db, "BEGIN").await;
            let text = said(&db, "ALTER INDEX i SET (placement = 'dual-access')")
                .await
                .unwrap();
            assert!(text.contains("commits"), "{text}");
            answer(&db, 3).await;
            run(&db, end).await;
            answer(&db, 3).await;
            assert_eq!(index(&db).placement, expected);
        }
        assert!(index(&db).dram_bytes.unwrap() > 0);
        check(&db).unwrap();
    });
}

#[test]
fn what_cannot_be_is_refused() {
    runtime().block_on(async {
        let db = memory(&DatabaseOptions::default());
        fill(&db).await;
        for (text, part) in [
            (
                "ALTER INDEX i SET (placement = 'fast')",
                "unknown placement `fast`; use slow-only, hybrid",
            ),
            (
                "CREATE INDEX j ON t (a) WITH (placement = 'dynamic:mru')",
                "unknown replacement policy `mru`",
            ),
            ("ALTER INDEX i SET (placement = 'static:0')", "static:3"),
            (
                "CREATE INDEX j ON t (a, d) WITH (placement = 'volatile')",
                "no column 'd'",
            ),
            (
                "CREATE INDEX i ON t (a) WITH (placement = 'volatile')",
                "index 'i' exists already",
            ),
            (
                "ALTER INDEX i SET (dram = 'much')",
                "`much` is not a size; write 512M or 2G, or unlimited",
            ),
            (
                "ALTER INDEX i SET (dram = '99999999999T')",
                "more than any machine has",
            ),
            ("ALTER INDEX i SET (dram = 0)", "slow-only"),
            ("ALTER INDEX i SET (budget = 5)", "placement = 'static'"),
            ("ALTER INDEX i SET (layout = 'packed')", "build it anew"),
            ("ALTER INDEX i SET (placement = 'hybrid'", "Expected"),
            ("ALTER INDEX i RENAME TO j", "build it anew"),
            (
                "ALTER INDEX k SET (placement = 'hybrid')",
                "there is no index 'k'",
            ),
            (
                "SET halocline.dram_budget = 'much'",
                "halocline.dram_budget: `much` is not a size",
            ),
            ("SET halocline.dram = 1", "dram_budget"),
        ] {
            let error = refused(&db, text).await;
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(
            said(&db, "ALTER INDEX IF EXISTS k SET (dram = '1M')")
                .await
                .unwrap()
                .contains("no index k")
        );
        let after = db.info().unwrap();
        assert_eq!(
            (after.indexes.len(), after.indexes[0].placement.as_str()),
            (1, "slow-only")
        );
    });
}

fn open(path: &Path) -> Database {
    let db = Database::open(path, &DatabaseOptions::default()).unwrap();
    runtime().block_on(run(&db, "SET halocline.index = force"));
    db
}

#[test]
fn a_placement_stays_with_its_index() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    let db = Database::create(&path, &DatabaseOptions::default()).unwrap();
    let expected = runtime().block_on(async {
        fill(&db).await;
        let expected = answer(&db, 7).await;
        run(&db, "ALTER INDEX i SET (placement = 'static', dram = '1MiB')").await;
        expected
    });
    drop(db);
    let db = open(&path);
    assert_eq!(index(&db).dram_bytes, None);
    runtime().block_on(async {
        assert_eq!(answer(&db, 7).await, expected);
        let first = index(&db).dram_bytes.unwrap();
        assert!(first > 0);
        // More segments: those there were keep their copies, the new ones get some.
        for part in 1..4 {
            run(&db, &insert(part * ROWS, (part + 1) * ROWS)).await;
        }
        assert_eq!(answer(&db, 7).await, expected);
        assert!(index(&db).dram_bytes.unwrap() > first);
        run(&db, "DELETE FROM t WHERE c >= 100000").await;
        run(&db, "ALTER TABLE t RENAME TO u").await;
        run(&db, "VACUUM FULL u").await;
        run(&db, "ALTER TABLE u RENAME TO t").await;
        assert_eq!(answer(&db, 7).await, expected);
        let placed = index(&db);
        assert_eq!(
            (placed.placement.as_str(), placed.dram),
            ("static", Some(1 << 20))
        );
        assert!(placed.dram_bytes.unwrap() > 0 && placed.dram_bytes.unwrap() <= 1 << 20);
        assert_eq!(db.info().unwrap().placed_bytes, placed.dram_bytes.unwrap());
        check(&db).unwrap();
    });
}

#[test]
fn one_budget_is_for_all() {
    runtime().block_on(async {
        let db = memory(&DatabaseOptions::default().with_dram_budget(Some(0)));
        fill(&db).await;
        let expected = answer(&db, 11).await;
        run(&db, "ALTER INDEX i SET (placement = 'static')").await;
        let none = index(&db);
        assert_eq!(none.dram_bytes, Some(0));
        assert!(
            none.fallback
                .unwrap()
                .contains("halocline.dram_budget leaves 0 bytes")
        );
        assert_eq!(answer(&db, 11).await, expected);
        run(&db, "SET halocline.dram_budget = '32KiB'").await;
        let shown = rows(&db, "SHOW halocline.dram_budget").await.unwrap();
        assert!(sorted(&shown)[0].contains("32KiB"), "{:?}", sorted(&shown));
        let some = index(&db);
        assert!(
            some.dram_bytes
                .is_some_and(|bytes| bytes > 0 && bytes <= 32 << 10),
            "{some:?}"
        );
        assert!(some.fallback.unwrap().contains("only a part of it"));
        // Another one gets what is left, which is nothing much.
        run(&db, "CREATE INDEX j ON t (b, c) WITH (placement = 'hybrid')").await;
        rows(&db, "SELECT count(*) FROM t WHERE c = 5").await.unwrap();
        let info = db.info().unwrap();
        assert!(
            info.indexes[1]
                .fallback
                .as_ref()
                .unwrap()
                .contains("halocline.dram_budget")
        );
        assert!(info.placed_bytes <= 32 << 10);
        assert_eq!(info.dram_budget, Some(32 << 10));
        run(&db, "SET halocline.dram_budget = unlimited").await;
        answer(&db, 11).await;
        let info = db.info().unwrap();
        assert_eq!(info.dram_budget, None);
        for index in &info.indexes {
            assert!(
                index.fallback.is_none() && index.dram_bytes.unwrap() > 0,
                "{index:?}"
            );
        }
        run(&db, "SET halocline.dram_budget = 0").await;
        assert_eq!(db.info().unwrap().placed_bytes, 0);
        assert_eq!(answer(&db, 11).await, expected);
    });
    let db = memory(&DatabaseOptions::default().with_memory(Some(64 << 20)));
    assert_eq!(db.info().unwrap().dram_budget, Some(32 << 20));
}

/// Placements are switched at random, and rows come, while queries run in other threads.
#[allow(clippy::print_stdout, reason = "a run that fails is to be repeated")]
#[test]
fn answers_and_budget_hold_while_placements_change() {
    const SWITCHES: usize = 40;
    const LIMIT: u64 = 300 << 10;
    const PLACEMENTS: [&str; 8] = [
        "volatile",
        "volatile",
        "slow-only",
        "hybrid",
        "static",
        "static:1",
        "static:2",
        "dual-access",
    ];
    let seed = rand::random();
    println!("seed {seed}");
    let db = memory(&DatabaseOptions::default().with_dram_budget(Some(LIMIT)));
    let expected: Vec<Vec<String>> = runtime().block_on(async {
        fill(&db).await;
        let mut expected = vec![];
        for number in 0..50 {
            expected.push(answer(&db, number * 31).await);
        }
        expected
    });
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = |first: usize| {
            let (db, over, expected) = (db.session(), &over, &expected);
            scope.spawn(move || {
                let runtime = runtime();
                runtime.block_on(run(&db, "SET halocline.index = force"));
                let mut at = first;
                while !over.load(Ordering::Relaxed) {
                    let number = at % expected.len();
                    let found = runtime.block_on(answer(&db, number as i64 * 31));
                    assert_eq!(found, expected[number], "query {number}");
                    let placed = db.info().unwrap().placed_bytes;
                    assert!(placed <= LIMIT, "{placed} bytes");
                    at += 7;
                }
            })
        };
        let readers: Vec<_> = [0, 3].into_iter().map(reader).collect();
        let mut rng = StdRng::seed_from_u64(seed);
        let mut next = ROWS;
        let switched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..SWITCHES {
                let placement = PLACEMENTS[rng.random_range(0..PLACEMENTS.len())];
                let dram = match rng.random_range(0..3) {
                    0 => "unlimited".to_owned(),
                    _ => rng.random_range(1..600_000u64).to_string(),
                };
                let set = format!("ALTER INDEX i SET (placement = '{placement}', dram = '{dram}')");
                runtime().block_on(run(&db, &set));
                if rng.random_range(0..4) == 0 {
                    runtime().block_on(run(&db, &insert(next, next + 3000)));
                    next += 3000;
                }
            }
        }));
        over.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
        switched.unwrap();
    });
    runtime().block_on(run(&db, "SET halocline.dram_budget = 0"));
    assert_eq!(db.info().unwrap().placed_bytes, 0);
    check(&db).unwrap();
}

#[test]
fn an_emulated_medium_says_so() {
    let db =
        memory(&DatabaseOptions::default().with_medium(Some("emulated:optane:virtual".parse().unwrap())));
    runtime().block_on(async {
        fill(&db).await;
        let expected = answer(&db, 5).await;
        run(&db, "ALTER INDEX i SET (placement = 'hybrid')").await;
        assert_eq!(answer(&db, 5).await, expected);
    });
    let medium = db.info().unwrap().pool.medium;
    assert!(medium.starts_with("emulated:optane:virtual"), "{medium}");
}
