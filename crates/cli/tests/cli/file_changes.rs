//! Files that change under an open pool, and files that statements write: neither costs the pool or the
//! user's other files.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use crate::common::{Home, assert_error, stdout};

/// The pool is truncated while a query waits for the reader of its rows: no statement begins after that, so
/// that the query itself meets what is missing.
#[test]
fn a_pool_truncated_in_the_middle_of_a_query_ends_it_with_a_message() {
    let home = Home::new();
    home.ok(&[
        "sql",
        "p",
        "CREATE TABLE t AS SELECT i, random() AS x FROM generate_series(1, 1000000) AS g(i)",
    ]);
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("halocline"))
        .current_dir(home.directory())
        .args(["sql", "p", "SELECT * FROM t", "--output", "csv", "--threads", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    rows.read_line(&mut first).unwrap();
    assert_eq!(first, "i,x\n");
    let pool = fs::File::options().write(true).open(home.path("p")).unwrap();
    pool.set_len(128 << 10).unwrap();
    let mut rest = Vec::new();
    rows.read_to_end(&mut rest).unwrap();
    let status = child.wait().unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(status.code(), Some(4), "{status:?}, {text}");
    assert_eq!(
        text,
        "error: p was truncated, or its disk reported an error, while it was open\n\
         hint: restore it from a copy, then run `halocline check p`\n"
    );
}

/// Between statements the cut is an error like any other.
#[test]
fn a_pool_truncated_between_statements_is_an_error() {
    let home = Home::with_table();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("halocline"))
        .current_dir(home.directory())
        .args(["sql", "p", "--output", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut statements = child.stdin.take().unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap()).lines();
    writeln!(statements, "SELECT count(*) AS n FROM t;").unwrap();
    assert_eq!(rows.next().unwrap().unwrap(), "n");
    assert_eq!(rows.next().unwrap().unwrap(), "1000");
    let pool = fs::File::options().write(true).open(home.path("p")).unwrap();
    pool.set_len(16 << 10).unwrap();
    writeln!(statements, "SELECT count(*) AS n FROM t;").unwrap();
    drop(statements);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{:?}, {text}", output.status);
    assert!(text.contains("p was truncated"), "{text}");
}

#[test]
fn copy_to_never_replaces_a_pool() {
    let home = Home::with_table();
    fs::copy(home.path("p"), home.path("other.csv")).unwrap();
    fs::hard_link(home.path("p"), home.path("hard.csv")).unwrap();
    std::os::unix::fs::symlink("p", home.path("soft.csv")).unwrap();
    let before = fs::read(home.path("p")).unwrap();
    let absolute = home.path("other.csv");
    let targets = [
        "p",
        "./p",
        "hard.csv",
        "soft.csv",
        "other.csv",
        absolute.to_str().unwrap(),
    ];
    for target in targets {
        for mode in ["", " OPTIONS ('single_file_output' 'true')"] {
            let copy = format!("COPY (SELECT 1 AS one) TO '{target}' STORED AS CSV{mode}");
            assert_error(&home.fails(1, &["sql", "p", &copy]), &["pool", "another"]);
        }
    }
    assert_eq!(fs::read(home.path("p")).unwrap(), before);
    assert_eq!(fs::read(home.path("other.csv")).unwrap(), before);
    assert!(home.path("soft.csv").symlink_metadata().unwrap().is_symlink());
    // In a directory that holds the pool files have names of their own.
    let partitioned = "COPY (SELECT id % 3 AS part, id FROM t) TO './' STORED AS CSV PARTITIONED BY (part)";
    home.ok(&["sql", "p", partitioned]);
    assert_eq!(fs::read(home.path("p")).unwrap(), before);
    let parts = fs::read_dir(home.directory()).unwrap();
    let parts = parts.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_str().unwrap().starts_with("part=")
    });
    assert_eq!(parts.count(), 3);
    home.ok(&["check", "p"]);
}

#[test]
fn a_failed_copy_leaves_the_file_as_it_was() {
    let home = Home::with_table();
    let names = || {
        let entries = fs::read_dir(home.directory()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    for (file, format) in [
        ("out.csv", "csv"),
        ("out.parquet", "parquet"),
        ("out.json", "json"),
    ] {
        home.write(file, "precious");
        let before = names();
        // The last row fails.
        let copy = format!("COPY (SELECT id, 1000 / (999 - id) AS q FROM t) TO '{file}' STORED AS {format}");
        assert_error(&home.fails(1, &["sql", "p", &copy]), &["zero"]);
        assert_eq!(fs::read(home.path(file)).unwrap(), b"precious", "{format}");
        assert_eq!(names(), before, "{format}");
    }
}

#[test]
fn copy_to_keeps_links_and_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::with_table();
    home.write("real.csv", "old");
    fs::set_permissions(home.path("real.csv"), fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("real.csv", home.path("link.csv")).unwrap();
    home.ok(&["sql", "p", "COPY (SELECT 1 AS one) TO 'link.csv'"]);
    assert!(home.path("link.csv").symlink_metadata().unwrap().is_symlink());
    assert_eq!(fs::read_to_string(home.path("real.csv")).unwrap(), "one\n1\n");
    let mode = fs::metadata(home.path("real.csv")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        home.path("taken.csv"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let copy = "COPY (SELECT 1 AS one) TO 'taken.csv'";
    assert_error(
        &home.fails(1, &["sql", "p", copy]),
        &["taken.csv", "not a regular file"],
    );
}

#[test]
fn a_read_only_session_writes_files_only_if_it_may() {
    let home = Home::with_table();
    let copy = "COPY (SELECT 1 AS one) TO 'out.csv'";
    let refused = ["sql", "p", "--read-only", copy];
    assert_error(&home.fails(1, &refused), &["COPY", "--allow-writing-files"]);
    let external = "CREATE EXTERNAL TABLE e (a int) STORED AS CSV LOCATION 'new-directory/'";
    let _ = home.command(&["sql", "p", "--read-only", external]).assert();
    for file in ["out.csv", "new-directory"] {
        assert!(!home.path(file).exists(), "{file}");
    }
    home.ok(&["sql", "p", "--read-only", "--allow-writing-files", copy]);
    assert_eq!(fs::read_to_string(home.path("out.csv")).unwrap(), "one\n1\n");
    // What is spilled is no file of the user's.
    let sort = "SELECT count(*) AS n FROM (SELECT a.id, row_number() OVER (ORDER BY b.name, a.name, a.id) AS r FROM t a, t b) \
                WHERE r > 0";
    let run = home.ok(&[
        "sql",
        "p",
        "--read-only",
        "--memory",
        "32M",
        "--output",
        "csv",
        sort,
    ]);
    assert_eq!(stdout(&run), "n\n1000000\n");
}
