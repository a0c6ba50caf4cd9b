//! The pool of a running server is replaced: no item is acknowledged that nobody would find again.

mod support;

use std::fs;
use std::time::{Duration, Instant};

use support::process::{ServerProcess, connect};

/// Time after which a set must be refused; the documented bound is much less.
const LONG: Duration = Duration::from_secs(30);

#[test]
fn sets_end_when_the_pool_is_replaced() {
    for options in [&[][..], &["--tree", "lb"]] {
        let directory = tempfile::tempdir().unwrap();
        let mut process = ServerProcess::start(directory.path(), options);
        let mut client = connect(directory.path());
        client.talk("set a 0 0 1\r\na\r\n", "STORED\r\n");
        let pool = directory.path().join("cache.pool");
        let copy = directory.path().join("copy");
        fs::copy(&pool, &copy).unwrap();
        fs::rename(&copy, &pool).unwrap();
        let begun = Instant::now();
        let mut reply = String::from("STORED");
        while reply == "STORED" && begun.elapsed() < LONG {
            client.send(b"set b 0 0 1\r\nb\r\n");
            reply = client.line();
        }
        assert!(reply.starts_with("SERVER_ERROR"), "{reply}");
        client.talk("get a\r\n", "VALUE a 0 1\r\na\r\nEND\r\n");
        process.kill();
    }
}
