//! A process that writes is killed: everything that it acknowledged is there. The test runs itself as the
//! writer.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use halocline_pool::{Pool, PoolOptions};
use halocline_store::{Stores, StoresOptions};

const POOL: &str = "HALOCLINE_STORE_KILL_POOL";

/// Bytes of the values up to which those of small and of large ones go.
const SMALL_VALUE: u64 = 400;
const LARGE_VALUE: u64 = 12_000;

fn value(number: u64, most: u64) -> Vec<u8> {
    vec![number as u8; (number * 7 % most) as usize]
}

fn open(path: &std::path::Path) -> Stores {
    let pool = Pool::open(path, &PoolOptions::default()).unwrap();
    let options = StoresOptions::default().with_pending_records(500);
    Stores::open_with(&pool, options).unwrap()
}

/// Puts and deletes, and prints the number of each acknowledged step.
#[allow(clippy::print_stdout, reason = "the parent reads it")]
fn write(stores: &Stores, most: u64) {
    let store = stores.store("s").unwrap();
    // A snapshot lets the writer unlink versions, on which counters must not depend.
    let _snapshot = stores.snapshot();
    for number in 0_u64.. {
        let key = (number % 700).to_be_bytes();
        match number % 5 {
            0 => store.delete(key).unwrap(),
            _ => store.put(key, value(number, most)).unwrap(),
        }
        println!("done {number}");
    }
}

#[test]
#[ignore = "run by another test, as a process of its own"]
fn child() {
    write(&open(std::env::var_os(POOL).unwrap().as_ref()), SMALL_VALUE);
}

/// The log goes on in other segments while checkpoints write catalogs, old ones and new ones.
#[test]
#[ignore = "run by another test, as a process of its own"]
fn child_amid_checkpoints() {
    let stores = open(std::env::var_os(POOL).unwrap().as_ref());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                stores.checkpoint().unwrap();
            }
        });
        write(&stores, LARGE_VALUE);
    });
}

/// Kills a child after each of these numbers of steps, and compares what it has left.
fn kill(child: &str, most: u64, steps: &[u64]) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    drop(Pool::create(&path, &PoolOptions::default()).unwrap());
    for steps in steps {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", child, "--ignored", "--nocapture"])
            .env(POOL, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let done = lines.map(|line| line.unwrap());
        let last = done
            .filter_map(|line| line.split_once("done ")?.1.parse::<u64>().ok())
            .find(|number| number >= steps);
        child.kill().unwrap();
        child.wait().unwrap();
        let last = last.unwrap();
        let stores = open(&path);
        let store = stores.existing("s").unwrap();
        // Later steps may have been made, too: of each key, the last acknowledged one or a later one counts.
        for key in 0..700_u64.min(last) {
            let newest = last - (last - key) % 700;
            let found = store.get(key.to_be_bytes()).unwrap();
            let later = (0..40).map(|turn| newest + 700 * turn);
            let expected = |number: u64| (!number.is_multiple_of(5)).then(|| value(number, most));
            assert!(
                later.into_iter().any(|number| found == expected(number)),
                "key {key}"
            );
        }
        let report = stores
            .check(&mut |_| std::ops::ControlFlow::Continue(()))
            .unwrap();
        assert_eq!(report.problems, []);
    }
}

#[test]
fn what_a_killed_process_acknowledged_is_there() {
    kill("kill::child", SMALL_VALUE, &[50, 3000, 7001]);
}

#[test]
fn what_was_acknowledged_amid_checkpoints_is_there() {
    let steps: Vec<u64> = (1..25).map(|kill| 100 + kill * 37).collect();
    kill("kill::child_amid_checkpoints", LARGE_VALUE, &steps);
}
