//! Copies of hot items in DRAM.

use std::net::TcpStream;

use halocline_memcached::ServerSettings;

use crate::support::{Client, TestServer, data};

fn always(settings: &mut ServerSettings) {
    settings.hot_items = 4 << 20;
    settings.hot_items_always = true;
}

fn number(client: &mut Client<TcpStream>, name: &str) -> u64 {
    client.stats("stats\r\n")[name].parse().unwrap()
}

#[test]
fn copies_answer_lookups_as_the_storage_would() {
    for tree in [None, Some("wb")] {
        let server = TestServer::start_with(|settings| {
            always(settings);
            settings.tree = tree.map(|tree| tree.parse().unwrap());
        });
        let mut client = server.connect();
        client.talk("set a 7 0 3\r\nold\r\n", "STORED\r\n");
        for _ in 0..3 {
            client.talk("get a\r\n", "VALUE a 7 3\r\nold\r\nEND\r\n");
        }
        let hits = ["get_hits", "get_hits_dram", "get_hits_slow_tier", "hot_items"];
        assert_eq!(hits.map(|name| number(&mut client, name)), [3, 2, 1, 1]);
        client.talk(
            "set a 8 0 4\r\nnew!\r\nget a\r\n",
            "STORED\r\nVALUE a 8 4\r\nnew!\r\nEND\r\n",
        );
        client.talk(
            "append a 0 0 1\r\n+\r\nget a\r\n",
            "STORED\r\nVALUE a 8 5\r\nnew!+\r\nEND\r\n",
        );
        client.talk("touch a 10\r\nmg a t\r\n", "TOUCHED\r\nHD t10\r\n");
        client.talk(
            "set n 0 0 1\r\n1\r\nget n\r\nincr n 5\r\n",
            "STORED\r\nVALUE n 0 1\r\n1\r\nEND\r\n6\r\n",
        );
        client.talk("get n\r\n", "VALUE n 0 1\r\n6\r\nEND\r\n");
        client.talk("delete n\r\nget n\r\n", "DELETED\r\nEND\r\n");
        // An invalidated item is stale for the first client alone.
        client.talk("md a I T30\r\nmg a\r\n", "HD\r\nHD X W\r\n");
        client.talk("mg a\r\nmg a\r\n", "HD Z X\r\nHD Z X\r\n");
        server.advance(30);
        client.talk("get a\r\nmg a\r\n", "END\r\nEN\r\n");
        client.talk(
            "set b 0 0 1\r\nx\r\nget b\r\nflush_all\r\nget b\r\n",
            "STORED\r\nVALUE b 0 1\r\nx\r\nEND\r\nOK\r\nEND\r\n",
        );
        assert_eq!(number(&mut client, "hot_items"), 0);
    }
}

#[test]
fn items_that_make_room_for_others_leave_no_copy() {
    const ITEMS: u64 = 3000;
    let server = TestServer::start_with(|settings| {
        always(settings);
        settings.memory_limit = Some(2 << 20);
    });
    let mut client = server.connect();
    let value = data(2000);
    for number in 0..ITEMS {
        client.send(&[format!("set k{number} 0 0 2000\r\n").as_bytes(), &value, b"\r\n"].concat());
        client.expect(b"STORED\r\n");
        client.send(format!("mg k{number}\r\nmg k{}\r\n", number / 2).as_bytes());
        (0..2).for_each(|_| drop(client.line()));
    }
    let mut found = 0;
    for number in 0..ITEMS {
        client.send(format!("mg k{number}\r\n").as_bytes());
        found += u64::from(client.line() == "HD");
    }
    assert!(found < ITEMS, "some have left");
    assert_eq!(found, number(&mut client, "curr_items"));
    assert!(number(&mut client, "hot_hits") > 0);
}

#[test]
fn without_copies_the_slow_tier_answers() {
    let server = TestServer::start_with(|settings| settings.hot_items = 0);
    let mut client = server.connect();
    client.talk("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    (0..3).for_each(|_| client.talk("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"));
    let hits = [
        "get_hits_dram",
        "get_hits_slow_tier",
        "hot_items",
        "hot_items_used",
    ];
    assert_eq!(hits.map(|name| number(&mut client, name)), [0, 3, 0, 0]);
}
