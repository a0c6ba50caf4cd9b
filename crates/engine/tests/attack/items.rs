//! Items of a memcached server in trees of the attacked pool, and what must be found of them.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use halocline_memcached::{MemcachedError, Server, ServerSettings, check_items};
use halocline_ordered::TreeKind;
use halocline_pool::{Pool, PoolOptions};
use halocline_workloads::SplitMix64;

/// Prefix of the names of the objects with items.
pub(crate) const ITEMS: &str = "memcached/";
/// Keys that are set.
const KEYS: u64 = 150;
/// Lengths of values. The longest one fits no node, so that it is in several.
const LENGTHS: [usize; 6] = [0, 30, 200, 700, 1500, 5000];
const LONGEST: usize = 80_000;
/// Items that are read.
const LOOKUPS: u64 = 30;
/// The time that a reply may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The state of the items after a case.
#[derive(Debug, Default)]
pub(crate) struct ItemsSeen {
    pub(crate) errors: Vec<String>,
    /// Answers that are not right.
    pub(crate) wrong: Vec<String>,
}

/// Stores all of them by a server, which creates the pool if there is none.
pub(crate) fn make(path: &Path) {
    let server = start(path, Some(TreeKind::Lb)).unwrap();
    let mut client = Client::new(&server).unwrap();
    for number in 0..KEYS {
        let reply = client.set(&key(number), &value(number)).unwrap();
        assert_eq!(reply, "STORED\r\n");
    }
    for number in (0..KEYS).filter(|number| is_deleted(*number)) {
        let reply = client.ask(&format!("delete {}\r\n", key(number))).unwrap();
        assert_eq!(reply, "DELETED\r\n");
    }
    drop(client);
    server.stop();
    server.wait().unwrap();
}

/// Has the records of all items verified, and asks a server for some of them if `serve`, and changes some.
pub(crate) fn visit(path: &Path, serve: bool, rng: &mut SplitMix64) -> ItemsSeen {
    let mut seen = ItemsSeen::default();
    if let Err(error) = verify(path, &mut seen) {
        seen.errors.push(error.to_string());
    }
    if serve {
        match start(path, None) {
            Ok(server) => {
                let talked = Client::new(&server).and_then(|mut client| talk(&mut client, rng, &mut seen));
                if let Err(error) = talked {
                    seen.wrong.push(format!("the server hung up: {error}"));
                }
                server.stop();
                seen.errors
                    .extend(server.wait().err().map(|error| error.to_string()));
            }
            Err(error) => seen.errors.push(error.to_string()),
        }
    }
    seen
}

/// Returns what a check of the items finds, or why they cannot be read.
pub(crate) fn problems(path: &Path) -> Vec<String> {
    let mut seen = ItemsSeen::default();
    let refused = verify(path, &mut seen).err().map(|error| error.to_string());
    seen.errors.into_iter().chain(refused).collect()
}

fn verify(path: &Path, seen: &mut ItemsSeen) -> Result<(), MemcachedError> {
    let pool = Pool::open(path, &PoolOptions::default().with_read_only(true))?;
    let report = check_items(&pool, &mut |_| ControlFlow::Continue(()))?;
    let there = (0..KEYS).filter(|number| !is_deleted(*number)).count() as u64;
    if report.problems.is_empty() && report.items != there {
        let text = format!("check finds {} of {there} items", report.items);
        seen.wrong.push(text);
    }
    let problems = report.problems.iter();
    seen.errors.extend(problems.map(ToString::to_string));
    Ok(())
}

fn start(path: &Path, tree: Option<TreeKind>) -> Result<Server, MemcachedError> {
    let mut settings = ServerSettings::new(path);
    settings.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    settings.tree = tree;
    settings.hot_items = 0;
    settings.threads = 1;
    Server::start(settings)
}

/// Reads items, and stores some of them again.
fn talk(client: &mut Client, rng: &mut SplitMix64, seen: &mut ItemsSeen) -> io::Result<()> {
    for _ in 0..LOOKUPS {
        let number = rng.below(KEYS + 10);
        let is_there = number < KEYS && !is_deleted(number);
        let expected = if is_there {
            found(number, &value(number))
        } else {
            "END\r\n".to_owned()
        };
        let reply = client.ask(&format!("get {}\r\n", key(number)))?;
        seen.judge(&format!("get of {}", key(number)), &reply, &expected);
    }
    for number in [rng.below(KEYS), rng.below(KEYS)] {
        // An item that is damaged is stored again.
        let reply = client.set(&key(number), "new")?;
        seen.judge(&format!("set of {}", key(number)), &reply, "STORED\r\n");
        if reply == "STORED\r\n" {
            let reply = client.ask(&format!("get {}\r\n", key(number)))?;
            seen.judge(&format!("get of {}", key(number)), &reply, &found(number, "new"));
        }
    }
    Ok(())
}

impl ItemsSeen {
    fn judge(&mut self, what: &str, reply: &str, expected: &str) {
        if reply.starts_with("SERVER_ERROR ") {
            self.errors.push(format!("{what}: {}", reply.trim_end()));
        } else if reply != expected {
            let start: String = reply.chars().take(60).collect();
            self.wrong.push(format!("{what} is {start:?}"));
        }
    }
}

/// Returns the key of a number. Some are nearly as long as a server accepts.
fn key(number: u64) -> String {
    match number % 10 {
        0 => format!("{}{number}", "k".repeat(240)),
        _ => format!("item-{number}"),
    }
}

fn is_deleted(number: u64) -> bool {
    number % 9 == 4
}

fn value(number: u64) -> String {
    let len = match number {
        77 => LONGEST,
        _ => LENGTHS[(number % LENGTHS.len() as u64) as usize],
    };
    let mut rng = SplitMix64::new(number);
    (0..len).map(|_| char::from(b'a' + rng.below(26) as u8)).collect()
}

/// Returns the reply to a get.
fn found(number: u64, value: &str) -> String {
    format!("VALUE {} 0 {}\r\n{value}\r\nEND\r\n", key(number), value.len())
}

/// A connection to a server.
struct Client(TcpStream);

impl Client {
    fn new(server: &Server) -> io::Result<Self> {
        let stream = TcpStream::connect(server.addresses()[0])?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    fn set(&mut self, key: &str, value: &str) -> io::Result<String> {
        self.ask(&format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()))
    }

    /// Sends a command, and reads its reply. Values have no line ends.
    fn ask(&mut self, command: &str) -> io::Result<String> {
        self.0.write_all(command.as_bytes())?;
        let mut reply = Vec::new();
        let mut part = [0; 4096];
        loop {
            let is_value = reply.starts_with(b"VALUE ");
            if is_value && reply.ends_with(b"\r\nEND\r\n") || !is_value && reply.ends_with(b"\r\n") {
                return Ok(String::from_utf8_lossy(&reply).into_owned());
            }
            match self.0.read(&mut part)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => reply.extend_from_slice(&part[..len]),
            }
        }
    }
}
