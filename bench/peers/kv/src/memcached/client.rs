//! Clients: threads with several connections each, on which one request at a time is under way.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use halocline_workloads::{SplitMix64, Zipf, ycsb_value};

/// The skew of YCSB.
const THETA: f64 = 0.99;
/// Items that are stored without a reply before one is awaited.
const UNANSWERED: u64 = 256;

/// The operations of the clients.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) address: SocketAddr,
    pub(super) items: u64,
    pub(super) value_bytes: usize,
    pub(super) sets_percent: u64,
    pub(super) connections: usize,
    pub(super) threads: usize,
    pub(super) operations: u64,
    pub(super) seed: u64,
}

/// Measurements of the clients.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    /// Requests a second.
    pub(super) rate: f64,
    pub(super) misses: u64,
    /// Latencies in nanoseconds, sorted.
    gets: Vec<u64>,
    sets: Vec<u64>,
}

impl Outcome {
    /// Returns a percentile of the latencies of gets, or of sets, in seconds.
    pub(super) fn percentile(&self, gets: bool, percent: f64) -> f64 {
        let latencies = if gets { &self.gets } else { &self.sets };
        let at = (latencies.len() as f64 * percent / 100.0) as usize;
        latencies
            .get(at.min(latencies.len().saturating_sub(1)))
            .map_or(f64::NAN, |nanos| *nanos as f64 / 1e9)
    }
}

pub(super) fn key(item: u64) -> String {
    format!("item:{item:027}")
}

impl Load {
    pub(super) fn set(&self, item: u64, version: u64, noreply: &str, request: &mut Vec<u8>) {
        let mut value = vec![0; self.value_bytes];
        ycsb_value(item, version, &mut value);
        request.extend_from_slice(format!("set {} 0 0 {}{noreply}\r\n", key(item), value.len()).as_bytes());
        request.extend_from_slice(&value);
        request.extend_from_slice(b"\r\n");
    }

    /// Stores all items.
    pub(super) fn fill(&self) -> Result<()> {
        let mut connection = Connection::open(self.address)?;
        for first in (0..self.items).step_by(UNANSWERED as usize) {
            let mut request = Vec::new();
            for item in first..self.items.min(first + UNANSWERED) {
                self.set(item, 0, " noreply", &mut request);
            }
            request.extend_from_slice(b"version\r\n");
            connection.send(&request)?;
            let reply = connection.line()?;
            ensure!(
                reply.starts_with(b"VERSION"),
                "an item was refused: {}",
                String::from_utf8_lossy(&reply)
            );
        }
        Ok(())
    }

    /// Runs the operations with all connections.
    pub(super) fn run(&self) -> Result<Outcome> {
        let zipf = Zipf::new(self.items, THETA)?;
        let start = Instant::now();
        let outcomes = thread::scope(|scope| {
            let clients: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let zipf = &zipf;
                    scope.spawn(move || self.client(thread, zipf))
                })
                .collect();
            let joined = clients
                .into_iter()
                .map(|client| client.join().map_err(|_| anyhow!("a client panicked"))?);
            joined.collect::<Result<Vec<Outcome>>>()
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let mut all = Outcome::default();
        for outcome in outcomes {
            all.misses += outcome.misses;
            all.gets.extend(outcome.gets);
            all.sets.extend(outcome.sets);
        }
        all.rate = (all.gets.len() + all.sets.len()) as f64 / seconds;
        all.gets.sort_unstable();
        all.sets.sort_unstable();
        Ok(all)
    }

    /// Runs a thread's part of the operations on its connections, in rounds of one request on each.
    fn client(&self, thread: usize, zipf: &Zipf) -> Result<Outcome> {
        let own = (thread..self.connections).step_by(self.threads);
        let mut connections: Vec<Connection> = own
            .map(|_| Connection::open(self.address))
            .collect::<Result<_>>()?;
        let mut random = SplitMix64::stream(self.seed, thread as u64);
        let mut outcome = Outcome::default();
        let rounds = self.operations / self.connections as u64;
        let mut request = Vec::new();
        for round in 0..rounds {
            for connection in &mut connections {
                request.clear();
                let item = scattered(zipf.sample(&mut random), self.items);
                let is_set = random.below(100) < self.sets_percent;
                if is_set {
                    self.set(item, round + 1, "", &mut request)
                } else {
                    request.extend_from_slice(format!("get {}\r\n", key(item)).as_bytes())
                }
                connection.sent = Some((is_set, Instant::now()));
                connection.send(&request)?;
            }
            for connection in &mut connections {
                let Some((is_set, sent)) = connection.sent.take() else {
                    continue;
                };
                if is_set {
                    let reply = connection.line()?;
                        ensure!(
                            reply == b"STORED\r\n",
                            "a set was answered with {}",
                            String::from_utf8_lossy(&reply)
                        );
                        outcome.sets.push(sent.elapsed().as_nanos() as u64);
                } else {
                    outcome.misses += u64::from(!connection.value(self.value_bytes)?);
                    outcome.gets.push(sent.elapsed().as_nanos() as u64);
                }
            }
        }
        Ok(outcome)
    }
}

/// Spreads ranks over the items, so that frequent ones are not neighbours.
pub(super) fn scattered(rank: u64, items: u64) -> u64 {
    rank.wrapping_mul(0x9E37_79B9_7F4A_7C15) % items
}

/// A connection with what was received.
pub(super) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// The request under way: whether it is a set, and when it was sent.
    sent: Option<(bool, Instant)>,
}

impl Connection {
    pub(super) fn open(address: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            stream,
            received: Vec::new(),
            sent: None,
        })
    }

    pub(super) fn send(&mut self, request: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(request)?)
    }

    fn receive(&mut self) -> Result<()> {
        let mut buffer = [0; 16 << 10];
        let read = self.stream.read(&mut buffer)?;
        ensure!(read > 0, "the server has closed a connection");
        self.received.extend_from_slice(&buffer[..read]);
        Ok(())
    }

    /// Returns the next line with its end.
    pub(super) fn line(&mut self) -> Result<Vec<u8>> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                return Ok(self.received.drain(..=end).collect());
            }
            self.receive()?;
        }
    }

    /// Reads the reply to a get, whose value has `bytes` bytes. Returns false if there is none.
    fn value(&mut self, bytes: usize) -> Result<bool> {
        if self.line()?.starts_with(b"END") {
            return Ok(false);
        }
        self.rest_of_value(bytes).map(|_| true)
    }

    /// Reads a value of `bytes` bytes after its line, and the end of the reply.
    fn rest_of_value(&mut self, bytes: usize) -> Result<Vec<u8>> {
        let rest = bytes + b"\r\nEND\r\n".len();
        while self.received.len() < rest {
            self.receive()?;
        }
        ensure!(
            self.received[..rest].ends_with(b"\r\nEND\r\n"),
            "a value does not end where it should"
        );
        let mut value: Vec<u8> = self.received.drain(..rest).collect();
        value.truncate(bytes);
        Ok(value)
    }

    /// Returns the value of an item, which has `bytes` bytes, with its cas value. `None` if there is none.
    pub(super) fn gets(&mut self, item: u64, bytes: usize) -> Result<Option<(Vec<u8>, u64)>> {
        self.send(format!("gets {}\r\n", key(item)).as_bytes())?;
        let line = String::from_utf8(self.line()?)?;
        if line.starts_with("END") {
            return Ok(None);
        }
        let cas = line.split_whitespace().last().unwrap_or_default();
        let cas = cas
            .parse()
            .with_context(|| format!("the reply to gets is {line}"))?;
        Ok(Some((self.rest_of_value(bytes)?, cas)))
    }
}
