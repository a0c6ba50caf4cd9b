//! Damaged pools: what is damaged is named, everything else goes on, and a repair gives up as little as
//! possible.

use std::fs;
use std::os::unix::fs::FileExt;

use halocline_pool::{ExtentRef, Pool, PoolOptions};

use crate::common::{Home, assert_error, stderr, stdout};

/// The first extent of an object of pool `p`.
fn extent(home: &Home, object: &str) -> ExtentRef {
    let options = PoolOptions::default().with_read_only(true);
    let pool = Pool::open(home.path("p"), &options).unwrap();
    let object = pool.snapshot().unwrap().object(object).unwrap();
    object.extent_ref(0)
}

/// Flips a bit of pool `p`.
fn flip(home: &Home, at: u64) {
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(home.path("p"))
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

/// Flips a bit in the header of an object's first extent, which is read when it is opened.
fn damage(home: &Home, object: &str) {
    flip(home, extent(home, object).offset + 17);
}

/// A pool with tables `t` (an index `i` on it) and `u`, both with rows in the log.
fn two_tables() -> Home {
    let home = Home::with_table();
    home.ok(&["import", "p", "u", "t.csv"]);
    home.ok(&["sql", "p", "CREATE INDEX i ON t (id, price)"]);
    for table in ["t", "u"] {
        home.ok(&[
            "sql",
            "p",
            &format!("INSERT INTO {table} VALUES (5000, '2026-02-01', 'new', 1.5)"),
        ]);
    }
    home
}

#[test]
fn a_damaged_table_affects_no_other() {
    let home = two_tables();
    damage(&home, "table/t");
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM u"), "n\n1001\n");
    assert_error(
        &home.fails(1, &["sql", "p", "SELECT count(*) FROM t WHERE price > 3"]),
        &["table"],
    );
    let info = stdout(&home.ok(&["info", "p"]));
    assert!(
        info.contains("table t: damaged") && info.contains("table u: 1,001 rows"),
        "{info}"
    );
    let check = home.fails(1, &["check", "p"]);
    let text = stdout(&check);
    assert!(text.contains("table t: "), "{text}");
    assert!(!text.contains("table u"), "{text}");
    home.ok(&["sql", "p", "SHOW INDEXES"]);
    home.ok(&["sql", "p", "SELECT table_name FROM information_schema.tables"]);
    let columns = "SELECT count(*) AS n FROM information_schema.columns WHERE table_name = ";
    assert_eq!(home.csv("p", &format!("{columns}'t'")), "n\n4\n");
    assert_eq!(home.csv("p", &format!("{columns}'u'")), "n\n4\n");
    // Writing to others goes on, what is published included.
    home.ok(&[
        "sql",
        "p",
        "INSERT INTO u VALUES (5001, '2026-02-01', 'new', 1.5)",
    ]);
    home.ok(&["sql", "p", "CREATE INDEX j ON u (id, price)"]);
    home.ok(&["compact", "p"]);
    for full in [&["compact", "p", "--full"][..], &["sql", "p", "VACUUM FULL"]] {
        let ended = home.fails(1, full);
        let text = stdout(&ended) + &stderr(&ended);
        assert!(text.contains("table t") && text.contains("left as"), "{text}");
    }
    assert_eq!(
        home.csv("p", "SELECT count(*) AS n FROM u WHERE id >= 0"),
        "n\n1002\n"
    );
    let repaired = home.fails(1, &["check", "p", "--repair"]);
    let text = stdout(&repaired);
    assert!(
        text.contains("table t") && text.contains("left as it is"),
        "{text}"
    );
    home.ok(&["drop", "p", "t"]);
    home.ok(&["check", "p"]);
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM u"), "n\n1002\n");
}

#[test]
fn a_damaged_index_is_built_anew_and_no_row_is_lost() {
    let home = two_tables();
    damage(&home, "index/i");
    assert_eq!(
        home.csv("p", "SELECT count(*) AS n FROM t WHERE id < 10"),
        "n\n10\n"
    );
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM u"), "n\n1001\n");
    home.fails(1, &["check", "p"]);
    let before = fs::read(home.path("p")).unwrap();
    let plan = home.fails(1, &["check", "p", "--repair", "--dry-run"]);
    assert_error(&plan, &["damage was found", "--repair"]);
    let plan = stdout(&plan);
    assert!(
        plan.contains("index i") && plan.contains("nothing is lost"),
        "{plan}"
    );
    assert_eq!(
        fs::read(home.path("p")).unwrap(),
        before,
        "--dry-run changes nothing"
    );
    let repaired = stdout(&home.ok(&["check", "p", "--repair"]));
    assert!(repaired.contains("built index i anew"), "{repaired}");
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM t"), "n\n1001\n");
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM u"), "n\n1001\n");
    let plan = home.csv(
        "p",
        "SET halocline.index = force; EXPLAIN SELECT count(*) FROM t WHERE id < 10",
    );
    assert!(plan.contains("Elf"), "{plan}");
    home.ok(&["check", "p"]);
}

#[test]
fn a_damaged_index_can_be_dropped() {
    let home = two_tables();
    damage(&home, "index/i");
    home.ok(&["drop", "p", "i"]);
    home.ok(&["check", "p"]);
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM t"), "n\n1001\n");
}

#[test]
fn a_damaged_log_record_is_reported_and_not_hidden() {
    // The first record and the last; the length, the payload and the checksum of each.
    for (record, within) in [(0, 0), (0, 40), (2, 0), (2, 40), (2, 7)] {
        let home = Home::with_table();
        let mut ends = vec![0];
        for id in 0..3 {
            home.ok(&[
                "sql",
                "p",
                &format!("INSERT INTO t VALUES ({id}, '2026-02-01', 'new', 1.5)"),
            ]);
            let pool = Pool::open(home.path("p"), &PoolOptions::default()).unwrap();
            let snapshot = pool.snapshot().unwrap();
            // The first one makes the log.
            ends.push(snapshot.log_records("log", 0).map_or(0, |log| log.end));
        }
        let ends: Vec<u64> = ends.into_iter().skip_while(|end| *end == 0).collect();
        let starts: Vec<u64> = [0].into_iter().chain(ends.iter().copied()).collect();
        let record = record.min(ends.len() - 1);
        let log = extent(&home, "log");
        flip(&home, log.offset + starts[record] + within);
        let named = format!("record {} ", record + 1);
        for statement in [
            "SELECT count(*) FROM t",
            "INSERT INTO t VALUES (9, '2026-02-01', 'new', 1.5)",
            "CREATE INDEX j ON t (id, price)",
        ] {
            assert_error(&home.fails(1, &["sql", "p", statement]), &["log", &named]);
        }
        let check = stdout(&home.fails(1, &["check", "p"]));
        assert!(check.contains(&named), "{check}");
        let info = stdout(&home.ok(&["info", "p"]));
        assert!(info.contains("log log: damaged"), "{info}");
        assert_error(&home.fails(1, &["check", "p", "--repair"]), &["--yes"]);
        let repaired = stdout(&home.ok(&["check", "p", "--repair", "--yes"]));
        assert!(repaired.contains("p.before-repair"), "{repaired}");
        assert!(home.path("p.before-repair").exists());
        let rows = 1000 + (3 - ends.len()) + record;
        assert_eq!(
            home.csv("p", "SELECT count(*) AS n FROM t"),
            format!("n\n{rows}\n")
        );
    }
}

#[test]
fn a_backup_is_made_before_a_repair() {
    let home = two_tables();
    damage(&home, "index/i");
    let before = fs::read(home.path("p")).unwrap();
    home.ok(&["check", "p", "--repair", "--backup", "copy"]);
    assert_eq!(fs::read(home.path("copy")).unwrap(), before);
    damage(&home, "index/i");
    assert_error(
        &home.fails(1, &["check", "p", "--repair", "--backup", "copy"]),
        &["copy", "not overwritten"],
    );
}
