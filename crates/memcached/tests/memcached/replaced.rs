//! The pool of a running server is deleted, moved or replaced: no item is acknowledged that nobody would find
//! again.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::process::{ServerProcess, connect};

/// Time after which a set must be refused; the documented bound is much less.
const LONG: Duration = Duration::from_secs(30);

/// Something that happens to the file of an open pool.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    Deleted,
    Moved,
    Replaced,
}

#[test]
fn sets_end_when_the_pool_is_gone() {
    for change in [Change::Deleted, Change::Moved, Change::Replaced] {
        for options in [&[][..], &["--tree", "lb"]] {
            sets_end(change, options);
        }
    }
}

fn sets_end(change: Change, options: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let mut process = ServerProcess::start(directory.path(), options);
    let mut client = connect(directory.path());
    client.talk("set a 0 0 1\r\na\r\n", "STORED\r\n");
    let pool = directory.path().join("cache.pool");
    let saved = directory.path().join("saved");
    match change {
        Change::Deleted => fs::remove_file(&pool).unwrap(),
        Change::Moved => fs::rename(&pool, &saved).unwrap(),
        Change::Replaced => {
            fs::rename(&pool, &saved).unwrap();
            fs::copy(&saved, &pool).unwrap();
        }
    }
    let begun = Instant::now();
    let mut reply = String::from("STORED");
    while reply == "STORED" && begun.elapsed() < LONG {
        client.send(b"set b 0 0 1\r\nb\r\n");
        reply = client.line();
    }
    assert!(
        reply.starts_with("SERVER_ERROR"),
        "{change:?} {options:?}: {reply}"
    );
    client.talk("get a\r\n", "VALUE a 0 1\r\na\r\nEND\r\n");
    if change != Change::Deleted {
        // Once the file is back, items are stored again.
        fs::rename(&saved, &pool).unwrap();
        client.talk("set c 0 0 1\r\nc\r\n", "STORED\r\n");
        client.talk("get c\r\n", "VALUE c 0 1\r\nc\r\nEND\r\n");
    }
    process.kill();
}
