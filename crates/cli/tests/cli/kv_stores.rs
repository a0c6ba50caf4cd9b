//! Stores of a pool from the shell.

use std::fs;

use halocline_pool::{Pool, PoolOptions};
use halocline_store::Stores;

use crate::common::{Home, assert_error, stdout};

fn home_with_store() -> Home {
    let home = Home::new();
    let text = stdout(&home.ok(&["kv", "p", "create", "--store"]));
    assert_eq!(text, "store kv: empty, in p\n");
    home
}

/// Feeds what one command writes to another, and returns what that writes.
fn pipe(home: &Home, from: &[&str], to: &[&str]) -> String {
    let text = stdout(&home.ok(from));
    stdout(&home.command(to).write_stdin(text).assert().success())
}

fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn entries_are_put_read_and_removed() {
    let home = home_with_store();
    assert_eq!(
        stdout(&home.ok(&["kv", "p", "put", "user/17", "logged in"])),
        "user/17: 9 bytes\n"
    );
    home.ok(&["kv", "p", "put", "user/2", ""]);
    home.ok(&["kv", "p", "put", "other", "x", "--ttl", "2h"]);
    home.ok(&["kv", "p", "put", "gone", "x", "--ttl", "0s"]);
    let got = stdout(&home.ok(&["kv", "p", "get", "user/17", "user/2", "--output", "csv"]));
    assert_eq!(got, "key,value,expires\nuser/17,logged in,\nuser/2,\"\",\n");
    assert_eq!(
        stdout(&home.ok(&["kv", "p", "get", "user/17", "--raw"])),
        "logged in"
    );
    let prefix = stdout(&home.ok(&["kv", "p", "scan", "--prefix", "user/", "--reverse", "-o", "json"]));
    let keys: Vec<_> = json_lines(&prefix)
        .iter()
        .map(|line| line["key"].to_string())
        .collect();
    assert_eq!(keys, ["\"user/2\"", "\"user/17\""]);
    let range =
        json_lines(&stdout(&home.ok(&[
            "kv", "p", "scan", "--from", "o", "--to", "user/17", "-o", "json",
        ])));
    assert_eq!(range.len(), 2);
    assert!(
        range[0]["expires"].is_string() && range[1]["expires"].is_null(),
        "{range:?}"
    );
    assert_eq!(
        stdout(&home.ok(&["kv", "p", "del", "user/17"])),
        "user/17: removed\n"
    );
    assert_error(
        &home.fails(3, &["kv", "p", "del", "user/17"]),
        &["no entry with key user/17"],
    );
    assert_error(
        &home.fails(3, &["kv", "p", "get", "gone"]),
        &["no entry with key gone"],
    );
}

#[test]
fn any_bytes_are_written_in_hex_and_base64() {
    let home = home_with_store();
    home.ok(&[
        "kv", "p", "--keys", "hex", "--values", "base64", "put", "00ff", "AP8=",
    ]);
    let error = home.fails(1, &["kv", "p", "scan"]);
    assert_error(&error, &["a key is not UTF-8", "00ff", "--keys hex"]);
    let got = stdout(&home.ok(&["kv", "p", "--keys", "hex", "--values", "hex", "scan", "-o", "csv"]));
    assert_eq!(got, "key,value,expires\n00ff,00ff,\n");
    let run = home.fails(2, &["kv", "p", "--keys", "hex", "get", "xyz"]);
    assert_error(&run, &["`xyz` is not hexadecimal"]);
    home.write("value", "two\nlines");
    home.ok(&["kv", "p", "put", "file", "--file", "value"]);
    assert_eq!(
        stdout(&home.ok(&["kv", "p", "get", "file", "--raw"])),
        "two\nlines"
    );
}

#[test]
fn exports_are_imported_again() {
    let home = home_with_store();
    let pool = Pool::open(home.path("p"), &PoolOptions::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let store = stores.store("kv").unwrap();
    store.put("text", "a, \"b\"\r\nc").unwrap();
    store.put("empty", "").unwrap();
    store.put("", "of the empty key").unwrap();
    store.put([0xFF, 0], [0x80; 3]).unwrap();
    let hour = std::time::Duration::from_secs(3600);
    store.put_with_ttl("short-lived", "x", hour).unwrap();
    for number in 0..3000 {
        store.put(format!("n{number}"), number.to_string()).unwrap();
    }
    let pairs = |store: &halocline_store::Store| -> Vec<_> {
        store.scan::<&str>(..).with_expiry().map(Result::unwrap).collect()
    };
    let expected = pairs(&store);
    drop((store, stores, pool));
    home.ok(&["kv", "p", "export", "all.jsonl"]);
    assert_error(
        &home.fails(1, &["kv", "p", "export", "all.jsonl"]),
        &["all.jsonl exists"],
    );
    let encoded = ["--keys", "hex", "--values", "base64"];
    home.ok(&[&["kv", "p", "export", "all.csv"], &encoded[..]].concat());
    assert_error(
        &home.fails(1, &["kv", "p", "export", "text.csv"]),
        &["not UTF-8", "--keys hex"],
    );
    let names = fs::read_dir(home.directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let part = names
        .into_iter()
        .find(|name| name.to_str().unwrap().ends_with(".part"));
    assert_eq!(part, None, "what is unfinished is removed");
    for file in ["all.jsonl", "all.csv"] {
        home.ok(&["kv", "copy", "create", "--store", file]);
        let text = stdout(&home.ok(&["kv", "copy", "--name", file, "import", file]));
        assert!(text.contains("3,005 entries written"), "{text}");
        let pool = Pool::open(home.path("copy"), &PoolOptions::default()).unwrap();
        let stores = Stores::open(&pool).unwrap();
        assert_eq!(pairs(&stores.existing(file).unwrap()), expected, "{file}");
    }
    let through = pipe(
        &home,
        &["kv", "p", "export"],
        &[
            "kv", "copy", "--name", "all.csv", "import", "-", "--format", "jsonl",
        ],
    );
    assert!(through.contains("3,005 entries"), "{through}");
}

#[test]
fn files_of_others_are_imported_and_bad_lines_are_named() {
    let home = home_with_store();
    home.write("plain.csv", "ada,1\n\"bob, jr\",\"2\n3\"\n");
    home.ok(&["kv", "p", "import", "plain.csv"]);
    let got = stdout(&home.ok(&["kv", "p", "get", "bob, jr", "--raw"]));
    assert_eq!(got, "2\n3");
    for (name, text, reasons) in [
        (
            "a.csv",
            "key,value\nada,9\nada\n",
            ["a.csv:3", "1 columns instead of 2"],
        ),
        (
            "b.csv",
            "key,value,expires\nada,9,soon\n",
            ["b.csv:2", "`expires`"],
        ),
        (
            "c.jsonl",
            "{\"key\":\"ada\",\"value\":\"9\"}\n{\"key\":3,\"value\":\"\"}\n",
            ["c.jsonl:2", "`key` must be a string"],
        ),
        ("d.csv", "key_hex,value\nzz,9\n", ["d.csv:2", "hexadecimal"]),
    ] {
        home.write(name, text);
        assert_error(&home.fails(1, &["kv", "p", "import", name]), &reasons);
    }
    assert_eq!(
        stdout(&home.ok(&["kv", "p", "get", "ada", "--raw"])),
        "9",
        "lines before stay"
    );
    home.write("old.jsonl", "{\"key\":\"ada\",\"value\":\"x\",\"expires\":5}\n");
    let text = stdout(&home.ok(&["kv", "p", "import", "old.jsonl"]));
    assert!(text.contains("0 entries written, 1 that have expired"), "{text}");
    home.fails(3, &["kv", "p", "get", "ada"]);
    home.write("quote.csv", format!("a,\"{}", "x".repeat(7 << 20)));
    assert_error(
        &home.fails(1, &["kv", "p", "import", "quote.csv"]),
        &["quote.csv:", "longer than any pair"],
    );
}

#[test]
fn stores_are_listed_checked_and_dropped() {
    let home = Home::with_table();
    home.ok(&["kv", "p", "create", "numbers"]);
    home.ok(&["kv", "p", "create", "--store", "words"]);
    home.ok(&["kv", "p", "--name", "words", "put", "a", "b"]);
    home.csv("p", "CREATE TABLE keyed (id INT PRIMARY KEY)");
    let list = stdout(&home.ok(&["kv", "p", "list", "-o", "csv"]));
    assert_eq!(list, "name,kind,entries\nnumbers,lb,0\nwords,store,1\n");
    let text = stdout(&home.ok(&["info", "p"]));
    assert!(text.contains("store words: 1 key, "), "{text}");
    let info: serde_json::Value = serde_json::from_str(&stdout(&home.ok(&["info", "p", "--json"]))).unwrap();
    assert_eq!(info["stores"][0]["keys"], 1);
    let text = stdout(&home.ok(&["check", "p"]));
    assert!(text.contains("1 tree, 3 stores"), "{text}");
    let text = stdout(&home.ok(&["kv", "p", "--name", "words", "check"]));
    assert!(text.contains("no damage found"), "{text}");
    let stats = stdout(&home.ok(&["kv", "p", "--name", "words", "stats", "-o", "json"]));
    assert_eq!(json_lines(&stats)[0]["keys"], 1);
    for name in ["words", "numbers"] {
        let run = home.fails(1, &["kv", "p", "create", "--store", name]);
        assert_error(&run, &["already"]);
    }
    let run = home.fails(1, &["kv", "p", "--name", "sql/tables", "put", "a", "b"]);
    assert_error(&run, &["belongs to SQL"]);
    let run = home.fails(1, &["kv", "p", "--name", "lost", "get", "a"]);
    assert_error(
        &run,
        &["no tree or store lost; it has numbers, words", "create --store"],
    );
    for option in [["--ttl", "1s"], ["--keys", "hex"]] {
        let run = home.fails(
            2,
            &[&["kv", "p", "--name", "numbers", "put", "1", "2"], &option[..]].concat(),
        );
        assert_error(&run, &["is for stores"]);
    }
    assert_error(
        &home.fails(2, &["kv", "p", "--name", "numbers", "get", "x"]),
        &["`x` is no key of a tree"],
    );
    home.ok(&["kv", "p", "--name", "words", "drop"]);
    assert_eq!(
        stdout(&home.ok(&["kv", "p", "list", "-o", "csv"])),
        "name,kind,entries\nnumbers,lb,0\n"
    );
}

#[test]
fn trees_are_exported_too() {
    let home = Home::new();
    home.ok(&["kv", "p", "create"]);
    home.write("in.jsonl", "{\"key\":2,\"value\":7}\n{\"key\":1,\"value\":8}\n");
    home.ok(&["kv", "p", "import", "in.jsonl"]);
    assert_eq!(
        stdout(&home.ok(&["kv", "p", "export", "--format", "csv"])),
        "key,value\n1,8\n2,7\n"
    );
    home.ok(&["kv", "q", "create"]);
    pipe(&home, &["kv", "p", "export"], &["kv", "q", "import", "-"]);
    assert_eq!(
        stdout(&home.ok(&["kv", "q", "export"])),
        "{\"key\":1,\"value\":8}\n{\"key\":2,\"value\":7}\n"
    );
}

#[test]
fn another_process_waits_for_the_stores() {
    let home = home_with_store();
    home.ok(&["kv", "p", "put", "a", "1"]);
    let pool = Pool::open(home.path("p"), &PoolOptions::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    assert_error(
        &home.fails(1, &["kv", "p", "put", "a", "2"]),
        &[&format!("is open in process {}", std::process::id())],
    );
    // Readers do not wait.
    assert_eq!(stdout(&home.ok(&["kv", "p", "get", "a", "--raw"])), "1");
    drop(stores);
    home.ok(&["kv", "p", "put", "a", "2"]);
    assert_eq!(stdout(&home.ok(&["kv", "p", "get", "a", "--raw"])), "2");
}
