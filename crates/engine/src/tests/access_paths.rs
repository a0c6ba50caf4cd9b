//! The choice of the access path beside what is in memory of a table and its index.
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use std::fs::File;
use std::path::Path;

use halocline_catalog::tiers::TableResidency;
use halocline_costs::access::reads::ColumnShare;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

use super::model::runtime;
use super::{rows, sorted};
use crate::{Database, DatabaseOptions};

const ROWS: u64 = 400_000;

/// The values of `halocline.index`.
const MODES: [&str; 3] = ["auto", "force", "off"];

/// Columns of the table, with the number of values of each and a factor that makes them independent.
const COLUMNS: [(&str, u64, u64); 4] = [
    ("a", 9, 67_867_967),
    ("b", 50, 32_452_843),
    ("c", 2_556, 15_485_863),
    ("d", 200_000, 104_729),
];

/// Creates the table and its index, the first and the only one.
async fn fill(db: &Database) {
    let columns = COLUMNS.iter().map(|(name, values, factor)| {
        format!("CAST((v * {factor} + v / 13) % 998244353 % {values} AS int) AS {name}")
    });
    let columns: Vec<String> = columns.collect();
    for text in [
        &format!(
            "CREATE TABLE t AS SELECT {}, v * 7919 % 1000003 AS e, 'note ' || (v * 31) AS note \
             FROM generate_series(1, {ROWS}) AS s(v)",
            columns.join(", ")
        ),
        "CREATE INDEX i ON t USING elf (a, b, c)",
    ] {
        db.sql(text).await.unwrap();
    }
}

fn file() -> (TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::create(&folder.path().join("p"), &DatabaseOptions::default()).unwrap();
    (folder, db)
}

/// Returns a random conjunction of conditions on one to four columns, as a query.
fn conjunction(rng: &mut StdRng) -> String {
    let share = 10_f64.powf(rng.random_range(-5.0..-0.3) / 3.0);
    let mut conditions = Vec::new();
    for (name, values, _) in COLUMNS {
        if rng.random_range(0..3) > 0 || name == "b" {
            let width = ((values as f64 * share) as u64).max(1);
            let low = rng.random_range(0..=values - width);
            conditions.push(format!("{name} BETWEEN {low} AND {}", low + width - 1));
        }
    }
    let output = ["count(*)", "sum(e)", "count(*), min(note)", "sum(e), max(d)"][rng.random_range(0..4)];
    format!("SELECT {output} FROM t WHERE {}", conditions.join(" AND "))
}

/// Returns the line of EXPLAIN that names the access path.
async fn path(db: &Database, text: &str) -> String {
    let plan = sorted(&rows(db, &format!("EXPLAIN {text}")).await.unwrap()).join("\n");
    let names = ["ElfScan: ", "PoolScan: ", "FusedAggregate: "];
    let plan = plan.split("physical_plan").nth(1).unwrap();
    let mut lines = plan.lines();
    let line = lines.find(|line| names.iter().any(|name| line.contains(name)));
    line.unwrap_or_else(|| panic!("{plan}")).trim().to_owned()
}

fn uses_index(line: &str) -> bool {
    line.contains("ElfScan: ")
}

/// Returns the number of milliseconds after a text.
fn cost(line: &str, of: &str) -> f64 {
    let behind = line.split_once(of).unwrap_or_else(|| panic!("{of} in {line}")).1;
    behind.split_once(" ms").unwrap().0.trim().parse().unwrap()
}

/// Returns what is known of the table.
fn residency(db: &Database) -> std::sync::Arc<TableResidency> {
    let catalog = db.engine.catalog().unwrap();
    std::sync::Arc::clone(&catalog.table("t").unwrap().residency)
}

/// Sets the parts of the columns and of the index that are in memory.
fn set(db: &Database, columns: f64, index: f64) {
    let residency = residency(db);
    for column in 0..COLUMNS.len() + 2 {
        let share = ColumnShare {
            resident: columns,
            verified: 1.0,
        };
        residency.set_column(column, share);
    }
    residency.set_index(0, index);
}

#[test]
fn what_is_not_in_memory_counts() {
    runtime().block_on(async {
        let (_folder, db) = file();
        fill(&db).await;
        // Some 20 rows, and a quarter of all rows.
        let narrow = "SELECT e FROM t WHERE b = 7 AND c BETWEEN 10 AND 15";
        let wide = "SELECT e FROM t WHERE b BETWEEN 7 AND 30 AND c BETWEEN 10 AND 1500";
        set(&db, 1.0, 1.0);
        assert!(uses_index(&path(&db, narrow).await));
        assert!(!uses_index(&path(&db, wide).await));
        // A cold index, whose table is in memory: the scan needs no reads.
        set(&db, 1.0, 0.0);
        let line = path(&db, narrow).await;
        assert!(!uses_index(&line), "{line}");
        // A cold table: the index leaves few pages of it to be read.
        set(&db, 0.0, 1.0);
        assert!(uses_index(&path(&db, narrow).await));
        // Both are cold, and the scan reads what is next to each other.
        set(&db, 0.0, 0.0);
        let line = path(&db, wide).await;
        assert!(!uses_index(&line), "{line}");
    });
}

/// A model of the choice: the path with the lower cost, of which the reads of each path are a part that grows
/// with what is not in memory.
#[test]
fn costs_grow_with_what_is_missing() {
    runtime().block_on(async {
        let (_folder, db) = file();
        fill(&db).await;
        let memory = Database::in_memory(&DatabaseOptions::default()).unwrap();
        fill(&memory).await;
        // What a fused aggregate saves would be a part of the costs of an index where a scan is chosen.
        for db in [&db, &memory] {
            db.sql("SET halocline.fused_aggregate = off").await.unwrap();
        }
        let seed: u64 = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        for _ in 0..40 {
            let text = conjunction(&mut rng);
            let in_dram = path(&memory, &text).await;
            assert!(!in_dram.contains("reads=["), "{in_dram}");
            set(&db, 1.0, 1.0);
            let resident = path(&db, &text).await;
            assert_eq!(
                uses_index(&resident),
                uses_index(&in_dram),
                "{resident}\n{in_dram}"
            );
            assert!(
                resident.contains("reads=[index ") && !resident.contains("disk"),
                "{resident}"
            );
            let of_index = "index i about ";
            for of in [of_index, "scan about "] {
                assert_eq!(cost(&resident, of), cost(&in_dram, of), "{resident}\n{in_dram}");
            }
            let mut before = (0.0, 0.0);
            for missing in [0.0, 0.1, 0.5, 1.0] {
                set(&db, 1.0 - missing, 1.0 - missing);
                let line = path(&db, &text).await;
                let (index, scan) = (cost(&line, of_index), cost(&line, "scan about "));
                assert!(index >= before.0 && scan >= before.1, "{before:?}: {line}");
                assert_eq!(missing > 0.0, line.contains(" from disk"), "{line}");
                assert!(
                    uses_index(&line) == (index < scan) || (index - scan).abs() <= 0.01,
                    "{line}"
                );
                before = (index, scan);
            }
            set(&db, 0.3, 1.0);
            let warm = path(&db, &text).await;
            set(&db, 0.3, 0.0);
            let cold = path(&db, &text).await;
            assert!(
                uses_index(&warm) || !uses_index(&cold),
                "an index is used since it is cold: {warm}\n{cold}"
            );
        }
    });
}

#[test]
fn explain_shows_bytes_by_tier() {
    runtime().block_on(async {
        let (_folder, db) = file();
        fill(&db).await;
        set(&db, 0.25, 1.0);
        let line = path(&db, "SELECT e FROM t WHERE a = 3 AND b = 7 AND c < 500").await;
        let (index, scan) = line
            .split_once("reads=[index ")
            .unwrap()
            .1
            .split_once("; scan ")
            .unwrap();
        assert!(index.contains(" from DRAM, "), "{line}");
        let scan = scan.split_once(']').unwrap().0;
        let (dram, disk) = scan.split_once(" from DRAM, ").unwrap();
        let number = |text: &str| crate::parse_size(text.trim()).unwrap() as f64;
        let (dram, disk) = (number(dram), number(disk.strip_suffix(" from disk").unwrap()));
        assert!((disk / dram - 3.0).abs() < 0.4, "{line}");
        // Without an index, and all rows of a column.
        let line = path(&db, "SELECT e FROM t WHERE e < 10").await;
        assert!(
            line.contains("no_index=[no index answers a condition on e]"),
            "{line}"
        );
        assert!(line.contains(", reads=[") && !line.contains("; scan"), "{line}");
        let whole = path(&db, "SELECT e FROM t").await;
        assert!(
            whole.contains("no_index=[no conditions]") && whole.contains(" from disk]"),
            "{whole}"
        );
        let fused = path(&db, "SELECT a, sum(e) FROM t WHERE b < 40 GROUP BY a").await;
        assert!(
            fused.contains("FusedAggregate: ") && fused.contains("; scan "),
            "{fused}"
        );
        set(&db, 1.0, 1.0);
        let line = path(&db, "SELECT e FROM t WHERE e < 10").await;
        assert!(line.contains(" from DRAM]"), "{line}");
    });
}

#[test]
fn other_media_have_no_cache_to_be_asked() {
    runtime().block_on(async {
        let text = "SELECT e FROM t WHERE b = 7 AND c BETWEEN 10 AND 15";
        let memory = Database::in_memory(&DatabaseOptions::default()).unwrap();
        fill(&memory).await;
        let line = path(&memory, text).await;
        assert!(uses_index(&line) && !line.contains("reads=["), "{line}");
        assert_eq!(residency(&memory).calls(), 0);
        let emulated = DatabaseOptions::default().with_medium(Some("emulated:cxl:virtual".parse().unwrap()));
        let emulated = Database::in_memory(&emulated).unwrap();
        fill(&emulated).await;
        let slow = path(&emulated, text).await;
        for of in ["index i about ", "scan about "] {
            assert_eq!(cost(&slow, of), cost(&line, of), "{slow}\n{line}");
        }
        assert!(slow.contains(" from the slow tier; scan "), "{slow}");
        assert_eq!(residency(&emulated).calls(), 0);
        emulated
            .sql("ALTER INDEX i SET (placement = 'hybrid', dram = unlimited)")
            .await
            .unwrap();
        let copied = path(&emulated, text).await;
        let (index, _) = copied.split_once("; scan ").unwrap();
        assert!(index.contains(" from DRAM"), "{copied}");
    });
}

#[test]
fn few_pages_are_sampled() {
    runtime().block_on(async {
        let (_folder, db) = file();
        fill(&db).await;
        let residency = residency(&db);
        for _ in 0..3 {
            let before = residency.calls();
            path(&db, "SELECT sum(e) FROM t WHERE b = 7 AND c BETWEEN 10 AND 15").await;
            // Three columns and the index, whose samples may become too old while the query is planned.
            assert!(residency.calls() - before <= 3 * 4 * 64);
        }
        db.sql("CREATE TABLE u AS SELECT v AS a FROM generate_series(1, 1000) AS s(v)")
            .await
            .unwrap();
        rows(&db, "SELECT sum(a) FROM u WHERE a < 10").await.unwrap();
        let catalog = db.engine.catalog().unwrap();
        assert_eq!(catalog.table("u").unwrap().residency.calls(), 0);
    });
}

/// Drops a file, or the ranges of it that are given, from the page cache.
fn evict(path: &Path, ranges: &[(u64, u64)]) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    for (offset, len) in ranges {
        let len = std::num::NonZeroU64::new(*len);
        rustix::fs::fadvise(&file, *offset, len, rustix::fs::Advice::DontNeed).unwrap();
    }
}

/// Returns the places of the extents of an object in the file.
fn extents(db: &Database, name: &str) -> Vec<(u64, u64)> {
    let object = db.engine.pool.snapshot().unwrap().object(name).unwrap();
    let extents = (0..object.extent_count()).map(|number| object.extent_ref(number));
    extents.map(|extent| (extent.offset, extent.len)).collect()
}

#[test]
fn answers_do_not_depend_on_what_is_in_memory() {
    runtime().block_on(async {
        let (folder, db) = file();
        fill(&db).await;
        db.sql("DELETE FROM t WHERE d % 17 = 3").await.unwrap();
        let file = folder.path().join("p");
        let (table, index) = (extents(&db, "table/t"), extents(&db, "index/i"));
        drop(db);
        let memory = Database::copy_in_memory(&file, &DatabaseOptions::default()).unwrap();
        let seed: u64 = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let everything = vec![(0, 0)];
        for evicted in [&everything, &table, &index, &Vec::new()] {
            for _ in 0..4 {
                let text = conjunction(&mut rng);
                let expected = sorted(&rows(&memory, &text).await.unwrap());
                for mode in MODES {
                    evict(&file, evicted);
                    let db = Database::open(&file, &DatabaseOptions::default()).unwrap();
                    db.sql(&format!("SET halocline.index = {mode}")).await.unwrap();
                    db.sql("SET datafusion.execution.target_partitions = 2")
                        .await
                        .unwrap();
                    let found = sorted(&rows(&db, &text).await.unwrap());
                    assert_eq!(found, expected, "{mode}: {text}");
                }
            }
        }
        // The samples notice what was dropped, where the file system drops it.
        evict(&file, &everything);
        let db = Database::open(&file, &DatabaseOptions::default()).unwrap();
        let line = path(&db, "SELECT sum(e) FROM t WHERE c BETWEEN 10 AND 1500").await;
        let was_dropped = line.contains(" from disk");
        println!("dropped: {was_dropped}");
        for text in ["SELECT sum(a), sum(b), sum(c), sum(d), sum(e), max(note) FROM t"] {
            rows(&db, text).await.unwrap();
        }
    });
}
