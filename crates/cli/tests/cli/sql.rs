//! The `sql` command and its shell.

mod scripts;
mod shell_commands;
mod terminal;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use crate::common::{Home, assert_error, stderr, stdout};

#[test]
fn a_table_is_printed_for_people() {
    let home = Home::with_table();
    let text = stdout(&home.ok(&[
        "sql",
        "p",
        "SELECT id, name FROM t WHERE id IN (1, 10) ORDER BY id",
    ]));
    for part in ["id", "name 1", "NULL", "2 rows"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn long_tables_are_cut() {
    let home = Home::with_table();
    let text = stdout(&home.ok(&["sql", "p", "SELECT id FROM t", "--max-rows", "5"]));
    assert!(text.contains("1,000 rows, the first 5 shown"), "{text}");
    let text = stdout(&home.ok(&["sql", "p", "SELECT id FROM t", "--max-rows", "0"]));
    assert!(text.lines().count() > 1000);
}

#[test]
fn csv_can_be_imported_again() {
    let home = Home::with_table();
    let text = home.csv("p", "SELECT * FROM t ORDER BY id");
    assert_eq!(text.lines().next(), Some("id,day,name,price"));
    assert_eq!(text.lines().count(), 1001);
    home.write("again.csv", &text);
    home.ok(&["import", "p", "again", "again.csv"]);
    assert_eq!(
        home.csv(
            "p",
            "SELECT count(*) AS n FROM (SELECT * FROM t EXCEPT SELECT * FROM again) d"
        ),
        "n\n0\n"
    );
}

#[test]
fn an_empty_answer_has_a_header_in_csv_and_nothing_in_json() {
    let home = Home::with_table();
    assert_eq!(home.csv("p", "SELECT id, name FROM t WHERE id < 0"), "id,name\n");
    assert_eq!(
        stdout(&home.ok(&["sql", "p", "SELECT id FROM t WHERE id < 0", "--output", "json"])),
        ""
    );
}

#[test]
fn json_has_one_object_per_row() {
    let home = Home::with_table();
    let sql = "SELECT id, day, name, price FROM t WHERE id < 12 ORDER BY id";
    let text = stdout(&home.ok(&["sql", "p", sql, "--output", "json"]));
    let rows: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 12);
    assert_eq!(
        rows[11],
        serde_json::json!({"id": 11, "day": "2026-01-12", "name": "name 4", "price": 11.25})
    );
    assert_eq!(rows[10]["name"], serde_json::Value::Null);
}

#[test]
fn times_of_all_runs_go_to_stderr_and_one_answer_to_stdout() {
    let home = Home::with_table();
    let sql = "SELECT count(*) AS n FROM t WHERE id < 500";
    let run = home.ok(&["sql", "p", sql, "--repeat", "3", "--timing", "--output", "csv"]);
    assert_eq!(stdout(&run), "n\n500\n");
    let text = stderr(&run);
    let times: Vec<f64> = text
        .lines()
        .map(|line| line.strip_prefix("time_ms ").unwrap().parse().unwrap())
        .collect();
    assert_eq!(times.len(), 3, "{text}");
    assert!(times.iter().all(|time| *time >= 0.0));
}

#[test]
fn scripts_run_statement_by_statement_and_stop_at_the_first_error() {
    let home = Home::with_table();
    home.write(
        "s.sql",
        "-- a comment; with a semicolon\nCREATE TABLE a AS SELECT id FROM t WHERE name = 'name 1';\n\
         SELECT count(*) > 0 AS some FROM a;\nSELECT nonsense FROM a;\nDROP TABLE a;\n",
    );
    let run = home.fails(1, &["sql", "p", "-f", "s.sql", "--output", "csv"]);
    assert_eq!(stdout(&run), "some\ntrue\n");
    assert!(stderr(&run).contains("nonsense"), "{}", stderr(&run));
    assert_eq!(
        home.csv("p", "SELECT count(*) > 0 AS there FROM a"),
        "there\ntrue\n"
    );
}

#[test]
fn messages_of_statements_do_not_disturb_csv() {
    let home = Home::with_table();
    let run = home.ok(&[
        "sql",
        "p",
        "CREATE TABLE a AS SELECT 1 AS x; SELECT x FROM a",
        "--output",
        "csv",
    ]);
    assert_eq!(stdout(&run), "x\n1\n");
}

#[test]
fn a_missing_pool_is_made_for_create_table_only() {
    let home = Home::new();
    assert_error(
        &home.fails(1, &["sql", "p", "SELECT 1"]),
        &["there is no pool p", "hint: ", "import"],
    );
    assert!(!home.path("p").exists());
    home.fails(1, &["sql", "p", "CREATE TABLE t AS SELECT nonsense"]);
    assert!(
        !home.path("p").exists(),
        "a pool made for a failed statement is removed"
    );
    home.ok(&["sql", "p", "CREATE TABLE t AS SELECT 1 AS x"]);
    assert_eq!(home.csv("p", "SELECT x FROM t"), "x\n1\n");
    home.ok(&["sql", "new", "--create", "SELECT 1"]);
    assert!(home.path("new").exists());
}

#[test]
fn errors_of_statements_are_told_in_plain_words() {
    let home = Home::with_table();
    assert_error(&home.fails(1, &["sql", "p", "SELEC 1"]), &["SELEC"]);
    assert_error(&home.fails(1, &["sql", "p", "SELECT nam FROM t"]), &["nam"]);
    assert_error(
        &home.fails(1, &["sql", "p", "SELECT * FROM missing"]),
        &["missing"],
    );
    assert_error(&home.fails(1, &["sql", "p", "-f", "none.sql"]), &["none.sql"]);
    assert_error(
        &home.fails(2, &["sql", "p", " -- nothing"]),
        &["no statement", "hint: "],
    );
}

#[test]
fn a_read_only_pool_can_be_asked_but_not_changed() {
    let home = Home::with_table();
    let asked = home.ok(&[
        "sql",
        "p",
        "SELECT count(*) AS n FROM t",
        "--read-only",
        "--output",
        "csv",
    ]);
    assert_eq!(stdout(&asked), "n\n1000\n");
    assert_error(
        &home.fails(1, &["sql", "p", "DROP TABLE t", "--read-only"]),
        &["read-only"],
    );
}

#[test]
fn an_index_is_used_and_gives_the_same_answers() {
    let home = Home::with_table();
    home.ok(&["sql", "p", "CREATE INDEX i ON t USING elf (day, id)"]);
    let sql =
        "SELECT count(*) AS n, sum(id) AS s FROM t WHERE day = DATE '2026-01-05' AND id BETWEEN 100 AND 900";
    let plan = home.csv("p", &format!("SET halocline.index = 'force'; EXPLAIN {sql}"));
    assert!(plan.contains("ElfScan"), "{plan}");
    let with = home.csv("p", &format!("SET halocline.index = 'force'; {sql}"));
    let without = home.csv("p", &format!("SET halocline.index = 'off'; {sql}"));
    assert_eq!(with, without);
}

#[test]
fn the_shell_reads_statements_and_commands_from_a_pipe() {
    let home = Home::with_table();
    let script = "\\timing\n\\d\nSELECT count(*)\n  FROM t\n WHERE id < 10; SELECT 'a;b' AS s;\n\\d t\n\\format json\n\
                  SELECT 7 AS x;\n\\help\n\\q\nSELECT 'never' AS reached;\n";
    let run = home.command(&["sql", "p"]).write_stdin(script).assert().success();
    let text = stdout(&run);
    for part in ["timing is on", " 10 │", "a;b", "price", "{\"x\":7}", "\\timing, "] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    assert!(!text.contains("never"));
    assert_eq!(stderr(&run).matches("time_ms ").count(), 3);
}

#[test]
fn statements_behind_a_failed_one_run_with_keep_going() {
    let home = Home::with_table();
    let script = "SELECT nonsense FROM t;\n\\echo behind it\nSELECT 1 AS x;\n";
    let run = home
        .command(&["sql", "p", "--keep-going", "--output", "csv"])
        .write_stdin(script)
        .assert()
        .code(1);
    assert_eq!(stdout(&run), "behind it\nx\n1\n");
    assert!(stderr(&run).contains("nonsense"), "{}", stderr(&run));
    let run = home.fails(
        1,
        &[
            "sql",
            "p",
            "--keep-going",
            "--output",
            "csv",
            "SELECT z; SELECT z; SELECT 2 AS y",
        ],
    );
    assert_eq!(stdout(&run), "y\n2\n");
    assert!(stderr(&run).contains("2 statements failed"), "{}", stderr(&run));
}

#[test]
fn the_shell_ends_with_an_error_when_a_piped_statement_fails() {
    let home = Home::with_table();
    let run = home
        .command(&["sql", "p"])
        .write_stdin("SELECT nonsense FROM t;\nSELECT 1;\n")
        .assert()
        .code(1);
    assert_eq!(stdout(&run), "");
    let run = home
        .command(&["sql", "p"])
        .write_stdin("\\nonsense\n")
        .assert()
        .code(2);
    assert_error(&run, &["\\nonsense", "\\help"]);
}

#[test]
fn a_last_statement_needs_no_semicolon_in_a_pipe() {
    let home = Home::with_table();
    let run = home
        .command(&["sql", "p", "--output", "csv"])
        .write_stdin("SELECT 1 AS x;\nSELECT 2 AS y")
        .assert();
    assert_eq!(stdout(&run.success()), "x\n1\ny\n2\n");
}

fn program(home: &Home) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("halocline"));
    command
        .current_dir(home.directory())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn a_reader_that_leaves_early_ends_the_program_silently() {
    let home = Home::with_table();
    let mut child = program(&home)
        .args([
            "sql",
            "p",
            "SELECT a.id, b.name FROM t a CROSS JOIN t b",
            "--output",
            "csv",
        ])
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "id,name\n");
    // The pipe is closed now, long before the million rows are through it.
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
}

#[test]
fn ctrl_c_ends_a_query() {
    let home = Home::with_table();
    let mut child = program(&home)
        .args(["sql", "p", "--output", "csv"])
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    writeln!(input, "SELECT 1 AS ready;").unwrap();
    let mut line = String::new();
    while line != "1\n" {
        line.clear();
        output.read_line(&mut line).unwrap();
    }
    // A thousand million million rows: only Ctrl-C ends this.
    writeln!(
        input,
        "SELECT count(*) FROM t a CROSS JOIN t b CROSS JOIN t c CROSS JOIN t d CROSS JOIN t e;"
    )
    .unwrap();
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(text.contains("error: interrupted"), "{text}");
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM t"), "n\n1000\n");
}
