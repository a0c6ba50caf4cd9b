//! Settings of a server.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use halocline_cache::PolicyKind;
use halocline_media::ram_bytes;
use halocline_ordered::TreeKind;

use crate::item;

/// Largest size of an item that the store can hold: key, data and header.
pub const MAX_ITEM: u64 = 1 << 20;

/// Default of [`ServerSettings::hot_items`], at most.
const HOT_ITEMS: u64 = 64 << 20;

/// Part of the DRAM that copies of hot items take by default, at most, as its inverse.
const HOT_ITEMS_DIVISOR: u64 = 8;

/// Returns the default of [`ServerSettings::hot_items`] beside so much DRAM: little in a small container.
fn default_hot_items(dram: u64) -> u64 {
    HOT_ITEMS.min(dram / HOT_ITEMS_DIVISOR)
}

/// Default of [`ServerSettings::receive_memory`].
const RECEIVE_MEMORY: u64 = 64 << 20;

/// Meaning of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Acknowledged changes survive power loss. On persistent memory that is the price of a fence, on a
    /// page-cache file that of `msync`, which commands that arrive together share.
    #[default]
    Operation,
    /// Acknowledged changes survive the death of the process at once, and power loss from the next sync on,
    /// one of which begins every [`GROUP`].
    Group,
    /// Acknowledged changes survive the death of the process at once, and power loss from the next checkpoint
    /// on.
    Process,
}

/// Time between two syncs with [`Durability::Group`].
pub const GROUP: Duration = Duration::from_millis(10);

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Durability::Operation => "operation",
            Durability::Group => "group",
            Durability::Process => "process",
        })
    }
}

impl std::str::FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Durability, String> {
        match text {
            "operation" => Ok(Durability::Operation),
            "group" => Ok(Durability::Group),
            "process" => Ok(Durability::Process),
            _ => Err(format!(
                "unknown durability `{text}`; use operation, group or process"
            )),
        }
    }
}

/// Files for TLS, in PEM format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate with its chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Settings of a [`Server`](crate::Server).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerSettings {
    /// The pool, which is created if it is not there.
    pub pool: PathBuf,
    /// Addresses to listen on. By default 127.0.0.1:11211.
    pub listen: Vec<SocketAddr>,
    /// Path of a socket to listen on.
    pub socket: Option<PathBuf>,
    /// Permissions of the socket, as of a file. By default 0o700.
    pub socket_mode: u32,
    /// Meaning of an acknowledgement.
    pub durability: Durability,
    /// Keeps the items of a new pool in trees of this kind instead of the key-value store. A pool that has
    /// items is opened as it is.
    ///
    /// Changes of trees wait for their fences with each durability. With [`Durability::Group`] and
    /// [`Durability::Process`] these do not sync a page-cache file; power loss can make it unusable then.
    pub tree: Option<TreeKind>,
    /// Treats a file that is not on persistent memory as if it were, for measurements.
    pub assume_dax: bool,
    /// Bytes that the pool may take. Without a limit, everything is kept.
    pub memory_limit: Option<u64>,
    /// True if items make room for others at the limit. Otherwise storing fails there.
    pub evicts: bool,
    /// The policy by which they do.
    pub eviction: PolicyKind,
    /// Bytes of DRAM for copies of hot items; 0 for none. By default 64 MiB, at most an eighth of the DRAM.
    pub hot_items: u64,
    /// Uses the copies also where they do not pay, for measurements.
    pub hot_items_always: bool,
    /// Largest size of an item in bytes, at most [`MAX_ITEM`].
    pub max_item: u64,
    /// Bytes of DRAM for large requests that have not arrived completely, of all connections together. A
    /// value that finds none is refused with `SERVER_ERROR out of memory storing object`. What a connection
    /// has received takes up to 64 KiB beside.
    pub receive_memory: u64,
    /// Threads that serve connections.
    pub threads: usize,
    /// Connections at a time. Others are told so and closed.
    pub max_connections: usize,
    /// Time after which a connection without requests is closed; zero for never.
    pub idle_timeout: Duration,
    /// File of users: lines of `name:password`.
    pub auth_file: Option<PathBuf>,
    /// TLS on all addresses.
    pub tls: Option<TlsFiles>,
    /// Allows `flush_all`.
    pub allows_flush: bool,
    /// Allows `shutdown`.
    pub allows_shutdown: bool,
}

impl ServerSettings {
    /// Returns the default settings for a pool.
    pub fn new(pool: impl Into<PathBuf>) -> ServerSettings {
        ServerSettings {
            pool: pool.into(),
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 11211))],
            socket: None,
            socket_mode: 0o700,
            durability: Durability::default(),
            tree: None,
            assume_dax: false,
            memory_limit: None,
            evicts: true,
            eviction: PolicyKind::S3Fifo,
            hot_items: default_hot_items(ram_bytes()),
            hot_items_always: false,
            max_item: MAX_ITEM,
            receive_memory: RECEIVE_MEMORY,
            threads: 4,
            max_connections: 1024,
            idle_timeout: Duration::ZERO,
            auth_file: None,
            tls: None,
            allows_flush: true,
            allows_shutdown: false,
        }
    }

    /// Returns the most bytes of data that an item with this key can have.
    pub(crate) fn most_data(&self, key: &[u8]) -> u64 {
        self.max_item
            .min(MAX_ITEM)
            .saturating_sub(item::size(key.len(), 0))
    }

    pub(crate) fn tcp_port(&self) -> u16 {
        self.listen.first().map_or(0, SocketAddr::port)
    }

    pub(crate) fn socket_text(&self) -> String {
        self.socket
            .as_ref()
            .map_or_else(|| "NULL".to_owned(), |path| path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durabilities_are_parsed_as_they_are_displayed() {
        for durability in [Durability::Operation, Durability::Group, Durability::Process] {
            assert_eq!(durability.to_string().parse(), Ok(durability));
        }
        assert!("none".parse::<Durability>().is_err());
    }

    #[test]
    fn copies_of_hot_items_take_little_in_a_small_container() {
        for (dram, hot_items) in [(128 << 20, 16 << 20), (400 << 20, 50 << 20), (1 << 40, 64 << 20)] {
            assert_eq!(default_hot_items(dram), hot_items);
        }
        assert_eq!(
            ServerSettings::new("pool").hot_items,
            default_hot_items(ram_bytes())
        );
    }

    #[test]
    fn the_largest_item_fits_the_store() {
        let settings = ServerSettings::new("pool");
        assert!(settings.most_data(b"k") < MAX_ITEM - 16);
    }
}
