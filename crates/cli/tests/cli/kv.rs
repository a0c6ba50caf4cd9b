//! Trees of a pool from the shell.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use halocline_ordered::{TreeKind, create_tree, open_tree, open_tree_read_only};
use halocline_pool::{Pool, PoolOptions};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Home, assert_error, stdout};

fn home_with_tree() -> Home {
    let home = Home::new();
    home.ok(&["kv", "p", "create"]);
    home
}

fn scan(home: &Home, arguments: &[&str]) -> String {
    let all = [&["kv", "p", "scan", "--output", "csv"], arguments].concat();
    stdout(&home.ok(&all))
}

#[test]
fn entries_are_put_read_and_removed() {
    let home = home_with_tree();
    assert_eq!(stdout(&home.ok(&["kv", "p", "put", "17", "42"])), "17: 42\n");
    assert_eq!(
        stdout(&home.ok(&["kv", "p", "put", "17", "43"])),
        "17: 43, before 42\n"
    );
    home.ok(&["kv", "p", "put", "18446744073709551615", "1"]);
    let text = stdout(&home.ok(&["kv", "p", "get", "17"]));
    assert!(text.contains("43") && text.contains("1 row"), "{text}");
    let text = stdout(&home.ok(&["kv", "p", "get", "17", "--output", "json"]));
    assert_eq!(text, "{\"key\":17,\"value\":43}\n");
    assert_eq!(scan(&home, &[]), "key,value\n17,43\n18446744073709551615,1\n");
    assert_eq!(
        stdout(&home.ok(&["kv", "p", "del", "17"])),
        "17: removed, was 43\n"
    );
    assert_eq!(scan(&home, &[]), "key,value\n18446744073709551615,1\n");
}

#[test]
fn a_missing_key_has_an_exit_code_of_its_own() {
    let home = home_with_tree();
    home.ok(&["kv", "p", "put", "5", "50"]);
    let run = home.fails(3, &["kv", "p", "get", "4", "5", "6", "--output", "csv"]);
    assert_error(&run, &["no entry with key 4, 6"]);
    assert_eq!(stdout(&run), "key,value\n5,50\n", "what is there is shown");
    assert_error(&home.fails(3, &["kv", "p", "del", "4"]), &["no entry with key 4"]);
}

#[test]
fn every_kind_of_tree_lives_beside_tables() {
    let home = Home::with_table();
    for (number, kind) in TreeKind::ALL.iter().enumerate() {
        let number = number.to_string();
        home.ok(&["kv", "p", "create", kind.name(), "--tree", kind.name()]);
        home.ok(&["kv", "p", "--name", kind.name(), "put", &number, "7"]);
    }
    let text = stdout(&home.ok(&["info", "p"]));
    let info: serde_json::Value = serde_json::from_str(&stdout(&home.ok(&["info", "p", "--json"]))).unwrap();
    assert_eq!(info["trees"].as_array().unwrap().len(), TreeKind::ALL.len());
    for (number, kind) in TreeKind::ALL.iter().enumerate() {
        assert!(
            text.contains(&format!("tree {kind}: {kind}, 1 entry, ")),
            "{text}"
        );
        let value = home.ok(&[
            "kv",
            "p",
            "get",
            &number.to_string(),
            "--output",
            "csv",
            "--name",
            kind.name(),
        ]);
        assert_eq!(stdout(&value), format!("key,value\n{number},7\n"));
    }
    home.csv("p", "INSERT INTO t (id) VALUES (5000)");
    home.ok(&["vacuum", "p"]);
    let text = stdout(&home.ok(&["check", "p"]));
    let trees = format!("1 table, 0 indexes, {} trees", TreeKind::ALL.len());
    assert!(text.contains(&trees), "{text}");
    home.ok(&["kv", "p", "--name", "lb", "drop"]);
    assert!(!stdout(&home.ok(&["info", "p"])).contains("tree lb:"));
    assert_eq!(home.csv("p", "SELECT count(*) AS n FROM t"), "n\n1001\n");
}

#[test]
fn ranges_are_scanned_both_ways() {
    let home = home_with_tree();
    let lines = (0..3000).map(|key| format!("{} {}\n", key * 2, key));
    home.write("numbers", lines.collect::<String>());
    home.ok(&["kv", "p", "load", "numbers"]);
    assert_eq!(
        scan(&home, &["--from", "3", "--to", "6"]),
        "key,value\n4,2\n6,3\n"
    );
    let down = scan(&home, &["--from", "3", "--to", "9", "--reverse", "--limit", "2"]);
    assert_eq!(down, "key,value\n8,4\n6,3\n");
    assert_eq!(scan(&home, &["--from", "9", "--to", "3"]), "key,value\n");
    assert_eq!(scan(&home, &[]).lines().count(), 3001);
    let text = stdout(&home.ok(&["kv", "p", "scan"]));
    assert!(text.contains("3,000 rows, the first 1,000 shown"), "{text}");
}

#[test]
fn files_are_loaded_in_bulk_as_long_as_keys_ascend() {
    let home = home_with_tree();
    home.write("a.csv", "key,value\n1,10\n2,20\n\n5,50\n3,30\n5,51\n");
    home.write("b", "7\t70\n");
    let text = stdout(&home.ok(&["kv", "p", "load", "a.csv", "b", "--fill", "0.5"]));
    assert!(
        text.starts_with("tree kv: 5 entries added (3 of them in bulk), 1 replaced"),
        "{text}"
    );
    let all = "key,value\n1,10\n2,20\n3,30\n5,51\n7,70\n";
    assert_eq!(scan(&home, &[]), all);
    let copy = ["kv", "q", "create", "--tree", "lb4"];
    home.ok(&copy);
    let load = home
        .command(&["kv", "q", "load", "-"])
        .write_stdin(all)
        .assert()
        .success();
    assert!(stdout(&load).contains("5 of them in bulk"), "{}", stdout(&load));
    let text = stdout(&home.ok(&["kv", "q", "stats"]));
    assert!(text.starts_with("entries  5\n"), "{text}");
    let text = stdout(&home.ok(&["kv", "q", "stats", "--output", "json"]));
    let stats: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(stats["entries"], 5);
    assert!(stats["slow_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn statistics_of_hot_keys() {
    let home = home_with_tree();
    let lines: String = (0..1000).map(|key| format!("{key},{key}\n")).collect();
    home.write("numbers.csv", lines);
    home.ok(&["kv", "p", "load", "numbers.csv"]);
    let keys: String = (0..9000).map(|key| format!("{}\n", key % 3 * 500)).collect();
    home.write("keys", &keys);
    let stats = ["kv", "p", "stats", "--lookups", "keys", "--hot", "1MiB"];
    let text = stdout(&home.ok(&stats));
    assert!(text.starts_with("lookups     9,000, 6,000 found\n"), "{text}");
    for mode in ["adaptive", "published"] {
        let more = ["--hot-mode", mode, "--output", "json"];
        let text = stdout(&home.ok(&[&stats[..], &more[..]].concat()));
        let seen: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (seen["lookups"].as_u64(), seen["found"].as_u64()),
            (Some(9000), Some(6000))
        );
        assert!(seen["dram_bytes"].as_u64().unwrap() <= 1 << 20, "{text}");
        assert!(seen["cached_entries"].as_u64().unwrap() <= 2, "{text}");
    }
    home.write("keys", "key\n5\nsix\n");
    assert_error(
        &home.fails(1, &stats),
        &["keys:3: `six` is not a key", "whole number"],
    );
    assert_error(
        &home.fails(1, &["kv", "p", "stats", "--lookups", "keys", "--hot", "8"]),
        &["--hot"],
    );
    home.ok(&["kv", "p", "--name", "s", "create", "--store"]);
    let of_store = ["kv", "p", "--name", "s", "stats", "--lookups", "keys"];
    assert_error(&home.fails(2, &of_store), &["--lookups is for trees"]);
}

#[test]
fn a_bad_line_is_named_and_what_was_before_it_stays() {
    for (text, line) in [
        ("1,10\n2,20\nthree,30\n", 3),
        ("2,20\n1,10\n4\n", 3),
        ("1,10\n2,20\n-3,5\n", 3),
        ("1,10\n2,20\n3,18446744073709551616\n", 3),
        ("key,value\n1,10\n2,20\nkey,value\n", 4),
        ("1,10\n2,20\n\u{1f}\n", 3),
    ] {
        let home = home_with_tree();
        home.write("bad.csv", text);
        let run = home.fails(1, &["kv", "p", "load", "bad.csv"]);
        assert_error(
            &run,
            &[
                &format!("bad.csv:{line}: "),
                "KEY,VALUE",
                "2 entries before that are stored",
            ],
        );
        assert_eq!(scan(&home, &[]), "key,value\n1,10\n2,20\n");
    }
    let home = home_with_tree();
    home.write("long", vec![b'1'; 100_000]);
    assert_error(&home.fails(1, &["kv", "p", "load", "long"]), &["long:1: "]);
    home.write("binary", [0xff, 0xfe, b'\n']);
    assert_error(&home.fails(1, &["kv", "p", "load", "binary"]), &["binary:1: "]);
    assert_error(
        &home.fails(1, &["kv", "p", "load", "long", "none"]),
        &["none cannot be read"],
    );
}

#[test]
fn a_large_load_of_shuffled_keys_is_whole() {
    let home = home_with_tree();
    let (mut text, mut sorted) = (String::new(), String::from("key,value\n"));
    for number in 0..20_000_u64 {
        writeln!(text, "{},{number}", number * 7919 % 20_011).unwrap();
    }
    let mut entries: Vec<_> = (0..20_000_u64)
        .map(|number| (number * 7919 % 20_011, number))
        .collect();
    entries.sort_unstable();
    for (key, value) in entries {
        writeln!(sorted, "{key},{value}").unwrap();
    }
    home.write("shuffled.csv", text);
    home.ok(&["kv", "p", "load", "shuffled.csv"]);
    assert!(scan(&home, &[]) == sorted);
    let text = stdout(&home.ok(&["kv", "p", "check"]));
    assert!(text.contains("no damage found; 20,000 entries in "), "{text}");
}

#[test]
fn what_is_missing_is_named_with_what_makes_it() {
    let home = Home::with_table();
    assert_error(
        &home.fails(1, &["kv", "none", "get", "1"]),
        &["there is no pool none", "hint: `halocline kv none create`"],
    );
    assert!(!home.path("none").exists());
    assert_error(
        &home.fails(1, &["kv", "p", "get", "1"]),
        &["p has no tree or store kv", "hint: `halocline kv p create`"],
    );
    home.ok(&["kv", "p", "create", "prices"]);
    assert_error(
        &home.fails(1, &["kv", "p", "--name", "stock", "get", "1"]),
        &[
            "no tree or store stock; it has prices",
            "kv p --name stock create",
        ],
    );
    assert_error(
        &home.fails(1, &["kv", "p", "create", "prices"]),
        &["prices", "kv POOL drop"],
    );
    home.write("text", "this is no pool");
    assert_error(&home.fails(1, &["kv", "text", "get", "1"]), &["not a pool"]);
}

#[test]
fn trees_of_other_programs_are_found_by_their_names() {
    let home = Home::new();
    let pool = Pool::create(home.path("p"), &PoolOptions::default()).unwrap();
    let tree = create_tree(&pool, "numbers", TreeKind::Lb).unwrap();
    tree.insert(1, 2).unwrap();
    let run = home.ok(&["info", "p"]);
    assert!(
        stdout(&run).contains("tree numbers: lb, not opened ("),
        "{}",
        stdout(&run)
    );
    let run = home.fails(1, &["check", "p"]);
    assert!(
        stdout(&run).contains("not checked: tree numbers: "),
        "{}",
        stdout(&run)
    );
    drop(tree);
    pool.close().unwrap();
    let run = home.ok(&["kv", "p", "--name", "numbers", "get", "1", "--output", "csv"]);
    assert_eq!(stdout(&run), "key,value\n1,2\n");
}

#[test]
fn another_process_waits_for_the_tree() {
    let home = home_with_tree();
    let pool = Pool::open(home.path("p"), &PoolOptions::default()).unwrap();
    let tree = open_tree(&pool, "tree/kv").unwrap();
    assert_error(
        &home.fails(1, &["kv", "p", "put", "1", "2"]),
        &[&format!("is open in process {}", std::process::id())],
    );
    drop(tree);
    let writing = pool.begin().unwrap();
    assert_error(
        &home.fails(1, &["kv", "p", "create", "other"]),
        &["being written"],
    );
    home.ok(&["kv", "p", "put", "1", "2"]);
    drop(writing);
    home.ok(&["kv", "p", "create", "other"]);
}

#[test]
fn trees_are_read_beside_other_readers() {
    let home = home_with_tree();
    home.ok(&["kv", "p", "put", "1", "2"]);
    let read_only = PoolOptions::default().with_read_only(true);
    let pool = Pool::open(home.path("p"), &read_only).unwrap();
    let tree = open_tree_read_only(&pool, "tree/kv").unwrap();
    let run = home.ok(&["kv", "p", "get", "1", "--output", "csv"]);
    assert_eq!(stdout(&run), "key,value\n1,2\n");
    assert_eq!(scan(&home, &[]), "key,value\n1,2\n");
    for arguments in [
        &["kv", "p", "stats"][..],
        &["kv", "p", "check"],
        &["check", "p"],
        &["info", "p"],
    ] {
        let text = stdout(&home.ok(arguments));
        assert!(
            !text.contains("not checked") && !text.contains("not opened"),
            "{text}"
        );
    }
    assert_error(
        &home.fails(1, &["kv", "p", "put", "1", "3"]),
        &[&format!("is open in process {}", std::process::id())],
    );
    assert_eq!(tree.get(1).unwrap(), Some(2));
}

#[test]
fn damage_is_found_and_named() {
    let home = home_with_tree();
    let lines: String = (0..1000).map(|key| format!("{key},{key}\n")).collect();
    home.write("sorted.csv", lines);
    home.ok(&["kv", "p", "load", "sorted.csv"]);
    let at = {
        let pool = Pool::open(home.path("p"), &PoolOptions::default()).unwrap();
        let object = pool.snapshot().unwrap().object("tree/kv").unwrap();
        // An entry of a leaf, in its second line.
        object.extent_ref(0).offset + 4096 + 10 * 256 + 64
    };
    let file = OpenOptions::new().write(true).open(home.path("p")).unwrap();
    file.write_all_at(&[0x55; 8], at).unwrap();
    for arguments in [&["kv", "p", "check"][..], &["check", "p"]] {
        let run = home.fails(1, arguments);
        assert_error(&run, &["damaged", "hint: "]);
        assert!(stdout(&run).contains("damaged: "), "{}", stdout(&run));
    }
}

#[test]
fn ctrl_c_ends_a_load_and_what_was_read_is_stored() {
    let home = home_with_tree();
    let program = assert_cmd::cargo::cargo_bin("halocline");
    let mut child = Command::new(program)
        .current_dir(home.directory())
        .args(["kv", "p", "load", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It has begun once it has the tree open.
    let pool = Pool::open(home.path("p"), &PoolOptions::default()).unwrap();
    while open_tree(&pool, "tree/kv").is_ok() {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut key = 0_u64;
    while writeln!(input, "{key},{key}").is_ok() {
        key += 1;
    }
    drop(pool);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("error: interrupted"), "{text}");
    let entries = scan(&home, &[]).lines().count() - 1;
    assert!(entries > 0, "{text}");
    let stored: String = text.chars().filter(|c| *c != ',').collect();
    assert!(
        stored.contains(&format!("{entries} entries are stored; ")),
        "{text}"
    );
}

#[test]
fn trees_may_be_read_as_from_another_medium_and_strictly() {
    let home = home_with_tree();
    home.ok(&["kv", "p", "--strict", "put", "1", "2"]);
    let run = home.ok(&[
        "kv",
        "p",
        "get",
        "1",
        "--output",
        "csv",
        "--medium",
        "emulated:optane:virtual",
    ]);
    assert_eq!(stdout(&run), "key,value\n1,2\n");
    home.fails(2, &["kv", "p", "get", "1", "--medium", "optane"]);
}
