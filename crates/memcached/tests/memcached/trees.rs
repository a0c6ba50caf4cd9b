//! Servers whose items are in trees.

use halocline_memcached::{Durability, MemcachedError, Server, ServerSettings};

use crate::support::{TestServer, data};

#[test]
fn items_in_trees_are_there_after_a_restart() {
    for kind in ["lb", "fp", "wb", "fast-fair"] {
        let change = |settings: &mut ServerSettings| settings.tree = Some(kind.parse().unwrap());
        let mut server = TestServer::start_with(change);
        let mut client = server.connect();
        let large = data(900_000);
        client.talk("set a 5 0 3\r\nabc\r\n", "STORED\r\n");
        client.talk("set b 0 100 1\r\nx\r\n", "STORED\r\n");
        client.talk(
            "incr a 1\r\nset n 0 0 1\r\n9\r\nincr n 1\r\n",
            "CLIENT_ERROR cannot increment or decrement non-numeric value\r\nSTORED\r\n10\r\n",
        );
        client.send(&[b"set large 0 0 900000\r\n", &large[..], b"\r\n"].concat());
        client.expect(b"STORED\r\n");
        let cas = client.cas("a");
        assert_eq!(
            client.stats("stats settings\r\n")["storage"],
            format!("tree {kind}")
        );
        // The kind is that of the pool.
        server.restart(|settings| settings.tree = None);
        let mut client = server.connect();
        client.talk(
            "get a n\r\n",
            "VALUE a 5 3\r\nabc\r\nVALUE n 0 2\r\n10\r\nEND\r\n",
        );
        assert_eq!(client.cas("a"), cas);
        client.talk("mg b t\r\n", "HD t100\r\n");
        client.send(b"get large\r\n");
        client.expect(&[b"VALUE large 0 900000\r\n", &large[..], b"\r\nEND\r\n"].concat());
        server.advance(100);
        client.talk("get b\r\nflush_all\r\nget a\r\n", "END\r\nOK\r\nEND\r\n");
        client.talk("set a 0 0 1\r\ny\r\nflush_all 50\r\n", "STORED\r\nOK\r\n");
        server.restart(change);
        let mut client = server.connect();
        client.talk("get a large\r\n", "VALUE a 0 1\r\ny\r\nEND\r\n");
        server.advance(50);
        client.talk("get a\r\n", "END\r\n");
    }
}

#[test]
fn every_durability_keeps_items_in_trees_through_a_restart() {
    for durability in [Durability::Operation, Durability::Group, Durability::Process] {
        let change = |settings: &mut ServerSettings| {
            settings.durability = durability;
            settings.assume_dax = false;
            settings.tree = Some("fp".parse().unwrap());
        };
        let mut server = TestServer::start_with(change);
        server.connect().talk("set a 0 0 1\r\nx\r\n", "STORED\r\n");
        server.restart(change);
        server.connect().talk("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    }
}

#[test]
fn another_storage_than_that_of_the_pool_is_refused() {
    for (first, second) in [(None, "lb"), (Some("lb"), "wb")] {
        let tree = |kind: Option<&str>| kind.map(|kind| kind.parse().unwrap());
        let mut server = TestServer::start_with(|settings| settings.tree = tree(first));
        server.connect().talk("set a 0 0 1\r\nx\r\n", "STORED\r\n");
        server.stop();
        let mut settings = ServerSettings::new(server.path().join("cache.pool"));
        settings.listen = vec!["127.0.0.1:0".parse().unwrap()];
        settings.tree = tree(Some(second));
        let error = Server::start(settings).unwrap_err();
        assert!(matches!(error, MemcachedError::OtherStorage { .. }), "{error}");
        assert!(error.to_string().contains("start without --tree"), "{error}");
        server.restart(|settings| settings.tree = tree(first));
        server.connect().talk("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    }
}

#[test]
fn items_in_trees_make_room_for_others() {
    const LIMIT: u64 = 4 << 20;
    let server = TestServer::start_with(|settings| {
        settings.tree = Some("lb".parse().unwrap());
        settings.memory_limit = Some(LIMIT);
    });
    let mut client = server.connect();
    let value = data(400);
    for number in 0..20_000 {
        client.send(&[format!("set k{number} 0 0 400\r\n").as_bytes(), &value, b"\r\n"].concat());
        client.expect(b"STORED\r\n");
    }
    let stats = client.stats("stats\r\n");
    let number = |name: &str| stats[name].parse::<u64>().unwrap();
    assert!(number("evictions") > 10_000, "{stats:?}");
    assert!(number("curr_items") > 3_000, "{stats:?}");
    let size = server.path().join("cache.pool").metadata().unwrap().len();
    assert!(size <= 3 * LIMIT, "the pool has {size} bytes");
}
