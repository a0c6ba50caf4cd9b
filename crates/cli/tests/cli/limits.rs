//! Limits of the process and its environment, and Ctrl-C: errors and an orderly end, never an abort.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Home, assert_error, stderr, stdout};

/// Runs the program under limits that a shell sets.
fn limited(home: &Home, limits: &str, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let program = assert_cmd::cargo::cargo_bin("halocline");
    let mut command = assert_cmd::Command::new("sh");
    command
        .current_dir(home.directory())
        .env("TMPDIR", home.directory())
        .args(["-c", &format!("{limits}; exec \"$@\""), "sh"])
        .arg(program)
        .args(arguments);
    command.assert()
}

#[test]
fn wrong_numbers_of_threads_in_the_environment_do_not_matter() {
    let home = Home::with_table();
    for threads in ["0", "many"] {
        let mut command = home.command(&["sql", "p", "SELECT count(*) AS n FROM t", "--output", "csv"]);
        let run = command.env("TOKIO_WORKER_THREADS", threads).assert().success();
        assert_eq!(stdout(&run), "n\n1000\n");
    }
}

#[test]
fn few_open_files_are_an_error() {
    let home = Home::with_table();
    for files in 3..24 {
        let run = limited(
            &home,
            &format!("ulimit -n {files}"),
            &["sql", "p", "SELECT count(*) FROM t"],
        );
        let output = run.get_output();
        let code = output.status.code();
        assert!(
            matches!(code, Some(0 | 1 | 127)),
            "{files}: {:?}, {}",
            output.status,
            stderr(&run)
        );
        assert!(!stderr(&run).contains("panicked"), "{files}: {}", stderr(&run));
    }
}

#[test]
fn a_limit_of_file_sizes_is_an_error() {
    let home = Home::with_table();
    let large = "COPY (SELECT a.* FROM t a, t b LIMIT 500000) TO 'large.csv'";
    assert_error(
        &limited(&home, "ulimit -f 1024", &["sql", "p", large]).code(1),
        &["large.csv", "ulimit -f"],
    );
    let parquet = "COPY (SELECT random() AS x FROM t a, t b) TO 'large.parquet'";
    assert_error(
        &limited(&home, "ulimit -f 1024", &["sql", "p", parquet]).code(1),
        &["large.parquet", "ulimit -f"],
    );
    for file in fs::read_dir(home.directory()).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(["p", "t.csv", "state"].contains(&name.as_str()), "{name} is left");
    }
    let fill = "CREATE TABLE u AS SELECT random() AS x FROM generate_series(1, 3000000)";
    assert_error(
        &limited(&home, "ulimit -f 4096", &["sql", "p", fill]).code(1),
        &["ulimit -f"],
    );
    home.ok(&["check", "p"]);
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM t"), "n\n1000\n");
}

/// Repeats a command that adds something until the pool cannot grow.
fn run_until_full(home: &Home, limit: &str, arguments: &[&str]) {
    let mut runs = (0..40).map(|_| limited(home, limit, arguments));
    let full = runs.find(|run| !run.get_output().status.success());
    assert_error(&full.expect("the pool cannot grow").code(1), &["ulimit -f"]);
}

#[test]
fn a_pool_that_cannot_grow_is_vacuumed() {
    let home = Home::with_table();
    let limit = "ulimit -f 32768";
    home.ok(&["sql", "p", "CREATE TABLE u (x DOUBLE)"]);
    for rows in [300_000, 30_000, 3000] {
        let fill = format!("INSERT INTO u SELECT random() AS x FROM generate_series(1, {rows})");
        run_until_full(&home, limit, &["sql", "p", &fill]);
    }
    // Marks of so many rows do not fit the reserve, those of fewer do.
    let delete = |part: &str| {
        limited(
            &home,
            limit,
            &["sql", "p", &format!("DELETE FROM u WHERE x < {part}")],
        )
    };
    let of_part = "SELECT count(*) AS n FROM u WHERE x < 0.05";
    let before = home.csv("p", of_part);
    assert_error(&delete("0.3").code(1), &["ulimit -f"]);
    assert_eq!(home.csv("p", of_part), before);
    delete("0.05").success();
    assert_eq!(home.csv("p", of_part), "n\n0\n");
    let rows = home.csv("p", "SELECT count(*) AS n FROM u");
    let run = limited(&home, limit, &["vacuum", "p"]).success();
    let said = stdout(&run);
    assert!(
        said.contains("could not be merged") && said.contains("allocated"),
        "{said}"
    );
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM u"), rows);
    home.ok(&["check", "p"]);
}

/// Statements that free space need no free byte, also while another process reads what is dropped.
#[test]
fn a_pool_that_cannot_grow_is_emptied_beside_a_reader() {
    let home = Home::new();
    let limit = "ulimit -f 16384";
    home.ok(&["kv", "p", "create"]);
    home.write(
        "numbers.csv",
        (0..1000).map(|key| format!("{key},7\n")).collect::<String>(),
    );
    home.ok(&["kv", "p", "load", "numbers.csv"]);
    home.ok(&["kv", "p", "create", "--store", "words"]);
    home.ok(&[
        "sql",
        "p",
        "CREATE TABLE u (x DOUBLE); CREATE TABLE k (id bigint PRIMARY KEY, x DOUBLE); \
         INSERT INTO k SELECT i, random() FROM generate_series(1, 10000) AS s(i)",
    ]);
    let pairs = (0..10_000).map(|key| format!("{{\"key\":\"key-{key}\",\"value\":\"{key:01000}\"}}\n"));
    home.write("pairs.jsonl", pairs.collect::<String>());
    run_until_full(
        &home,
        limit,
        &["kv", "p", "--name", "words", "import", "pairs.jsonl"],
    );
    for rows in [100_000, 10_000, 1000] {
        let fill = format!("INSERT INTO u SELECT random() AS x FROM generate_series(1, {rows})");
        run_until_full(&home, limit, &["sql", "p", &fill]);
    }
    let mut reader = Command::new(assert_cmd::cargo::cargo_bin("halocline"))
        .current_dir(home.directory())
        .args(["sql", "p", "--read-only", "--output", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = reader.stdin.take().unwrap();
    let mut answers = BufReader::new(reader.stdout.take().unwrap()).lines();
    let mut counts = |queries: &str| -> Vec<String> {
        input.write_all(queries.as_bytes()).unwrap();
        let lines = queries.matches("SELECT").count() * 2;
        answers.by_ref().take(lines).map(Result::unwrap).collect()
    };
    let count = "SELECT count(*) AS n FROM u;\n";
    let seen = counts(&format!("BEGIN; SELECT count(*) AS n FROM k; {count}"));
    assert_eq!(seen[..3], ["n", "10000", "n"]);
    for arguments in [
        &["kv", "p", "del", "17"][..],
        &["kv", "p", "--name", "words", "del", "key-17"],
        &["sql", "p", "DELETE FROM k WHERE id < 1000"],
        &["kv", "p", "--name", "words", "drop"],
        &["kv", "p", "drop"],
        &["sql", "p", "DROP TABLE u"],
        &["sql", "p", "DROP TABLE k"],
    ] {
        limited(&home, limit, arguments).success();
    }
    assert_eq!(counts(count), seen[2..], "the reader has its snapshot");
    assert_eq!(counts("ROLLBACK;\n"), [""; 0]);
    drop(input);
    assert!(reader.wait().unwrap().success());
    home.ok(&["check", "p"]);
    // Their space is free.
    let fill = "CREATE TABLE v AS SELECT random() AS x FROM generate_series(1, 300000)";
    limited(&home, limit, &["sql", "p", fill]).success();
    home.ok(&["check", "p"]);
}

/// Four GiB of addresses.
const ADDRESSES: &str = "ulimit -v 4194304";

#[test]
fn a_limit_of_addresses_leaves_room_for_small_pools() {
    let home = Home::with_table();
    let sum = [
        "sql",
        "p",
        "SELECT count(*) AS n, sum(id) AS s FROM t",
        "--output",
        "csv",
    ];
    assert_eq!(
        stdout(&limited(&home, ADDRESSES, &sum).success()),
        "n,s\n1000,499500\n"
    );
    let fill = "CREATE TABLE u AS SELECT random() AS x FROM generate_series(1, 300000)";
    limited(&home, ADDRESSES, &["sql", "p", fill]).success();
    // The budget is a part of what the limit leaves, whatever DRAM the machine has.
    let show = ["sql", "p", "SHOW halocline.memory", "--output", "csv"];
    let text = stdout(&limited(&home, ADDRESSES, &show).success());
    let budget = text.trim().rsplit(',').next().unwrap();
    let (number, unit) = budget.split_at(budget.find(|c: char| !c.is_ascii_digit()).unwrap());
    let bytes = number.parse::<u64>().unwrap()
        << match unit {
            "KiB" => 10,
            "MiB" => 20,
            other => panic!("{other} in {text}"),
        };
    assert!((1..=1 << 30).contains(&bytes), "{text}");
    home.ok(&["check", "p"]);
}

#[test]
fn a_pool_that_the_limit_of_addresses_has_no_room_for_is_an_error() {
    let home = Home::with_table();
    // A hole, which takes no space.
    let file = File::options().write(true).open(home.path("p")).unwrap();
    file.set_len(16 << 30).unwrap();
    drop(file);
    for arguments in [
        &["sql", "p", "SELECT count(*) FROM t"][..],
        &["sql", "p", "SELECT count(*) FROM t", "--read-only"],
        &["import", "p", "u", "t.csv"],
        &["info", "p"],
        &["check", "p"],
        &["kv", "p", "list"],
        &["vacuum", "p"],
    ] {
        let run = limited(&home, ADDRESSES, arguments).code(1);
        assert_error(&run, &["cannot allocate", "ulimit -v"]);
    }
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM t"), "n\n1000\n");
}

/// More rows than fit 32 MiB, so that they are spilled.
const SPILLING: &str = "SELECT count(*) AS n FROM (SELECT a.id, row_number() OVER (ORDER BY b.price, a.id, b.id) AS r \
                        FROM t a, t b) WHERE r > 0";

#[test]
fn temporary_files_that_cannot_be_written_are_an_error_that_names_the_directory() {
    let home = Home::with_table();
    let query = ["sql", "p", "--memory", "32M", "--output", "csv", SPILLING];
    let directory = home.directory().to_str().unwrap();
    let elsewhere = home.directory().join("none");
    let elsewhere = [&query[..], &["--temp-directory", elsewhere.to_str().unwrap()]].concat();
    for (limits, query) in [("ulimit -f 64", &query[..]), ("true", &elsewhere)] {
        let run = limited(&home, limits, query).code(1);
        assert_error(
            &run,
            &["temporary files in", directory, "--temp-directory", "--memory"],
        );
    }
    assert_eq!(stdout(&home.ok(&query)), "n\n1000000\n");
    for file in fs::read_dir(home.directory()).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(!name.starts_with('.'), "{name} is left");
    }
}

#[test]
fn numbers_of_threads_beyond_reason_are_bounded() {
    let home = Home::with_table();
    let group = "SET halocline.index = force; SELECT day, count(*) AS n FROM t WHERE id < 28 GROUP BY day ORDER BY day LIMIT 1";
    let threads = ["--threads", "1024"];
    home.ok(&[&["index", "p", "t", "--on", "id"], &threads[..]].concat());
    let run = home.ok(&[&["sql", "p", "--output", "csv", group], &threads[..]].concat());
    assert_eq!(stdout(&run), "day,n\n2026-01-01,1\n");
    for arguments in [
        ["--threads", "4000000000"],
        ["--threads", "1025"],
        ["--repeat", "2000000"],
        ["--lock-wait", "9weeks"],
    ] {
        let refused = home.fails(2, &[&["sql", "p", group], &arguments[..]].concat());
        assert_error(&refused, &[arguments[0], arguments[1]]);
    }
    let set = "SET datafusion.execution.target_partitions = 4000000000";
    assert_error(&home.fails(1, &["sql", "p", set]), &["target_partitions", "1024"]);
}

#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    let home = Home::new();
    home.ok(&["sql", "p", "--create", "SELECT 1"]);
    for output in ["csv", "json", "table"] {
        let rows = "SELECT i FROM generate_series(1, 1000000) AS g(i)";
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("halocline"))
            .current_dir(home.directory())
            .args(["sql", "p", rows, "--output", output, "--max-rows", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 1];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let done = child.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{output}");
        assert_eq!(String::from_utf8(done.stderr).unwrap(), "", "{output}");
    }
}

#[test]
fn a_pipe_is_no_pool() {
    let home = Home::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        home.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    for arguments in [
        &["info", "pipe"][..],
        &["sql", "pipe", "SELECT 1"],
        &["check", "pipe"],
        &["kv", "pipe", "get", "1"],
    ] {
        assert_error(&home.fails(1, arguments), &["not a regular file"]);
    }
}

/// The joins would take hours, and no operator of them gives way on its own for long.
#[test]
fn an_interrupted_join_ends() {
    let home = Home::new();
    home.ok(&[
        "sql",
        "p",
        "CREATE TABLE t AS SELECT i % 2 AS k, i FROM generate_series(1, 200000) AS g(i)",
    ]);
    for query in [
        "SELECT count(*) FROM t a JOIN t b ON a.k = b.k JOIN t c ON b.k = c.k",
        "SELECT count(*) FROM t a, t b, t c WHERE a.i + b.i > c.i",
        "CREATE TABLE u AS SELECT a.i FROM t a JOIN t b ON a.k = b.k JOIN t c ON b.k = c.k",
    ] {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("halocline"))
            .current_dir(home.directory())
            .args(["sql", "p", query])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Half a second of work: the join has begun.
        while used_ticks(child.id()) < 50 {
            std::thread::yield_now();
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(130), "{query}");
        let mut text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(text.contains("interrupted"), "{text}");
        home.ok(&["check", "p"]);
    }
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM t"), "n\n200000\n");
}

/// Ticks of the processors that a process has used.
fn used_ticks(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn ctrl_c_ends_a_memcached_server_in_order() {
    let home = Home::new();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("halocline"))
        .current_dir(home.directory())
        .args(["memcached", "p", "-s", "socket"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains("listening on"), "{line}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(done.stderr).unwrap(), "");
    assert!(done.status.success(), "{:?}", done.status);
}
