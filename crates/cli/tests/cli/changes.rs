//! Tables that change: appends, scripts with transactions, compaction, vacuum.

use std::process::{Command, Stdio};

use halocline_pool::{Pool, PoolError, PoolOptions};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Home, assert_error, stderr, stdout, table_csv};

/// A pool `p` with a table `t` of 5 segments with `rows` rows each.
fn with_segments(rows: usize) -> Home {
    let home = Home::new();
    home.write("t.csv", table_csv(rows));
    for _ in 0..5 {
        home.ok(&["import", "p", "t", "t.csv", "--append"]);
    }
    home
}

fn table_info(home: &Home) -> serde_json::Value {
    let info: serde_json::Value = serde_json::from_str(&stdout(&home.ok(&["info", "p", "--json"]))).unwrap();
    info["tables"][0].clone()
}

#[test]
fn an_append_adds_a_segment_and_the_index_follows() {
    let home = Home::with_table();
    home.ok(&["index", "p", "t", "--on", "day,id"]);
    let text = stdout(&home.ok(&["import", "p", "t", "t.csv", "--append"]));
    assert!(text.starts_with("table t: 1,000 rows"), "{text}");
    assert_eq!(table_info(&home)["segments"], 2);
    let sql = "SET halocline.index = force; SELECT count(*) AS n FROM t WHERE id = 17";
    assert_eq!(stdout(&home.ok(&["sql", "p", sql, "-o", "csv"])), "n\n2\n");
    let foreign = home.write("u.csv", "a,b\n1,2\n");
    assert_error(
        &home.fails(1, &["import", "p", "t", foreign.to_str().unwrap(), "--append"]),
        &["u.csv"],
    );
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM t"), "n\n2000\n");
}

#[test]
fn info_shows_segments_deleted_rows_and_the_log() {
    let home = with_segments(2000);
    home.ok(&["sql", "p", "DELETE FROM t WHERE id < 600"]);
    home.ok(&["sql", "p", "INSERT INTO t (id) VALUES (-1)"]);
    home.ok(&["sql", "p", "INSERT INTO t (id) VALUES (-2)"]);
    let text = stdout(&home.ok(&["info", "p"]));
    for part in [
        "table t: 7,002 rows",
        "segments, 3,000 deleted rows",
        "in the log",
        "of small changes",
        "allocated in the file system",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let info: serde_json::Value = serde_json::from_str(&stdout(&home.ok(&["info", "p", "--json"]))).unwrap();
    assert!(info["pool"]["log_bytes"].as_u64().unwrap() > 0, "{info}");
    assert!(info["pool"]["allocated_bytes"].as_u64().unwrap() > 0, "{info}");
}

#[test]
fn compaction_merges_segments_and_drops_deleted_rows() {
    let home = with_segments(3000);
    home.ok(&["index", "p", "t", "--on", "id"]);
    home.ok(&["sql", "p", "DELETE FROM t WHERE id % 2 = 0"]);
    let run = home.ok(&["compact", "p", "t", "--memory", "64M", "--bandwidth", "1G/s"]);
    assert!(
        stdout(&run).starts_with("merged 5 segments into 1: 7,500 rows, 7,500 deleted rows dropped"),
        "{}",
        stdout(&run)
    );
    assert_eq!(stderr(&run), "", "no progress bars in a pipe");
    let table = table_info(&home);
    assert_eq!(
        (&table["segments"], &table["deleted_rows"]),
        (&1.into(), &0.into())
    );
    assert_eq!(
        home.csv("p", "SELECT count(*) AS n, sum(id) AS s FROM t"),
        "n,s\n7500,11250000\n"
    );
    let text = stdout(&home.ok(&["compact", "p"]));
    assert_eq!(text, "there was nothing worth merging\n");
    let text = stdout(&home.ok(&["compact", "p", "--full"]));
    assert!(text.starts_with("merged 1 segment into 1: 7,500 rows"), "{text}");
    assert_error(
        &home.fails(1, &["compact", "p", "u"]),
        &["no table 'u'", "hint: "],
    );
    assert_error(&home.fails(1, &["compact", "none"]), &["there is no pool none"]);
    assert!(stdout(&home.ok(&["check", "p"])).contains("no damage found"));
}

#[test]
fn vacuum_gives_space_back() {
    let home = with_segments(50_000);
    let allocated = || {
        let info: serde_json::Value =
            serde_json::from_str(&stdout(&home.ok(&["info", "p", "--json"]))).unwrap();
        info["pool"]["allocated_bytes"].as_u64().unwrap()
    };
    home.ok(&[
        "sql",
        "p",
        "CREATE TABLE u AS SELECT t.* FROM t, generate_series(1, 16)",
    ]);
    home.ok(&["sql", "p", "DROP TABLE u"]);
    let before = allocated();
    let text = stdout(&home.ok(&["vacuum", "p"]));
    assert!(text.contains("merged 5 segments into 1"), "{text}");
    assert!(text.contains("p: ") && text.contains("before"), "{text}");
    let after = allocated();
    assert!(after < before, "{before} -> {after}");
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM t"), "n\n250000\n");
    assert!(stdout(&home.ok(&["check", "p"])).contains("no damage found"));
}

#[test]
fn a_script_is_one_session() {
    let home = Home::new();
    let script = "CREATE TABLE a (i bigint NOT NULL); BEGIN; INSERT INTO a VALUES (1), (2); CREATE TABLE b AS SELECT * FROM a;
                  DELETE FROM a WHERE i = 1; COMMIT; BEGIN; DROP TABLE b; ROLLBACK; SELECT sum(i) AS s FROM a;";
    home.write("s.sql", script);
    assert_eq!(
        stdout(&home.ok(&["sql", "p", "-f", "s.sql", "-o", "csv"])),
        "s\n2\n"
    );
    assert_eq!(home.csv("p", "SELECT sum(i) AS s FROM b"), "s\n3\n");
    let run = home
        .command(&["sql", "p"])
        .write_stdin("BEGIN; DELETE FROM b;\n ROLLBACK; SELECT 1;")
        .assert()
        .success();
    assert!(stdout(&run).contains("rolled back"), "{}", stdout(&run));
}

#[test]
fn what_was_not_committed_is_not_stored() {
    let home = Home::with_table();
    home.write("s.sql", "BEGIN; DELETE FROM t; SELECT count(*) AS n FROM t;");
    let run = home.fails(1, &["sql", "p", "-f", "s.sql"]);
    assert_error(&run, &["was not committed", "hint: end it with COMMIT"]);
    assert!(stdout(&run).contains("deleted 1000 rows"), "{}", stdout(&run));
    home.write("s.sql", "BEGIN; DELETE FROM t; SELECT nothing FROM t; COMMIT;");
    assert_error(&home.fails(1, &["sql", "p", "-f", "s.sql"]), &["nothing"]);
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM t"), "n\n1000\n");
    assert!(stdout(&home.ok(&["check", "p"])).contains("no damage found"));
}

#[test]
fn ctrl_c_ends_a_compaction_and_leaves_the_pool_clean() {
    let home = with_segments(20_000);
    let sums = home.csv("p", "SELECT count(*) AS n, sum(id) AS s, count(name) AS c FROM t");
    let program = assert_cmd::cargo::cargo_bin("halocline");
    let child = Command::new(program)
        .current_dir(home.directory())
        .args(["compact", "p", "--bandwidth", "1K/s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It has begun once it holds the writer's lock.
    let pool = Pool::open(home.path("p"), &PoolOptions::default()).unwrap();
    while !matches!(pool.begin(), Err(PoolError::Locked { .. })) {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("error: interrupted"), "{text}");
    assert!(pool.begin().is_ok(), "the lock is free");
    drop(pool);
    assert_eq!(table_info(&home)["segments"], 5);
    assert_eq!(
        home.csv("p", "SELECT count(*) AS n, sum(id) AS s, count(name) AS c FROM t"),
        sums
    );
    assert!(stdout(&home.ok(&["check", "p"])).contains("no damage found"));
}
