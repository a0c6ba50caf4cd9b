//! EXPLAIN: the access path that it shows, and the reason for it.

use halocline_engine::Database;

use super::corpus::lineitem;
use super::support::{import, new_pool, query, run};

/// The first line of a plan that names our scan, or a fused aggregate, which has one.
async fn scan_line(db: &Database, text: &str) -> String {
    let plan = query(db, &format!("EXPLAIN {text}")).await.join("\n");
    let scans = ["ElfScan", "PoolScan", "FusedAggregate"];
    let line = plan
        .lines()
        .find(|line| scans.iter().any(|scan| line.contains(scan)));
    let line = line.unwrap_or_else(|| panic!("{plan}"));
    line.trim().trim_start_matches("physical_plan|").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_way_is_told_with_its_reason() {
    let (dir, db) = new_pool();
    import(&db, "lineitem", &[lineitem(dir.path())]);
    let q6 = "SELECT l_extendedprice FROM lineitem WHERE l_shipdate BETWEEN date '1994-01-01' AND date '1994-01-03' \
              AND l_discount = 0.05 AND l_tax < 0.03 AND l_comment LIKE '%a%'";
    assert!(
        scan_line(&db, q6)
            .await
            .contains("no_index=[the table has no index]")
    );
    run(
        &db,
        "CREATE INDEX by_date ON lineitem USING elf (l_shipdate, l_discount, l_comment)",
    )
    .await;
    let line = scan_line(&db, q6).await;
    for part in [
        "ElfScan: table=lineitem, index=by_date, on=[",
        "l_discount = 0.05",
        "l_shipdate between 1994-01-01 and 1994-01-03",
        "estimated_rows=",
        "why=[index by_date about ",
        "columns=[l_extendedprice]",
        "then=[l_tax < ",
        " AND l_comment LIKE ",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    let cheap = scan_line(&db, "SELECT * FROM lineitem WHERE l_shipdate > date '1992-03-01'").await;
    assert!(
        cheap.starts_with("PoolScan") && cheap.contains("no_index=[scan is cheaper: index by_date about "),
        "{cheap}"
    );
    let other = scan_line(&db, "SELECT l_tax FROM lineitem WHERE l_quantity = 3").await;
    assert!(
        other.contains("no_index=[no index answers a condition on l_quantity]"),
        "{other}"
    );
    let none = scan_line(&db, "SELECT l_tax FROM lineitem").await;
    assert!(none.contains("no_index=[no conditions]"), "{none}");
    let limit = scan_line(&db, "SELECT l_tax FROM lineitem LIMIT 7").await;
    assert!(limit.contains("fetch=7"), "{limit}");
    run(&db, "SET halocline.index = off").await;
    assert!(
        scan_line(&db, q6)
            .await
            .contains("no_index=[halocline.index = off]")
    );
    run(&db, "SET halocline.index = force").await;
    let forced = scan_line(&db, "SELECT * FROM lineitem WHERE l_shipdate > date '1992-03-01'").await;
    assert!(
        forced.contains("ElfScan") && forced.contains("why=[halocline.index = force"),
        "{forced}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn analyze_counts_rows() {
    let (dir, db) = new_pool();
    import(&db, "lineitem", &[lineitem(dir.path())]);
    run(
        &db,
        "CREATE INDEX by_date ON lineitem USING elf (l_shipdate, l_discount)",
    )
    .await;
    let text = "SELECT l_tax FROM lineitem WHERE l_shipdate = date '1994-03-05'";
    let rows = query(&db, text).await.len();
    let plan = query(&db, &format!("EXPLAIN ANALYZE {text}")).await.join("\n");
    assert!(
        plan.contains(&format!("output_rows={rows}")) && plan.contains(&format!("rows_from_index={rows}")),
        "{plan}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_come_from_statistics_or_the_index() {
    let (dir, db) = new_pool();
    import(&db, "lineitem", &[lineitem(dir.path())]);
    let plan = query(&db, "EXPLAIN SELECT count(*), min(l_shipdate) FROM lineitem")
        .await
        .join("\n");
    assert!(!plan.contains("PoolScan"), "{plan}");
    run(
        &db,
        "CREATE INDEX by_date ON lineitem USING elf (l_shipdate, l_discount)",
    )
    .await;
    let count = "SELECT count(*) FROM lineitem WHERE l_shipdate = date '1994-03-05'";
    let line = scan_line(&db, count).await;
    assert!(
        line.contains("FusedAggregate: table=lineitem, no_index=[scan is cheaper"),
        "{line}"
    );
    run(&db, "SET halocline.fused_aggregate = off").await;
    let line = scan_line(&db, count).await;
    assert!(line.contains("ElfScan") && line.contains("columns=[]"), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_can_be_shown() {
    let (_dir, db) = new_pool();
    assert_eq!(query(&db, "SHOW halocline.index").await, ["halocline.index|auto"]);
    run(&db, "SET halocline.index = 'force'").await;
    assert_eq!(
        query(&db, "SHOW halocline.index").await,
        ["halocline.index|force"]
    );
    let other = db.session();
    assert_eq!(
        query(&other, "SHOW halocline.index").await,
        ["halocline.index|auto"]
    );
    let error = super::support::error(&db, "SET halocline.index = sometimes").await;
    assert_eq!(error, "halocline.index is off, auto or force, not 'sometimes'");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_become_codes() {
    let (dir, db) = new_pool();
    import(&db, "lineitem", &[lineitem(dir.path())]);
    run(
        &db,
        "CREATE INDEX all_kinds ON lineitem USING elf (l_shipdate, l_discount, l_quantity, l_shipmode, l_comment, l_orderkey)",
    )
    .await;
    run(&db, "SET halocline.index = force").await;
    for (condition, on) in [
        ("l_discount = 0.05", "l_discount = 0.05"),
        ("0.05 = l_discount", "l_discount = 0.05"),
        (
            "l_discount >= 0.03 AND l_discount < 0.05",
            "l_discount between 0.03 and 0.04",
        ),
        (
            "l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01",
            "l_discount between 0.05 and 0.07",
        ),
        (
            "l_discount > 0.055 AND l_discount <= 0.0701",
            "l_discount between 0.06 and 0.07",
        ),
        (
            "l_discount NOT BETWEEN 0.01 AND 0.09",
            "l_discount in (0.00, 0.10)",
        ),
        ("l_quantity IN (1, 2, 3)", "l_quantity in (1.00, 2.00, 3.00)"),
        ("l_quantity = 1 OR l_quantity = 7", "l_quantity in (1.00, 7.00)"),
        ("cast(l_quantity AS double) > 48.5", "l_quantity >= 48.51"),
        ("l_discount * 2 = 0.1", "l_discount = 0.05"),
        ("l_shipmode LIKE 'RE%'", "l_shipmode = REG AIR"),
        ("l_shipmode LIKE '%AIR'", "l_shipmode in (AIR, REG AIR)"),
        ("upper(l_shipmode) <> 'AIR'", "l_shipmode >= FOB"),
        (
            "l_shipmode IS NOT NULL AND l_shipmode IN ('AIR', 'nonsense')",
            "l_shipmode = AIR",
        ),
        (
            "l_shipdate < date '1992-01-10' AND l_shipdate >= date '1992-01-08'",
            "l_shipdate between 1992-01-08 and 1992-01-09",
        ),
        (
            "extract(year FROM l_shipdate) = 1995",
            "l_shipdate between 1995-01-01 and 1995-12-31",
        ),
        (
            "date_trunc('month', l_shipdate) = timestamp '1995-02-01'",
            "l_shipdate between 1995-02-01 and 1995-02-28",
        ),
        (
            "l_shipdate < timestamp '1992-01-05 12:00:00'",
            "l_shipdate <= 1992-01-05",
        ),
        (
            "cast(l_orderkey AS double) BETWEEN 7 AND 8.5",
            "l_orderkey between 7 and 8",
        ),
    ] {
        let line = scan_line(&db, &format!("SELECT l_tax FROM lineitem WHERE {condition}")).await;
        assert!(line.contains(&format!("on=[{on}]")), "{condition}: {line}");
        assert!(!line.contains("then=["), "{condition}: {line}");
    }
    for condition in [
        "l_comment LIKE '%x%'",
        "l_shipdate < l_commitdate",
        "l_tax + l_discount = 0.1",
        "length(l_comment) > 20",
    ] {
        let plan = query(
            &db,
            &format!("EXPLAIN SELECT l_tax FROM lineitem WHERE {condition}"),
        )
        .await
        .join("\n");
        assert!(plan.contains("PoolScan"), "{condition}: {plan}");
    }
}
