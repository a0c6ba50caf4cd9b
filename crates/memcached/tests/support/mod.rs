//! A server in this process with a clock of its own, and clients that compare what they receive.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

pub(crate) mod process;
pub(crate) mod random;

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use halocline_memcached::{Server, ServerSettings};
use tempfile::TempDir;

/// The time at which the clock begins, in ms since 1970.
const START: u64 = 1_800_000_000_000;

/// A running server.
pub(crate) struct TestServer {
    server: Option<Server>,
    /// Where it listens; without meaning if that is a Unix socket.
    address: SocketAddr,
    clock: Arc<AtomicU64>,
    directory: TempDir,
}

impl TestServer {
    pub(crate) fn start() -> TestServer {
        TestServer::start_with(|_| {})
    }

    /// Starts with changed settings.
    pub(crate) fn start_with(change: impl FnOnce(&mut ServerSettings)) -> TestServer {
        TestServer::start_in(TempDir::new().unwrap(), change)
    }

    /// Starts on the image of a pool.
    pub(crate) fn start_on(pool: &[u8]) -> TestServer {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("cache.pool"), pool).unwrap();
        TestServer::start_in(directory, |_| {})
    }

    fn start_in(directory: TempDir, change: impl FnOnce(&mut ServerSettings)) -> TestServer {
        let clock = Arc::new(AtomicU64::new(START));
        let server = start(directory.path(), &clock, change);
        TestServer {
            address: address(&server),
            server: Some(server),
            clock,
            directory,
        }
    }

    /// Stops the server and starts it again on the same pool.
    pub(crate) fn restart(&mut self, change: impl FnOnce(&mut ServerSettings)) {
        self.stop();
        let server = start(self.directory.path(), &self.clock, change);
        self.address = address(&server);
        self.server = Some(server);
    }

    pub(crate) fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
            server.wait().unwrap();
        }
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.clock.fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    pub(crate) fn connect(&self) -> Client<TcpStream> {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        // A reply that does not come fails the test instead of hanging it.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Client { stream }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn address(server: &Server) -> SocketAddr {
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    server.addresses().first().copied().unwrap_or(any)
}

fn start(directory: &Path, clock: &Arc<AtomicU64>, change: impl FnOnce(&mut ServerSettings)) -> Server {
    let mut settings = ServerSettings::new(directory.join("cache.pool"));
    settings.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    settings.threads = 2;
    settings.assume_dax = true;
    change(&mut settings);
    let clock = Arc::clone(clock);
    Server::start_with_clock(settings, Arc::new(move || clock.load(Ordering::SeqCst))).unwrap()
}

/// Returns bytes of all kinds.
pub(crate) fn data(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// A connection.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Reads as many bytes as are expected and compares.
    pub(crate) fn expect(&mut self, expected: &[u8]) {
        let mut found = vec![0; expected.len()];
        let mut len = 0;
        while len < found.len() && found[..len] == expected[..len] {
            match self.stream.read(&mut found[len..]).unwrap() {
                0 => break,
                read => len += read,
            }
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned();
        assert_eq!(text(&found[..len]), text(expected));
        assert!(found[..len] == *expected);
    }

    pub(crate) fn expect_end(&mut self) {
        let mut rest = Vec::new();
        // A connection that is reset has ended as well.
        let _ = self.stream.read_to_end(&mut rest);
        assert_eq!(String::from_utf8_lossy(&rest), "");
    }

    pub(crate) fn talk(&mut self, text: &str, expected: &str) {
        self.send(text.as_bytes());
        self.expect(expected.as_bytes());
    }

    /// Sends a command, and returns the line of the reply unless the connection ends.
    pub(crate) fn try_ask(&mut self, command: &[u8]) -> Option<String> {
        self.stream.write_all(command).ok()?;
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            match self.stream.read(&mut byte) {
                Ok(1) => line.push(byte[0]),
                _ => return None,
            }
        }
        line.truncate(line.len() - 2);
        String::from_utf8(line).ok()
    }

    /// Returns the next line without its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            assert_eq!(
                self.stream.read(&mut byte).unwrap(),
                1,
                "the connection has ended"
            );
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        String::from_utf8(line).unwrap()
    }

    /// Returns the cas value of a key.
    pub(crate) fn cas(&mut self, key: &str) -> u64 {
        self.send(format!("mg {key} c\r\n").as_bytes());
        let line = self.line();
        line.strip_prefix("HD c").expect("an item").parse().unwrap()
    }

    pub(crate) fn stats(&mut self, command: &str) -> HashMap<String, String> {
        self.send(command.as_bytes());
        let mut stats = HashMap::new();
        loop {
            let line = self.line();
            let mut words = line.splitn(3, ' ');
            match (words.next(), words.next(), words.next()) {
                (Some("STAT"), Some(name), Some(value)) => {
                    stats.insert(name.to_owned(), value.to_owned());
                }
                _ => {
                    assert_eq!(line, "END");
                    return stats;
                }
            }
        }
    }
}
