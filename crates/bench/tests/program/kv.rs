//! The workloads of YCSB on a store or tree of their own.

use halocline_pool::{Pool, PoolOptions};
use halocline_store::Stores;

use crate::home::{Home, stdout};

#[test]
fn workloads_are_measured_and_leave_nothing() {
    let home = Home::new();
    let small = [
        "--records",
        "300",
        "--operations",
        "600",
        "--threads",
        "2",
        "-o",
        "json",
    ];
    for kind in [&[][..], &["--tree", "lb"]] {
        let text = stdout(&home.ok(&[&["kv", "p"], &small[..], kind].concat()));
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let letters: Vec<_> = lines
            .iter()
            .map(|line| line["workload"].as_str().unwrap())
            .collect();
        assert_eq!(letters, ["A", "B", "C", "D", "E", "F"]);
        assert!(
            lines
                .iter()
                .all(|line| line["operations_per_s"].as_f64().unwrap() > 0.0)
        );
        assert!(!home.path("p").exists());
    }
    let pool = Pool::create(home.path("p"), &PoolOptions::default()).unwrap();
    drop(Stores::open(&pool).unwrap().store("kv").unwrap());
    drop(pool);
    home.ok(&[&["kv", "p", "--workloads", "ae"], &small[..]].concat());
    let pool = Pool::open(home.path("p"), &PoolOptions::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    assert_eq!(stores.names(), ["kv"]);
    assert!(stores.existing("kv").unwrap().is_empty());
    home.fails(2, &["kv", "p", "--workloads", "AX"], &["no workload `X`"]);
}
