//! A disk that is full, which a limit of the size of files stands for: the pool cannot grow.

use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::process::{ServerProcess, connect};
use crate::support::{Client, data};

/// Bytes of data of an item.
const ITEM: usize = 20_000;
/// The reply to a command for which there is no room.
const REFUSED: &str = "SERVER_ERROR out of memory storing object";
/// Refusals in a row after which the disk counts as full.
const REFUSALS: usize = 200;
/// Most attempts until an item must be stored.
const ATTEMPTS: usize = 100_000;

/// A server whose pool cannot grow beyond 24 MiB, with as many items as there was room for.
struct FullServer {
    options: &'static [&'static str],
    directory: tempfile::TempDir,
    process: ServerProcess,
    client: Client<UnixStream>,
    items: usize,
}

/// Options of the servers.
const STORE: &[&str] = &[];
const TREE: &[&str] = &["--tree", "lb"];

fn start(directory: &Path, options: &[&str]) -> ServerProcess {
    ServerProcess::start_within("ulimit -S -f 24576", directory, options)
}

/// Stores an item, and returns the reply.
fn set(client: &mut Client<UnixStream>, number: usize) -> String {
    let value = &data(ITEM + number)[number..];
    client.send(&[format!("set k{number} 0 0 {ITEM}\r\n").as_bytes(), value, b"\r\n"].concat());
    client.line()
}

impl FullServer {
    fn start(options: &'static [&'static str]) -> FullServer {
        let directory = tempfile::tempdir().unwrap();
        let process = start(directory.path(), options);
        let mut client = connect(directory.path());
        let (mut items, mut refusals) = (0, 0);
        // The space of what was superseded may become free in the background.
        while refusals < REFUSALS {
            match set(&mut client, items).as_str() {
                "STORED" => (items, refusals) = (items + 1, 0),
                refused => {
                    assert_eq!(refused, REFUSED);
                    refusals += 1;
                }
            }
            assert!(items < 2000, "the limit has no effect");
        }
        assert!(items > 200, "{items} items");
        FullServer {
            options,
            directory,
            process,
            client,
            items,
        }
    }

    /// Kills the server and starts it again.
    fn kill(&mut self) {
        self.process.kill();
        self.process = start(self.directory.path(), self.options);
        self.client = connect(self.directory.path());
    }

    /// Gives the pool as much room as it needs.
    fn make_room(&self) {
        let pid = Pid::from_raw(self.process.id());
        let limit = Rlimit {
            current: None,
            maximum: None,
        };
        prlimit(pid, Resource::Fsize, limit).unwrap();
    }

    /// Reads all items but those that were removed.
    fn read(&mut self, from: usize) {
        for number in from..self.items {
            self.client.send(format!("get k{number}\r\n").as_bytes());
            let value = &data(ITEM + number)[number..];
            let head = format!("VALUE k{number} 0 {ITEM}\r\n");
            self.client
                .expect(&[head.as_bytes(), value, b"\r\nEND\r\n"].concat());
        }
    }

    /// Stores an item, which may take the server some time to make room for.
    fn store_at_last(&mut self, number: usize) {
        let stored = (0..ATTEMPTS).any(|_| match set(&mut self.client, number).as_str() {
            "STORED" => true,
            refused => {
                assert_eq!(refused, REFUSED);
                false
            }
        });
        assert!(stored, "item {number} is not stored");
    }
}

#[test]
fn reads_go_on_and_nothing_acknowledged_is_lost() {
    for options in [STORE, TREE] {
        let mut server = FullServer::start(options);
        server.read(0);
        for _ in 0..10 {
            assert_eq!(set(&mut server.client, 5000), REFUSED);
        }
        assert!(
            server.client.stats("stats\r\n")["store_no_memory"]
                .parse::<u64>()
                .unwrap()
                > 10
        );
        server.client.talk("get k5000\r\n", "END\r\n");
        // Whoever wants no reply gets none.
        let value = data(ITEM);
        let silent = [
            format!("set k5000 0 0 {ITEM} noreply\r\n").as_bytes(),
            &value,
            b"\r\nmn\r\n",
        ]
        .concat();
        server.client.send(&silent);
        server.client.expect(b"MN\r\n");
        server.kill();
        server.read(0);
        server.client.talk("get k5000\r\n", "END\r\n");
        server.read(0);
    }
}

#[test]
fn commands_that_arrive_together_are_stored_as_far_as_there_is_room() {
    for options in [STORE, TREE] {
        let mut server = FullServer::start(options);
        let value = data(ITEM);
        let mut requests = Vec::new();
        for number in 0..20 {
            requests.extend(format!("set large{number} 0 0 {ITEM}\r\n").bytes());
            requests.extend([&value[..], b"\r\nset small 0 0 1\r\nx\r\n"].concat());
        }
        server.client.send(&requests);
        for _ in 0..40 {
            let reply = server.client.line();
            assert!(reply == "STORED" || reply == REFUSED, "{reply}");
        }
        server.read(0);
    }
}

#[test]
fn writes_go_on_with_more_room() {
    for options in [STORE, TREE] {
        let mut server = FullServer::start(options);
        server.make_room();
        for _ in 0..100 {
            server.store_at_last(server.items);
            server.items += 1;
        }
        server.read(0);
        server.process.kill();
        server.process = ServerProcess::start(server.directory.path(), server.options);
        server.client = connect(server.directory.path());
        server.read(0);
    }
}

#[test]
fn writes_go_on_after_deletions() {
    for options in [STORE, TREE] {
        let mut server = FullServer::start(options);
        let gone = server.items / 2;
        // Room for deletions is kept, so that the first attempt succeeds.
        for number in 0..gone {
            server
                .client
                .talk(&format!("delete k{number}\r\n"), "DELETED\r\n");
        }
        for number in 0..gone / 2 {
            server.store_at_last(5000 + number);
        }
        server.kill();
        server.read(gone);
        for number in 0..gone / 2 {
            server.client.talk(
                &format!("mg k{} s\r\n", 5000 + number),
                &format!("HD s{ITEM}\r\n"),
            );
        }
    }
}

#[test]
fn writes_go_on_after_a_flush() {
    for options in [STORE, TREE] {
        let mut server = FullServer::start(options);
        server.client.talk("flush_all\r\n", "OK\r\n");
        server.client.talk("get k0\r\n", "END\r\n");
        let again = server.items / 2;
        for number in 0..again {
            server.store_at_last(5000 + number);
        }
        server.kill();
        server.client.talk("get k0\r\n", "END\r\n");
        for number in 0..again {
            server.client.talk(
                &format!("mg k{} s\r\n", 5000 + number),
                &format!("HD s{ITEM}\r\n"),
            );
        }
    }
}
