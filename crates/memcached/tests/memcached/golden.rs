//! Frozen pools with items of each version of the format, which must be served as they were. They are never
//! regenerated.
//!
//! Each is the image of a pool on persistent memory whose server died after its items were flushed once: one
//! with items in a store, one with items in trees.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use halocline_memcached::check_items;
use halocline_pool::{Pool, PoolOptions};
use halocline_store::Stores;

use crate::support::TestServer;

/// The pools, and the kind of the trees that have their items.
const POOLS: [(&str, Option<&str>); 2] = [("v4-store", None), ("v4-trees", Some("lb"))];
/// Items that neither expire nor are large.
const ITEMS: usize = 120;
/// Bytes of the large item.
const LARGE: usize = 100_000;
/// Seconds until an item expires.
const LIFETIME: u64 = 1000;

fn file(name: &str) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    golden.join(format!("{name}.pool.zst"))
}

fn unpacked(name: &str) -> Vec<u8> {
    zstd::decode_all(&*fs::read(file(name)).unwrap()).unwrap()
}

/// Returns a value that has no long repetitions.
fn value(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 7 * 31 + at / 5003) as u8).collect()
}

/// Compares all items with those that the pool had when it was made.
fn serves_what_it_had(server: &TestServer) {
    let mut client = server.connect();
    for number in 0..ITEMS {
        client.send(format!("get k{number}\r\n").as_bytes());
        match number % 3 {
            0 => client.expect(b"END\r\n"),
            _ => {
                let head = format!("VALUE k{number} {number} {number}\r\n");
                client.expect(&[head.as_bytes(), &value(number), b"\r\nEND\r\n"].concat());
            }
        }
    }
    client.send(b"get large\r\n");
    let head = format!("VALUE large 0 {LARGE}\r\n");
    client.expect(&[head.as_bytes(), &value(LARGE), b"\r\nEND\r\n"].concat());
    client.talk(
        "get flushed counter text\r\n",
        "VALUE counter 0 2\r\n42\r\nVALUE text 7 5\r\nab-cd\r\nEND\r\n",
    );
    client.talk("mg expires v t\r\n", &format!("VA 1 t{LIFETIME}\r\nx\r\n"));
}

#[test]
fn items_of_all_versions_are_served_as_ever() {
    for (name, _) in POOLS {
        let mut server = TestServer::start_on(&unpacked(name));
        serves_what_it_had(&server);
        let mut client = server.connect();
        // Items can be changed, cas values go on, and items expire.
        let before = client.cas("text");
        client.talk("append text 0 0 1\r\n!\r\n", "STORED\r\n");
        assert!(client.cas("text") > before, "{name}");
        client.talk("incr counter 1\r\ndelete k1\r\n", "43\r\nDELETED\r\n");
        server.advance(LIFETIME);
        client.talk("get expires k1 text\r\n", "VALUE text 7 6\r\nab-cd!\r\nEND\r\n");
        server.restart(|_| {});
        let mut client = server.connect();
        client.talk("get k1 counter\r\n", "VALUE counter 0 2\r\n43\r\nEND\r\n");
        client.talk("flush_all\r\nget text\r\n", "OK\r\nEND\r\n");
    }
}

#[test]
fn a_check_of_all_versions_finds_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for (name, tree) in POOLS {
        let path = directory.path().join(name);
        fs::write(&path, unpacked(name)).unwrap();
        let pool = Pool::open(&path, &PoolOptions::default().with_read_only(true)).unwrap();
        assert!(pool.check(|_| ()).unwrap().is_intact(), "{name}");
        assert_eq!(Stores::exist_in(&pool).unwrap(), tree.is_none(), "{name}");
        match tree {
            None => {
                let stores = Stores::open_reader(&pool).unwrap();
                let report = stores.check(&mut |_| ControlFlow::Continue(())).unwrap();
                assert!(report.is_intact() && report.uncounted.is_empty(), "{report:?}");
            }
            Some(_) => {
                let report = check_items(&pool, &mut |_| ControlFlow::Continue(())).unwrap();
                let items = ITEMS - ITEMS.div_ceil(3) + 4;
                assert_eq!(
                    (report.items, report.problems.len()),
                    (items as u64, 0),
                    "{report:?}"
                );
            }
        }
    }
}

#[test]
#[ignore = "golden pools are made once"]
fn make() {
    for (name, tree) in POOLS {
        let file = file(name);
        assert!(!file.exists(), "a golden pool is never made again");
        let server =
            TestServer::start_with(|settings| settings.tree = tree.map(|tree| tree.parse().unwrap()));
        let mut client = server.connect();
        client.talk("set flushed 0 0 1\r\nx\r\nflush_all\r\n", "STORED\r\nOK\r\n");
        for number in 0..ITEMS {
            let head = format!("set k{number} {number} 0 {number}\r\n");
            client.send(&[head.as_bytes(), &value(number), b"\r\n"].concat());
            client.expect(b"STORED\r\n");
        }
        for number in (0..ITEMS).step_by(3) {
            client.talk(&format!("delete k{number}\r\n"), "DELETED\r\n");
        }
        client.send(
            &[
                format!("set large 0 0 {LARGE}\r\n").as_bytes(),
                &value(LARGE),
                b"\r\n",
            ]
            .concat(),
        );
        client.expect(b"STORED\r\n");
        client.talk(
            "set counter 0 0 1\r\n7\r\nincr counter 35\r\n",
            "STORED\r\n42\r\n",
        );
        client.talk(
            "set text 7 0 2\r\nab\r\nappend text 0 0 3\r\n-cd\r\n",
            "STORED\r\nSTORED\r\n",
        );
        client.talk(&format!("set expires 0 {LIFETIME} 1\r\nx\r\n"), "STORED\r\n");
        // The image of a pool whose server has not closed it.
        let image = fs::read(server.path().join("cache.pool")).unwrap();
        fs::write(file, zstd::encode_all(&*image, 19).unwrap()).unwrap();
    }
}
