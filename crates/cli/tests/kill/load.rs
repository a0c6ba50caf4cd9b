//! Imports into a table with a primary key, killed while they load its rows: none of these are seen, and
//! their space comes back.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use crate::common::Home;
use crate::ended_well;

/// Rows of the file, in an order that is far from that of the key.
const ROWS: u64 = 300_000;
/// Bytes by which the pool has grown when an import is killed; the whole of it takes twice as many.
const GROWTH: u64 = 16 << 20;
/// Bytes by which the pool may be larger afterwards: a few units in which stores and files grow.
const REST: u64 = 12 << 20;

/// Returns the bytes that the pool takes of the file system.
fn allocated(home: &Home) -> u64 {
    fs::metadata(home.path("p")).unwrap().blocks() * 512
}

#[test]
fn the_space_of_a_killed_load_comes_back() {
    let home = Home::new();
    let rows = (0..ROWS).map(|row| format!("{},name {row:040}\n", row * 7919 % 1_000_003));
    home.write("rows.csv", format!("id,name\n{}", rows.collect::<String>()));
    home.ok(&["sql", "p", "CREATE TABLE k (id bigint PRIMARY KEY, name varchar)"]);
    let import = ["import", "p", "k", "rows.csv", "--append"];
    let before = allocated(&home);
    for _ in 0..2 {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("halocline"))
            .current_dir(home.directory())
            .args(import)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while allocated(&home) < before + GROWTH && child.try_wait().unwrap().is_none() {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        assert!(!ended_well(&mut child), "the import ended before it was killed");
        assert_eq!(home.csv("p", "SELECT count(*) AS n FROM k"), "n\n0\n");
        home.ok(&["vacuum", "p"]);
        let after = allocated(&home);
        assert!(after < before + REST, "{after} bytes, {before} before");
        home.ok(&["check", "p"]);
    }
    home.ok(&import);
    let loaded = home.csv("p", "SELECT count(*) AS n, count(DISTINCT id) AS d FROM k");
    assert_eq!(loaded, format!("n,d\n{ROWS},{ROWS}\n"));
}
