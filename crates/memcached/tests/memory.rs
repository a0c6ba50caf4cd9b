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
const LARGE_VALUE: usize = 1_000_000;

fn dram(client: &mut Client<UnixStream>) -> u64 {
    client.stats("stats\r\n")["dram_bytes"].parse().unwrap()
}

/// Returns the bytes that are taken for values which have not arrived.
fn receiving(client: &mut Client<UnixStream>) -> u64 {
    client.stats("stats\r\n")["read_buf_bytes"].parse().unwrap()
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
    set_and_get(&mut first, CONNECTIONS, LARGE_VALUE);
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
        set_and_get(client, CONNECTIONS, LARGE_VALUE);
    }
    let each = dram(&mut first).saturating_sub(before) / CONNECTIONS;
    assert!(each <= AFTER_LARGE, "it takes {each} bytes after a large value");
    // What follows a large value in one piece does not keep its buffer.
    let value = [
        format!("set k0 0 0 {LARGE_VALUE}\r\n").as_bytes(),
        &data(LARGE_VALUE),
        b"\r\nmn",
    ]
    .concat();
    for client in &mut clients {
        client.send(&value);
        client.expect(b"STORED\r\n");
    }
    let each = dram(&mut first).saturating_sub(before) / CONNECTIONS;
    assert!(
        each <= AFTER_LARGE,
        "it takes {each} bytes before the end of a small one"
    );
    for client in &mut clients {
        client.talk("\r\n", "MN\r\n");
    }
}

#[test]
fn values_that_have_not_arrived_take_no_more_than_the_setting() {
    /// MiB of `--receive-memory`, and values that find room in it.
    const SETTING: u64 = 4;
    const FITTING: usize = 4;
    const SENT: usize = LARGE_VALUE - 1000;
    for tree in [&[][..], &["--tree", "lb"]] {
        let directory = tempfile::tempdir().unwrap();
        let setting = SETTING.to_string();
        let options = [&["--hot-items", "0", "--receive-memory", &setting], tree].concat();
        let _process = ServerProcess::start(directory.path(), &options);
        let mut first = connect(directory.path());
        set_and_get(&mut first, 0, LARGE_VALUE);
        let before = dram(&mut first);
        let value = data(LARGE_VALUE);
        let lines = [
            format!("set k 0 0 {LARGE_VALUE}\r\n"),
            format!("append k 0 0 {LARGE_VALUE}\r\n"),
            format!("ms k {LARGE_VALUE} c\r\n"),
        ];
        let mut clients = Vec::new();
        for number in 0..CONNECTIONS as usize / 3 {
            let mut client = connect(directory.path());
            client.send(&[lines[number % lines.len()].as_bytes(), &value[..SENT]].concat());
            if number < FITTING {
                // The memory is taken before the next client begins.
                while receiving(&mut first) < ((number + 1) * LARGE_VALUE) as u64 {}
            } else {
                client.expect(b"SERVER_ERROR out of memory storing object\r\n")
            }
            clients.push(client);
        }
        let taken = dram(&mut first).saturating_sub(before);
        let most = (SETTING << 20) + AFTER_LARGE * clients.len() as u64;
        assert!(taken <= most, "{taken} bytes, at most {most}, {tree:?}");
        assert!(receiving(&mut first) <= SETTING << 20);
        // Each connection goes on.
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(&[&value[SENT..], b"\r\nmn\r\n"].concat());
            let reply = client.line();
            assert_eq!(reply == "MN", number >= FITTING, "{number}: {reply}");
        }
        assert_eq!(receiving(&mut first), 0);
    }
}
