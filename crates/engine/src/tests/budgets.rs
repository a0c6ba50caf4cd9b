//! Budgets of DRAM: what is refused, what falls back to the slow tier and says so, and RESET.

use super::model::runtime;
use super::{rows, sorted};
use crate::{Database, DatabaseOptions, IndexInfo};

async fn filled(options: &DatabaseOptions) -> Database {
    let db = Database::in_memory(options).unwrap();
    for text in [
        "CREATE TABLE t (a bigint NOT NULL, b bigint NOT NULL)",
        "INSERT INTO t SELECT v % 97, (v * 7919) % 1009 FROM generate_series(1, 20000) AS s(v)",
        "CREATE INDEX i ON t (a, b)",
        "SET halocline.index = force",
    ] {
        said(&db, text).await.unwrap();
    }
    db
}

async fn said(db: &Database, text: &str) -> Result<String, String> {
    let result = db.sql(text).await.map_err(|error| error.to_string())?;
    Ok(result.message().unwrap_or_default().to_owned())
}

async fn shown(db: &Database, text: &str) -> Vec<String> {
    sorted(&rows(db, text).await.unwrap())
}

fn index(db: &Database) -> IndexInfo {
    db.info().unwrap().indexes.remove(0)
}

#[test]
fn copies_have_a_part_of_the_memory_by_default() {
    let budget =
        |options: &DatabaseOptions| Database::in_memory(options).unwrap().info().unwrap().dram_budget;
    let by_default = budget(&DatabaseOptions::default());
    assert!(by_default.is_some_and(|bytes| bytes > 0 && bytes < halocline_media::ram_bytes()));
    let beside = DatabaseOptions::default().with_memory(Some(64 << 20));
    assert_eq!(budget(&beside), Some(32 << 20));
}

#[test]
fn budgets_that_cannot_be_are_refused_wherever_they_are_said() {
    runtime().block_on(async {
        let db = filled(&DatabaseOptions::default()).await;
        let before = db.info().unwrap();
        for (size, part) in [
            ("'-1'", "`-1` is not a size; write 512M or 2G, or unlimited"),
            ("'abc'", "`abc` is not a size"),
            ("''", "`` is not a size"),
            ("'1EiB'", "`1EiB` is more than any machine has; write 512M or 2G"),
            ("'99999999999T'", "more than any machine has"),
            ("'0'", "slow-only"),
        ] {
            for (text, setting) in [
                (
                    format!("CREATE INDEX j ON t (b) WITH (placement = 'static', dram = {size})"),
                    "index j: dram",
                ),
                (
                    format!("ALTER INDEX i SET (placement = 'static', dram = {size})"),
                    "index i: dram",
                ),
                (
                    format!("SET halocline.dram_budget = {size}"),
                    "halocline.dram_budget: ",
                ),
            ] {
                // No DRAM at all is a budget for all indexes, and none for one.
                if size == "'0'" && setting.starts_with("halocline") {
                    continue;
                }
                let error = said(&db, &text).await.unwrap_err();
                assert!(
                    error.to_lowercase().contains(&part.to_lowercase()) && error.contains(setting),
                    "{text}: {error}"
                );
            }
        }
        for policy in ["fast", "dynamic:mru", "static:0", "static:x", ""] {
            for text in [
                format!("CREATE INDEX j ON t (b) WITH (placement = '{policy}')"),
                format!("ALTER INDEX i SET (placement = '{policy}')"),
            ] {
                let error = said(&db, &text).await.unwrap_err();
                assert!(error.contains("index "), "{text}: {error}");
            }
        }
        let after = db.info().unwrap();
        assert_eq!((after.indexes.len(), after.dram_budget), (1, before.dram_budget));
        assert_eq!(
            (index(&db).placement.as_str(), index(&db).dram),
            ("slow-only", None)
        );
    });
}

#[test]
fn a_budget_below_the_root_list_falls_back_to_the_slow_tier() {
    runtime().block_on(async {
        let db = filled(&DatabaseOptions::default()).await;
        let question = "SELECT count(*) FROM t WHERE a = 5 AND b < 500";
        let expected = shown(&db, question).await;
        for placement in ["hybrid", "static", "static:1", "dual-access", "dynamic"] {
            for dram in ["1", "64", "4096"] {
                let text = format!("ALTER INDEX i SET (placement = '{placement}', dram = '{dram}')");
                let told = said(&db, &text).await.unwrap();
                let info = index(&db);
                let taken = info.dram_bytes.unwrap();
                assert!(taken <= dram.parse().unwrap(), "{text}: {taken}");
                if taken == 0 {
                    assert!(told.contains("slow tier"), "{text}: {told}");
                    assert!(info.fallback.is_some(), "{text}");
                    let row = shown(&db, "SHOW INDEXES").await;
                    assert!(row[0].contains("slow tier"), "{text}: {row:?}");
                }
                assert_eq!(shown(&db, question).await, expected, "{text}");
            }
            assert_eq!(
                said(&db, "ALTER INDEX i SET (dram = '1')").await.map(|_| ()),
                Ok(())
            );
            assert_eq!(index(&db).dram_bytes, Some(0), "{placement} in one byte");
        }
        said(&db, "SET halocline.dram_budget = '1'").await.unwrap();
        said(&db, "ALTER INDEX i SET (placement = 'hybrid', dram = unlimited)")
            .await
            .unwrap();
        let none = index(&db);
        assert_eq!((none.dram_bytes, none.dram_most), (Some(0), 1));
        assert!(none.fallback.unwrap().contains("halocline.dram_budget leaves"));
        assert_eq!(shown(&db, question).await, expected);
    });
}

#[test]
fn settings_are_reset_to_what_the_database_was_opened_with() {
    runtime().block_on(async {
        let options = DatabaseOptions::default().with_dram_budget(Some(32 << 20));
        for (options, given) in [(options, Some("32MiB")), (DatabaseOptions::default(), None)] {
            let db = filled(&options).await;
            let budget = db.info().unwrap().dram_budget;
            let opened = shown(&db, "SHOW halocline.dram_budget").await;
            assert!(given.is_none_or(|given| opened[0].contains(given)));
            said(&db, "ALTER INDEX i SET (placement = 'hybrid')")
                .await
                .unwrap();
            let placed = db.info().unwrap().placed_bytes;
            assert!(placed > 0);
            said(&db, "SET halocline.dram_budget = 0").await.unwrap();
            assert_eq!(db.info().unwrap().placed_bytes, 0);
            said(&db, "RESET halocline.dram_budget").await.unwrap();
            let info = db.info().unwrap();
            assert_eq!((info.dram_budget, info.placed_bytes), (budget, placed));
            assert_eq!(shown(&db, "SHOW halocline.dram_budget").await, opened);
            for setting in ["index", "compaction"] {
                said(&db, &format!("RESET halocline.{setting}")).await.unwrap();
            }
            assert!(shown(&db, "SHOW halocline.index").await[0].contains("auto"));
            let error = said(&db, "RESET halocline.dram").await.unwrap_err();
            assert!(error.contains("halocline.dram_budget"), "{error}");
            said(&db, "RESET datafusion.execution.batch_size").await.unwrap();
        }
    });
}

#[test]
fn an_index_that_is_not_loaded_says_what_it_may_take() {
    runtime().block_on(async {
        let db = filled(&DatabaseOptions::default()).await;
        assert_eq!(index(&db).placement_text(), "slow-only");
        assert_eq!(index(&db).dram_most, 0);
        for (with, most) in [
            ("placement = 'hybrid'", index(&db).bytes),
            ("placement = 'static', dram = '8KiB'", 8 << 10),
        ] {
            said(&db, "DROP INDEX i").await.unwrap();
            said(&db, &format!("CREATE INDEX i ON t (a, b) WITH ({with})"))
                .await
                .unwrap();
            let info = index(&db);
            assert_eq!((info.dram_bytes, info.dram_most), (None, most), "{with}");
            let text = info.placement_text();
            assert!(
                text.contains(": not loaded, up to about ") && text.contains("KiB"),
                "{text}"
            );
        }
        said(&db, "SET halocline.dram_budget = '4KiB'").await.unwrap();
        assert_eq!(index(&db).dram_most, 4 << 10);
    });
}
