//! The commands `stats` with their variants, and the space that they show.

use crate::support::{TestServer, data};

#[test]
fn each_variant_is_answered() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk("stats items\r\n", "END\r\n");
    client.talk("stats sizes\r\n", "STAT sizes_status disabled\r\nEND\r\n");
    client.talk("stats conns\r\n", "STAT curr_connections 1\r\nEND\r\n");
    client.talk("stats detail on\r\n", "CLIENT_ERROR stats detail not allowed\r\n");
    client.talk(
        "stats cachedump 1 0\r\n",
        "CLIENT_ERROR stats cachedump not allowed\r\n",
    );
    client.talk("stats nonsense\r\n", "ERROR\r\n");
    assert_eq!(client.stats("stats slabs\r\n")["active_slabs"], "0");
    client.talk("stats latency\r\n", "END\r\n");
    client.talk(
        "set k 0 0 3\r\nabc\r\nget k\r\n",
        "STORED\r\nVALUE k 0 3\r\nabc\r\nEND\r\n",
    );
    let items = client.stats("stats items\r\n");
    assert_eq!(
        (&*items["items:1:number"], &*items["items:1:evicted"]),
        ("1", "0")
    );
    let slabs = client.stats("stats slabs\r\n");
    assert_eq!(
        [
            &*slabs["1:used_chunks"],
            &*slabs["1:get_hits"],
            &*slabs["1:cmd_set"]
        ],
        ["1"; 3]
    );
    // An exporter of Prometheus needs all of them.
    for command in [
        "delete_hits",
        "incr_hits",
        "decr_hits",
        "cas_hits",
        "cas_badval",
        "touch_hits",
    ] {
        assert_eq!(slabs[&format!("1:{command}")], "0");
    }
    assert_eq!(slabs["active_slabs"], "1");
}

#[test]
fn settings_are_those_of_the_start() {
    let server = TestServer::start_with(|settings| {
        settings.memory_limit = Some(64 << 20);
        settings.max_connections = 7;
        settings.max_item = 2048;
        settings.allows_flush = false;
    });
    assert_eq!(server.connect().stats("stats\r\n")["limit_maxbytes"], "67108864");
    let stats = server.connect().stats("stats settings\r\n");
    assert_eq!(stats["inter"], "127.0.0.1:0");
    for (name, value) in [
        ("maxbytes", "67108864"),
        ("maxconns", "7"),
        ("udpport", "0"),
        ("tcp_backlog", "1024"),
        ("maxconns_fast", "yes"),
        ("read_buf_mem_limit", "67108864"),
        ("umask", "700"),
        ("client_flags_size", "4"),
        ("domain_socket", "NULL"),
        ("item_size_max", "2048"),
        ("evictions", "on"),
        ("cas_enabled", "yes"),
        ("auth_enabled_ascii", "no"),
        ("flush_enabled", "no"),
        ("shutdown_command", "no"),
        ("idle_timeout", "0"),
        ("ssl_enabled", "no"),
        ("binding_protocol", "ascii"),
        ("eviction_policy", "s3-fifo"),
        ("durability", "operation"),
        ("storage", "store"),
    ] {
        assert_eq!(stats[name], value, "{name}");
    }
}

#[test]
fn a_reset_forgets_counters_and_not_items() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk(
        "set k 0 0 1\r\nx\r\nget k\r\nget none\r\n",
        "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\nEND\r\n",
    );
    client.talk("stats reset\r\n", "RESET\r\n");
    let stats = client.stats("stats\r\n");
    for name in [
        "cmd_get",
        "cmd_set",
        "get_hits",
        "get_misses",
        "total_items",
        "evictions",
    ] {
        assert_eq!(stats[name], "0", "{name}");
    }
    assert_eq!(stats["curr_items"], "1");
    client.talk("stats latency\r\n", "END\r\n");
}

#[test]
fn space_of_items_that_are_replaced_deleted_or_expired_is_used_again() {
    const ITEMS: u64 = 100;
    const BYTES: usize = 10_000;
    /// Many times what the items need, and a fraction of what is written.
    const MAX_POOL_BYTES: u64 = 20 << 20;
    for tree in [None, Some("lb".parse().unwrap())] {
        let server = TestServer::start_with(|settings| settings.tree = tree);
        let mut client = server.connect();
        let value = data(BYTES);
        for round in 0..60 {
            for key in 0..ITEMS {
                client.send(format!("set k{key} 0 10 {BYTES}\r\n").as_bytes());
                client.send(&[&value[..], b"\r\n"].concat());
                client.expect(b"STORED\r\n");
                if round % 3 == 1 {
                    client.talk(&format!("delete k{key}\r\n"), "DELETED\r\n");
                }
            }
            if round % 3 == 2 {
                server.advance(20);
            }
        }
        let pool: u64 = client.stats("stats\r\n")["slow_tier_pool_bytes"].parse().unwrap();
        assert!(pool < MAX_POOL_BYTES, "{pool} bytes with {tree:?}");
    }
}
