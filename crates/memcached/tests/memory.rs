//! DRAM that connections take.

mod support;

use std::os::unix::net::UnixStream;

use support::process::{ServerProcess, connect};
use support::{Client, data};

const CONNECTIONS: u64 = 300;
/// Most bytes for an idle connection. A debug build takes more than a release build.
const IDLE: u64 = 32 << 10;
/// Most bytes for a connection that has sent and received a large value, and waits.
const AFTER_LARGE: u64 = 256 << 10;
const LARGE: usize = 1_000_000;

fn dram(client: &mut Client<UnixStream>) -> u64 {
    client.stats("stats\r\n")["dram_bytes"].parse().unwrap()
}

/// Stores an item of some bytes, and reads it.
fn set_and_get(client: &mut Client<UnixStream>, number: u64, bytes: usize) {
    let value = data(bytes);
    client.send(
        &[
            format!("set k{number} 0 0 {bytes}\r\n").as_bytes(),
            &value,
            b"\r\n",
        ]
        .concat(),
    );
    client.expect(b"STORED\r\n");
    client.send(format!("get k{number}\r\n").as_bytes());
    let head = format!("VALUE k{number} 0 {bytes}\r\n");
    client.expect(&[head.as_bytes(), &value, b"\r\nEND\r\n"].concat());
}

#[test]
fn connections_that_wait_take_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let _process = ServerProcess::start(directory.path(), &["--hot-items", "0"]);
    let mut first = connect(directory.path());
    // Whatever the items take is there before the connections are.
    (0..CONNECTIONS).for_each(|number| set_and_get(&mut first, number, 100));
    set_and_get(&mut first, CONNECTIONS, LARGE);
    let before = dram(&mut first);
    let connected = |number| {
        let mut client = connect(directory.path());
        set_and_get(&mut client, number, 100);
        client
    };
    let mut clients: Vec<_> = (0..CONNECTIONS).map(connected).collect();
    let each = dram(&mut first).saturating_sub(before) / CONNECTIONS;
    assert!(each <= IDLE, "an idle connection takes {each} bytes");
    for client in &mut clients {
        set_and_get(client, CONNECTIONS, LARGE);
    }
    let each = dram(&mut first).saturating_sub(before) / CONNECTIONS;
    assert!(each <= AFTER_LARGE, "it takes {each} bytes after a large value");
    drop(clients);
}
