//! Scripts: places of errors, transactions, and statements that run as they arrive.

use std::fs;
use std::io::{BufRead, BufReader, Write};

use super::program;
use crate::common::{Home, assert_error, stderr, stdout};

#[test]
fn an_error_has_its_line_and_says_what_was_committed() {
    let home = Home::with_table();
    home.write(
        "s.sql",
        "-- two statements\nCREATE TABLE a AS SELECT 1 AS x;\nINSERT INTO a VALUES (2);\n\nSELECT\n  nonsense\nFROM a;\n",
    );
    assert_error(
        &home.fails(1, &["sql", "p", "-f", "s.sql"]),
        &[
            "error: s.sql:5: ",
            "nonsense",
            "2 statements before it were committed",
        ],
    );
    home.write(
        "s.sql",
        "INSERT INTO a VALUES (3);\nBEGIN;\nINSERT INTO a VALUES (4);\nSELECT nonsense;\nCOMMIT;\n",
    );
    assert_error(
        &home.fails(1, &["sql", "p", "-f", "s.sql"]),
        &[
            "error: s.sql:4: ",
            "1 statement before it was committed; nothing since BEGIN is stored",
        ],
    );
    assert_eq!(home.csv("p", "SELECT x FROM a ORDER BY x"), "x\n1\n2\n3\n");
    let alone = home.fails(1, &["sql", "p", "SELECT nonsense"]);
    assert!(!stderr(&alone).contains("before it"), "{}", stderr(&alone));
}

#[test]
fn an_atomic_script_is_stored_as_a_whole_or_not_at_all() {
    let home = Home::with_table();
    let count = || home.csv("p", "SELECT count(*) AS n FROM t");
    home.write(
        "s.sql",
        "INSERT INTO t (id) VALUES (5000);\nDELETE FROM t WHERE id = 1;\nSELECT nonsense FROM t;\n",
    );
    assert_error(
        &home.fails(1, &["sql", "p", "-f", "s.sql", "--atomic"]),
        &["s.sql:3: ", "nothing of the script is stored"],
    );
    assert_eq!(count(), "n\n1000\n");
    home.ok(&[
        "sql",
        "p",
        "INSERT INTO t (id) VALUES (5000); INSERT INTO t (id) VALUES (5001)",
        "--atomic",
    ]);
    assert_eq!(count(), "n\n1002\n");
    home.command(&["sql", "p", "--atomic"])
        .write_stdin("DELETE FROM t WHERE id >= 5000;\n\\q\n")
        .assert()
        .success();
    assert_eq!(count(), "n\n1000\n");
    assert_error(
        &home.fails(1, &["sql", "p", "BEGIN; DELETE FROM t; COMMIT", "--atomic"]),
        &["one transaction", "hint: "],
    );
    assert_eq!(count(), "n\n1000\n");
    home.fails(2, &["sql", "p", "SELECT 1", "--atomic", "--keep-going"]);
}

#[test]
fn statements_from_stdin_run_as_they_arrive() {
    let home = Home::with_table();
    let mut child = program(&home)
        .args(["sql", "p", "-f", "-", "--output", "csv"])
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for number in ["1", "2"] {
        writeln!(input, "SELECT {number} AS x;").unwrap();
        for expected in ["x\n", format!("{number}\n").as_str()] {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            assert_eq!(line, expected);
        }
    }
    writeln!(input, "\nSELECT\n nonsense;").unwrap();
    drop(input);
    let done = child.wait_with_output().unwrap();
    let text = String::from_utf8(done.stderr).unwrap();
    assert!(text.starts_with("error: stdin:4: "), "{text}");
    assert_eq!(done.status.code(), Some(1));
}

#[test]
fn a_script_from_stdin_may_create_the_pool() {
    let home = Home::new();
    let script = "SELECT 1 AS a; CREATE TABLE t AS SELECT 2 AS b; SELECT b FROM t;\n";
    let run = home
        .command(&["sql", "p", "-f", "-", "--output", "csv"])
        .write_stdin(script)
        .assert();
    assert_eq!(stdout(&run.success()), "a\n1\nb\n2\n");
    let run = home
        .command(&["sql", "q", "-f", "-"])
        .write_stdin("SELECT 1;\n")
        .assert()
        .code(1);
    assert_error(&run, &["there is no pool q"]);
    assert!(!home.path("q").exists());
}

#[test]
fn a_pool_in_memory_leaves_nothing_behind() {
    let home = Home::new();
    let script = "CREATE TABLE t (a int, b text);\nINSERT INTO t VALUES (1, 'x');\nSELECT a FROM t;\nquit;\nSELECT 2;\n";
    for arguments in [&[][..], &[":memory:"], &["sql", ":memory:"]] {
        let run = home.command(arguments).write_stdin(script).assert().success();
        let text = stdout(&run);
        assert!(text.contains("│ 1 │") && !text.contains("│ 2"), "{text}");
    }
    assert_eq!(home.csv(":memory:", "SELECT 1 AS x"), "x\n1\n");
    assert_eq!(fs::read_dir(home.directory()).unwrap().count(), 0);
}

#[test]
fn a_pool_in_the_place_of_a_command_is_opened() {
    let home = Home::with_table();
    let run = home.ok(&["p", "SELECT count(*) AS n FROM t", "--output", "csv"]);
    assert_eq!(stdout(&run), "n\n1000\n");
    assert_error(
        &home.fails(1, &["./none.pool", "SELECT 1"]),
        &["there is no pool ./none.pool"],
    );
    let text = stderr(&home.fails(2, &["nothing", "SELECT 1"]));
    assert!(text.contains("unrecognized subcommand"), "{text}");
}
