//! Conversations: what is sent over a socket and the replies that memcached 1.6 gives.

use std::collections::HashMap;
use std::io::Read;
use std::net::Shutdown;

use crate::support::{TestServer, data};

#[test]
fn values_are_stored_and_returned() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk("set k 7 0 5\r\nhello\r\n", "STORED\r\n");
    client.talk("get k\r\n", "VALUE k 7 5\r\nhello\r\nEND\r\n");
    client.talk(
        "get k missing k\r\n",
        "VALUE k 7 5\r\nhello\r\nVALUE k 7 5\r\nhello\r\nEND\r\n",
    );
    client.talk("add k 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    client.talk("add n 0 0 1\r\nx\r\n", "STORED\r\n");
    client.talk("replace none 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    client.talk("append k 0 0 1\r\n!\r\n", "STORED\r\n");
    client.talk("prepend k 0 0 1\r\n>\r\n", "STORED\r\n");
    client.talk("get k\r\n", "VALUE k 7 7\r\n>hello!\r\nEND\r\n");
    client.talk("delete k\r\n", "DELETED\r\n");
    client.talk("delete k\r\n", "NOT_FOUND\r\n");
    client.talk("append k 0 0 1\r\n!\r\n", "NOT_STORED\r\n");
    client.talk("set empty 0 0 0\r\n\r\n", "STORED\r\n");
    client.talk("get empty\r\n", "VALUE empty 0 0\r\n\r\nEND\r\n");
}

#[test]
fn cas_stores_what_nobody_has_changed() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk("cas k 0 0 1 5\r\nx\r\n", "NOT_FOUND\r\n");
    client.talk("set k 0 0 1\r\na\r\n", "STORED\r\n");
    let cas = client.cas("k");
    client.talk(&format!("cas k 0 0 1 {}\r\nb\r\n", cas + 1), "EXISTS\r\n");
    client.talk(&format!("cas k 0 0 1 {cas}\r\nb\r\n"), "STORED\r\n");
    client.talk(&format!("cas k 0 0 1 {cas}\r\nc\r\n"), "EXISTS\r\n");
    client.talk("get k\r\n", "VALUE k 0 1\r\nb\r\nEND\r\n");
    assert!(client.cas("k") > cas);
}

#[test]
fn counters_count() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk("incr n 1\r\n", "NOT_FOUND\r\n");
    client.talk("set n 0 0 2\r\n10\r\n", "STORED\r\n");
    client.talk("incr n 5\r\n", "15\r\n");
    client.talk("decr n 6\r\n", "9\r\n");
    client.talk("get n\r\n", "VALUE n 0 2\r\n9 \r\nEND\r\n");
    client.talk("decr n 100\r\n", "0\r\n");
    client.talk("set n 0 0 20\r\n18446744073709551615\r\n", "STORED\r\n");
    client.talk("incr n 2\r\n", "1\r\n");
    client.talk("incr n x\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n");
    client.talk("set n 0 0 1\r\nx\r\n", "STORED\r\n");
    let error = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    client.talk("incr n 1\r\n", error);
    client.talk("incr n 1 noreply\r\nmn\r\n", "MN\r\n");
}

#[test]
fn items_expire() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk("set k 0 10 1\r\nx\r\n", "STORED\r\n");
    client.talk("set gone 0 -1 1\r\nx\r\n", "STORED\r\n");
    client.talk("get gone\r\n", "END\r\n");
    client.talk("touch k 100\r\n", "TOUCHED\r\n");
    client.talk("touch gone 100\r\n", "NOT_FOUND\r\n");
    server.advance(50);
    client.talk("get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
    client.talk("gat 10 k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
    server.advance(10);
    client.talk("get k\r\n", "END\r\n");
    client.talk("incr k 1\r\n", "NOT_FOUND\r\n");
    client.talk("add k 0 0 1\r\ny\r\n", "STORED\r\n");
}

#[test]
fn flush_all_removes_everything_at_its_time() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    client.talk("flush_all\r\n", "OK\r\n");
    client.talk("get a\r\n", "END\r\n");
    client.talk("set a 0 0 1\r\ny\r\nflush_all 5\r\n", "STORED\r\nOK\r\n");
    client.talk("get a\r\n", "VALUE a 0 1\r\ny\r\nEND\r\n");
    server.advance(5);
    client.talk("get a\r\n", "END\r\n");
    client.talk("set a 0 0 1\r\nz\r\n", "STORED\r\n");
    client.talk("get a\r\n", "VALUE a 0 1\r\nz\r\nEND\r\n");
    client.talk("flush_all noreply\r\nget a\r\n", "END\r\n");
    client.talk("flush_all x\r\n", "CLIENT_ERROR invalid exptime argument\r\n");
    // The last one counts.
    client.talk("flush_all 50\r\nflush_all\r\n", "OK\r\nOK\r\n");
    client.talk("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    server.advance(50);
    client.talk("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn meta_commands_return_what_their_flags_ask_for() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk("mn\r\n", "MN\r\n");
    client.talk("mg k v\r\n", "EN\r\n");
    client.talk("mg k v q\r\nmn\r\n", "MN\r\n");
    client.talk("mg k v k O9\r\n", "EN kk O9\r\n");
    client.talk("ms k 5 T90 F3 E44 c s\r\nhello\r\n", "HD c44 s5\r\n");
    client.talk("mg k s f v t c\r\n", "VA 5 s5 f3 t90 c44\r\nhello\r\n");
    client.talk("mg k\r\n", "HD\r\n");
    client.talk("mg k v C44\r\n", "HD\r\n");
    client.talk("mg k v C43\r\n", "VA 5\r\nhello\r\n");
    client.talk("ms k 1 C43\r\nx\r\n", "EX\r\n");
    client.talk("ms none 1 C43\r\nx\r\n", "NF\r\n");
    client.talk("ms k 1 ME\r\nx\r\n", "NS\r\n");
    client.talk("ms k 1 MA\r\n!\r\n", "HD\r\n");
    client.talk("ms new 1 MA N30\r\n!\r\n", "HD\r\n");
    client.talk("mg new t v\r\n", "VA 1 t30\r\n!\r\n");
    client.talk("ms k 2 q\r\nok\r\nmn\r\n", "MN\r\n");
    client.talk("mg azE= b k v\r\n", "EN kazE= b\r\n");
    client.talk("ms azE= 1 b\r\nx\r\n", "HD\r\n");
    client.talk("mg k1 v\r\n", "VA 1\r\nx\r\n");
    client.talk("md k q\r\nmg k v\r\n", "EN\r\n");
    client.talk("md k q\r\n", "NF\r\n");
}

#[test]
fn hits_and_last_accesses_are_known() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    server.advance(3);
    client.talk("mg k h l u\r\n", "HD h0 l3\r\n");
    client.talk("mg k h l\r\n", "HD h0 l3\r\n");
    server.advance(2);
    client.talk("mg k h l t\r\n", "HD h1 l2 t-1\r\n");
}

#[test]
fn one_client_wins_the_right_to_fill_or_renew_an_item() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk("mg k v N30 t\r\n", "VA 0 t30 W\r\n\r\n");
    client.talk("mg k v N30\r\n", "VA 0 Z\r\n\r\n");
    client.talk("ms k 1 T100\r\nx\r\n", "HD\r\n");
    client.talk("mg k v R30\r\n", "VA 1\r\nx\r\n");
    server.advance(80);
    client.talk("mg k v R30\r\n", "VA 1 W\r\nx\r\n");
    client.talk("mg k v R30\r\n", "VA 1 Z\r\nx\r\n");
    client.talk("ms k 1 E100\r\ny\r\n", "HD\r\n");
    client.talk("md k I T30 E110\r\n", "HD\r\n");
    client.talk("mg k t c v\r\n", "VA 1 t30 c110 X W\r\ny\r\n");
    client.talk("mg k v\r\n", "VA 1 Z X\r\ny\r\n");
    client.talk("ms k 1 I C105\r\nz\r\n", "HD\r\n");
    client.talk("mg k v\r\n", "VA 1 Z X\r\nz\r\n");
    client.talk("md k x\r\n", "HD\r\n");
    client.talk("mg k v s\r\n", "VA 0 s0\r\n\r\n");
}

#[test]
fn meta_arithmetic() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk("ma n\r\n", "NF\r\n");
    client.talk("ma n N60 J13 v t\r\n", "VA 2 t60\r\n13\r\n");
    client.talk("ma n D7 v\r\n", "VA 2\r\n20\r\n");
    client.talk("ma n MD D30 v\r\n", "VA 1\r\n0\r\n");
    client.talk("ma n M+ q\r\nma n v E9 c\r\n", "VA 1 c9\r\n2\r\n");
    client.talk("ma n C8\r\n", "EX\r\n");
    client.talk("ma n C9 T5 t\r\n", "HD t5\r\n");
}

#[test]
fn debug_shows_an_item() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk("me k\r\n", "EN\r\n");
    client.talk("ms k 2 T60 E5\r\nab\r\n", "HD\r\n");
    server.advance(1);
    client.talk("me k\r\n", "ME k exp=59 la=1 cas=5 fetch=no cls=1 size=83\r\n");
}

#[test]
fn pieces_are_put_together() {
    let server = TestServer::start();
    let mut client = server.connect();
    let text = "set k 0 0 3\r\nabc\r\nget k\r\nms m 2 k\r\nxy\r\nmg m v\r\n";
    for byte in text.bytes() {
        client.send(&[byte]);
    }
    client.expect(b"STORED\r\nVALUE k 0 3\r\nabc\r\nEND\r\nHD km\r\nVA 2\r\nxy\r\n");
}

#[test]
fn large_values_and_many_requests_in_one_piece() {
    let server = TestServer::start();
    let mut client = server.connect();
    let value = data(1_000_000);
    client.send(&[b"set big 0 0 1000000\r\n", &value[..], b"\r\n"].concat());
    client.expect(b"STORED\r\n");
    client.send(&b"get big\r\n".repeat(5));
    let one = [b"VALUE big 0 1000000\r\n", &value[..], b"\r\nEND\r\n"].concat();
    client.expect(&one.repeat(5));
    client.send(&b"set a 0 0 1\r\nx\r\n".repeat(10_000));
    client.expect(&b"STORED\r\n".repeat(10_000));
}

#[test]
fn bad_requests_are_answered_and_skipped() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk("nothing\r\n", "ERROR\r\n");
    client.talk("\r\n", "CLIENT_ERROR bad command line format\r\n");
    client.talk("get\r\n", "CLIENT_ERROR bad command line format\r\n");
    client.talk(
        &format!("get {}\r\n", "k".repeat(251)),
        "CLIENT_ERROR bad command line format\r\n",
    );
    client.talk(
        "set k 0 0 3\r\nabcde\r\n",
        "CLIENT_ERROR bad data chunk\r\nCLIENT_ERROR bad command line format\r\n",
    );
    let long = format!("set {} 0 0 3\r\nabc\r\nmn\r\n", "k".repeat(251));
    client.talk(&long, "CLIENT_ERROR bad command line format\r\nMN\r\n");
    client.talk("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    let too_large = [b"set k 0 0 2000000\r\n", &data(2_000_000)[..], b"\r\n"].concat();
    client.send(&too_large);
    client.expect(b"SERVER_ERROR object too large for cache\r\n");
    client.talk("get k\r\n", "END\r\n");
    client.talk("verbosity\r\n", "CLIENT_ERROR bad command line format\r\n");
    client.talk("verbosity 1\r\n", "OK\r\n");
    client.talk("verbosity loud\r\n", "CLIENT_ERROR bad command line format\r\n");
    client.talk("stats nothing\r\n", "ERROR\r\n");
    client.talk("shutdown\r\n", "SERVER_ERROR: shutdown not enabled\r\n");
}

#[test]
fn noreply_says_nothing() {
    let server = TestServer::start();
    let mut client = server.connect();
    let text = "set a 0 0 1 noreply\r\n1\r\nincr a 1 noreply\r\nadd a 0 0 1 noreply\r\n9\r\ntouch a 0 noreply\r\nappend a 0 0 1 \
                noreply\r\n3\r\nverbosity 1 noreply\r\nget a\r\ndelete a noreply\r\nget a\r\n";
    client.talk(text, "VALUE a 0 2\r\n23\r\nEND\r\nEND\r\n");
}

#[test]
fn the_binary_protocol_is_refused() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(&[0x80, 0, 0, 0]);
    client.expect(b"CLIENT_ERROR the binary protocol is not supported, use the text protocol\r\n");
    client.expect_end();
}

#[test]
fn lines_without_an_end_end_the_connection() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk("set k 0 0 1\r\n1\r\n", "STORED\r\n");
    let spaces = " ".repeat(3000);
    client.talk(&format!("incr{spaces}k 1\r\n"), "2\r\n");
    // As memcached does, but for a moment in which the end may arrive.
    client.send(format!("incr{spaces}k 1").as_bytes());
    client.expect_end();
    let mut client = server.connect();
    client.send(format!("get{spaces}k").as_bytes());
    client.talk("\r\n", "VALUE k 0 1\r\n2\r\nEND\r\n");
    // The reply arrives although there is more to read.
    client.send(&[b'x'; 500_000]);
    client.expect(b"CLIENT_ERROR line too long\r\n");
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
    let mut client = server.connect();
    client.send(b"GET / HTTP/1.1\r\nset k 0 0 1\r\nx\r\n");
    client.expect_end();
}

#[test]
fn a_client_that_ends_its_side_gets_its_replies() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(b"set k 0 0 1\r\nx\r\nget k\r\nset k 0 0 5\r\nabc");
    client.stream.shutdown(Shutdown::Write).unwrap();
    client.expect(b"STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
    server.connect().talk("get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn connections_beyond_the_limit_are_told_so() {
    let server = TestServer::start_with(|settings| settings.max_connections = 1);
    let mut first = server.connect();
    first.talk("mn\r\n", "MN\r\n");
    let mut second = server.connect();
    second.expect(b"ERROR Too many open connections\r\n");
    second.expect_end();
    assert_eq!(first.stats("stats\r\n")["rejected_connections"], "1");
}

#[test]
fn quit_and_version() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk(
        "version\r\n",
        concat!("VERSION 1.6.45-halocline-", env!("CARGO_PKG_VERSION"), "\r\n"),
    );
    client.send(b"quit\r\n");
    client.expect_end();
}

#[test]
fn statistics_have_the_names_of_memcached() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk(
        "set a 0 0 1\r\n1\r\nget a\r\nget b\r\n",
        "STORED\r\nVALUE a 0 1\r\n1\r\nEND\r\nEND\r\n",
    );
    let stats = client.stats("stats\r\n");
    let is = |name: &str, value: &str| assert_eq!(stats.get(name).map(String::as_str), Some(value), "{name}");
    is("cmd_get", "2");
    is("get_hits", "1");
    is("get_misses", "1");
    is("curr_items", "1");
    is("curr_connections", "1");
    assert_eq!(client.stats("stats settings\r\n")["num_threads"], "2");
    assert_eq!(client.stats("stats items\r\n")["items:1:number"], "1");
    assert_eq!(client.stats("stats slabs\r\n")["1:used_chunks"], "1");
    client.talk("set c 0 0 1\r\n1\r\nset d 0 0 1\r\n1\r\n", "STORED\r\nSTORED\r\n");
    let again = client.stats("stats\r\n");
    let number = |stats: &HashMap<String, String>, name: &str| stats[name].parse::<u64>().unwrap();
    assert!(number(&again, "slow_tier_fences") > number(&stats, "slow_tier_fences"));
    assert!(number(&again, "dram_bytes") > 1 << 20 && number(&again, "slow_tier_pool_bytes") > 1 << 16);
    let latency = client.stats("stats latency\r\n");
    for kind in ["read", "write"] {
        let percentile = |name: &str| latency[&format!("{kind}_{name}_us")].parse::<f64>().unwrap();
        let percentiles = ["p50", "p99", "p99.9"].map(percentile);
        assert!(percentiles[0] > 0.0 && percentiles.is_sorted(), "{latency:?}");
    }
    let of_writes = latency
        .iter()
        .filter(|(name, _)| name.starts_with("write_below_"));
    assert_eq!(
        of_writes
            .map(|(_, count)| count.parse::<u64>().unwrap())
            .sum::<u64>(),
        3
    );
    client.talk("stats reset\r\n", "RESET\r\n");
    assert_eq!(client.stats("stats\r\n")["cmd_get"], "0");
}
