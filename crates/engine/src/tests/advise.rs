//! Advice on placements, and placements that are picked.

use halocline_emulator::{CacheShape, ClockMode};
use halocline_emulator::{DeviceProfile, EmulatedSpec};

use super::model::runtime;
use super::{check, rows, sorted};
use crate::{Database, DatabaseOptions, IndexInfo, Placement};

const MIB: u64 = 1 << 20;

/// Returns a device like Optane below a cache that is small compared to the index. It is so slow that the
/// measured CPU time does not affect the result.
fn optane() -> EmulatedSpec {
    let mut profile = DeviceProfile::optane();
    let figures = &mut profile.device;
    for latency in [
        &mut figures.random_ns,
        &mut figures.next_unit_ns,
        &mut figures.buffered_ns,
    ] {
        *latency *= 1000.0;
    }
    EmulatedSpec {
        clock: ClockMode::Virtual,
        absolute: true,
        cache: CacheShape::with_bytes(16 << 10),
        ..EmulatedSpec::new(profile)
    }
}

async fn said(db: &Database, text: &str) -> String {
    let result = db.sql(text).await.unwrap();
    result.message().unwrap_or_default().to_owned()
}

/// Creates a database with a table that has an index on two of its columns.
async fn filled(medium: Option<EmulatedSpec>, rows: u64) -> Database {
    let options = DatabaseOptions::default().with_medium(medium);
    let db = Database::in_memory(&options).unwrap();
    for text in [
        "CREATE TABLE t (a bigint NOT NULL, b bigint NOT NULL, c bigint NOT NULL)",
        &format!("INSERT INTO t SELECT v % 97, (v * 7919) % 1009, v FROM generate_series(1, {rows}) AS s(v)"),
        "CREATE INDEX i ON t (a, b)",
        "SET halocline.index = force",
    ] {
        said(&db, text).await;
    }
    db
}

fn selection(number: u64) -> String {
    format!(
        "SELECT sum(c) FROM t WHERE a = {} AND b BETWEEN {} AND {}",
        number % 97,
        number * 31 % 1000,
        number * 31 % 1000 + 20
    )
}

fn index(db: &Database) -> IndexInfo {
    db.info().unwrap().indexes.remove(0)
}

#[test]
fn advice_is_for_the_statements_that_use_the_index() {
    runtime().block_on(async {
        let db = filled(None, 40_000).await;
        let mut statements: Vec<String> = (0..60).map(selection).collect();
        statements.push("SELECT count(*) FROM t WHERE c = 5".into());
        statements.push("SELECT x.c FROM t AS x JOIN t AS y ON x.c = y.c WHERE x.a = 5 AND y.a = 6".into());
        statements.push("SHOW INDEXES".into());
        let advice = db.advise("i", &statements, MIB, Some(&optane())).await.unwrap();
        assert_eq!(advice.source, "61 of 63 queries use the index, in 62 selections");
        assert!(
            advice.medium.starts_with("optane, times as in"),
            "{}",
            advice.medium
        );
        let picked = advice.advice.picked();
        assert_ne!(picked.placement, Placement::SlowOnly, "{advice:#?}");
        assert!(picked.time < advice.advice.rows[0].time);
        // Nothing was run or placed; the statement does it.
        assert_eq!(index(&db).dram_bytes, None);
        let text = said(&db, &advice.statement).await;
        assert!(text.contains(&picked.placement.to_string()), "{text}");
        assert_eq!(index(&db).dram, Some(MIB));
        // On what is as fast as DRAM, no copies.
        let advice = db.advise("i", &statements, MIB, None).await.unwrap();
        assert!(advice.medium.contains("as fast as DRAM"), "{}", advice.medium);
        assert_eq!(advice.statement, "ALTER INDEX i SET (placement = 'slow-only')");
        // Without statements: what was asked, which is nothing yet.
        let advice = db.advise("i", &[], MIB, Some(&optane())).await.unwrap();
        assert!(advice.source.contains("made-up"), "{}", advice.source);
        for number in 0..20 {
            rows(&db, &selection(number)).await.unwrap();
        }
        let advice = db.advise("i", &[], MIB, Some(&optane())).await.unwrap();
        assert_eq!(advice.source, "the last 20 selections of this process");
    });
}

#[test]
fn what_cannot_be_advised_on_says_why() {
    runtime().block_on(async {
        let db = filled(None, 100).await;
        let refused = async |name: &str, statements: &[&str]| {
            let statements: Vec<String> = statements.iter().map(|text| text.to_string()).collect();
            let advice = db.advise(name, &statements, MIB, Some(&optane())).await;
            advice.unwrap_err().to_string()
        };
        let error = refused("k", &[]).await;
        assert!(error.contains("there is no index 'k'"), "{error}");
        let error = refused("i", &["SELECT 1", "SELECT * FROM t WHERE c = 1"]).await;
        assert!(error.contains("none of the 2 queries"), "{error}");
        let error = refused("i", &["SELECT 1", "SELECT FROM WHERE"]).await;
        assert!(error.starts_with("query 2: "), "{error}");
        let error = refused("i", &["SELECT * FROM u"]).await;
        assert!(error.contains("there is no table 'u'"), "{error}");
        // Less than a page.
        let statements = [selection(1)];
        let advice = db.advise("i", &statements, 100, Some(&optane())).await.unwrap();
        assert!(
            advice.advice.reason.contains("no room"),
            "{}",
            advice.advice.reason
        );
        // No rows at all.
        said(&db, "TRUNCATE t").await;
        let advice = db.advise("i", &statements, MIB, Some(&optane())).await.unwrap();
        assert!(
            advice.advice.reason.contains("no rows"),
            "{}",
            advice.advice.reason
        );
    });
}

#[test]
fn auto_is_picked_by_the_medium_and_the_queries() {
    runtime().block_on(async {
        let db = filled(Some(optane()), 40_000).await;
        let text = said(&db, "ALTER INDEX i SET (placement = 'auto', dram = '1MiB')").await;
        assert!(text.contains("auto ("), "{text}");
        let first = index(&db);
        assert!(first.dram_bytes.unwrap() > 0, "{first:?}");
        assert!(
            first.placement.starts_with("auto (") && first.fallback.is_none(),
            "{first:?}"
        );
        let shown = sorted(&rows(&db, "SHOW INDEXES").await.unwrap());
        assert!(shown[0].contains(&first.placement), "{shown:?}");
        // The next version has the same; the answers are those of a scan.
        said(
            &db,
            "INSERT INTO t SELECT v % 97, v % 1009, v FROM generate_series(1, 5000) AS s(v)",
        )
        .await;
        for number in 0..40 {
            said(&db, "SET halocline.index = off").await;
            let scanned = sorted(&rows(&db, &selection(number)).await.unwrap());
            said(&db, "SET halocline.index = force").await;
            assert_eq!(sorted(&rows(&db, &selection(number)).await.unwrap()), scanned);
        }
        assert_eq!(index(&db).placement, first.placement);
        // Picked anew, by what was asked.
        let text = said(&db, "ALTER INDEX i SET (placement = 'auto')").await;
        assert!(
            text.contains("auto (") && index(&db).dram_bytes.unwrap() <= MIB,
            "{text}"
        );
        said(&db, "ALTER INDEX i SET (placement = 'slow-only')").await;
        assert_eq!(
            (index(&db).placement.as_str(), db.info().unwrap().placed_bytes),
            ("slow-only", 0)
        );
        check(&db).unwrap();
    });
}

#[test]
fn auto_needs_no_dram_on_what_is_as_fast() {
    runtime().block_on(async {
        let db = filled(None, 40_000).await;
        said(&db, "CREATE INDEX j ON t (b) WITH (placement = 'auto')").await;
        assert_eq!(db.info().unwrap().indexes[1].placement, "auto");
        rows(&db, "SELECT sum(c) FROM t WHERE b = 5").await.unwrap();
        let info = db.info().unwrap();
        assert_eq!(info.indexes[1].placement, "auto (slow-only)");
        assert_eq!((info.indexes[1].dram_bytes, info.placed_bytes), (Some(0), 0));
    });
}
