//! Options on the command line, spelled as memcached's.

mod ignored;
mod values;

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use halocline_cache::PolicyKind;
use halocline_ordered::TreeKind;

use crate::error::{MemcachedError, Result};
use crate::server::{Server, Stopper};
use crate::settings::{Durability, ServerSettings, TlsFiles};
use ignored::IgnoredArgs;
use values::{item_size, mode, policy, positive, protocol, udp};

/// Bytes from which on a buffer has pages of its own.
const MIN_MAPPED_BYTES: usize = 128 << 10;

/// Unit of `-m`.
const MEBI: u64 = 1 << 20;

/// Options of the server.
#[derive(Debug, Clone, Args)]
pub struct MemcachedArgs {
    /// Pool of the items, created if it is not there.
    pool: PathBuf,
    /// Port to listen on; 0 with --socket alone.
    #[arg(short = 'p', long, default_value_t = 11211)]
    port: u16,
    /// Addresses to listen on, with or without a port. Repeatable, or separated by commas.
    #[arg(short = 'l', long, value_delimiter = ',', default_value = "127.0.0.1")]
    listen: Vec<String>,
    /// Unix socket to listen on instead of addresses.
    #[arg(
        short = 's',
        long = "socket",
        visible_alias = "unix-socket",
        value_name = "PATH"
    )]
    socket: Option<PathBuf>,
    /// Permissions of the socket, in octal.
    #[arg(short = 'a', long = "unix-mask", value_name = "MODE", default_value = "700", value_parser = mode)]
    socket_mode: u32,
    /// Meaning of an acknowledgement: `operation` (survives power loss), `group` (power loss from 10 ms
    /// later on) or `process` (the death of the process).
    #[arg(long, default_value_t)]
    durability: Durability,
    /// Keep the items of a new pool in trees of this kind (lb, fp, wb, fast-fair) instead of the key-value
    /// store.
    #[arg(long, value_name = "KIND")]
    tree: Option<TreeKind>,
    /// Treat the file as persistent memory although it is none, for measurements.
    #[arg(long)]
    assume_dax: bool,
    /// Bound of the pool in MiB, at which items are evicted. Without it everything is kept.
    #[arg(short = 'm', long = "memory-limit", value_name = "MIB")]
    memory_limit: Option<u64>,
    /// Fail at the bound instead of evicting items.
    #[arg(short = 'M', long)]
    disable_evictions: bool,
    /// Policy of eviction.
    #[arg(long, default_value = "s3-fifo", value_parser = policy)]
    eviction: PolicyKind,
    /// DRAM for copies of hot items in MiB, 0 for none [default: 64, at most an eighth of the DRAM]
    #[arg(long, value_name = "MIB")]
    hot_items: Option<u64>,
    /// Use the copies of hot items also where they do not pay, for measurements.
    #[arg(long)]
    hot_items_always: bool,
    /// Largest size of an item, with a suffix k or m; at most 1m.
    #[arg(short = 'I', long = "max-item-size", default_value = "1m", value_parser = item_size)]
    max_item: u64,
    /// DRAM for large values that have not arrived completely in MiB; a value that finds none is refused.
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    receive_memory: u64,
    /// Threads that serve connections.
    #[arg(short = 't', long, default_value_t = 4, value_parser = positive)]
    threads: usize,
    /// Connections at a time.
    #[arg(short = 'c', long = "conn-limit", default_value_t = 1024, value_parser = positive)]
    max_connections: usize,
    /// Allow the command `shutdown`.
    #[arg(short = 'A', long)]
    enable_shutdown: bool,
    /// Do not allow the command `flush_all`.
    #[arg(short = 'F', long)]
    disable_flush_all: bool,
    /// File of users, lines of `name:password`.
    #[arg(short = 'Y', long, value_name = "FILE")]
    auth_file: Option<PathBuf>,
    /// TLS on all addresses; needs -o ssl_chain_cert=FILE,ssl_key=FILE.
    #[arg(short = 'Z', long)]
    enable_ssl: bool,
    /// More options: idle_timeout=SECONDS, ssl_chain_cert=FILE, ssl_key=FILE. Others of memcached are
    /// ignored with a warning.
    #[arg(
        short = 'o',
        long = "extended",
        value_delimiter = ',',
        value_name = "OPTION[=VALUE]"
    )]
    extended: Vec<String>,
    /// Only `ascii` and `auto` are supported.
    #[arg(short = 'B', long, value_name = "PROTOCOL", default_value = "auto", value_parser = protocol)]
    protocol: String,
    /// Only 0 is supported: there is no UDP.
    #[arg(short = 'U', long, value_name = "PORT", default_value_t = 0, value_parser = udp)]
    udp_port: u16,
    /// File for the number of the process.
    #[arg(short = 'P', long, value_name = "FILE")]
    pidfile: Option<PathBuf>,
    #[command(flatten)]
    ignored: IgnoredArgs,
    /// Print help.
    #[arg(short = 'h', long, action = ArgAction::Help)]
    help: Option<bool>,
}

impl MemcachedArgs {
    /// Runs the server until a signal (SIGTERM, SIGINT) or the command `shutdown` stops it.
    ///
    /// # Errors
    /// An option is wrong, or the server cannot be started or stopped.
    pub fn run(&self) -> Result<()> {
        let settings = self.settings()?;
        // Buffers of large values are given back to the system with their connections.
        halocline_media::map_allocations_from(MIN_MAPPED_BYTES);
        let server = Server::start(settings)?;
        stop_at_signals(server.stopper())?;
        let io = |what| move |source| MemcachedError::Io { what, source };
        if let Some(path) = &self.pidfile {
            std::fs::write(path, format!("{}\n", std::process::id()))
                .map_err(io("the pidfile cannot be written"))?;
        }
        let mut out = io::stdout().lock();
        // A server whose output nobody reads serves all the same.
        for address in server.addresses() {
            let _ = writeln!(out, "listening on {address}");
        }
        if let Some(path) = &self.socket {
            let _ = writeln!(out, "listening on {}", path.display());
        }
        let _ = out.flush();
        drop(out);
        let stopped = server.wait();
        if let Some(path) = &self.pidfile {
            let _ = std::fs::remove_file(path);
        }
        stopped
    }

    /// Returns the settings.
    fn settings(&self) -> Result<ServerSettings> {
        let mut settings = ServerSettings::new(&self.pool);
        settings.listen = self.addresses()?;
        settings.socket.clone_from(&self.socket);
        settings.socket_mode = self.socket_mode;
        settings.durability = self.durability;
        settings.tree = self.tree;
        settings.assume_dax = self.assume_dax;
        // In memcached 0 stands for no limit as well.
        settings.memory_limit = self.memory_limit.filter(|mib| *mib > 0);
        settings.memory_limit = settings.memory_limit.map(|mib| mib.saturating_mul(MEBI));
        settings.evicts = !self.disable_evictions;
        settings.eviction = self.eviction;
        if let Some(hot_items) = self.hot_items {
            settings.hot_items = hot_items.saturating_mul(MEBI);
        }
        settings.hot_items_always = self.hot_items_always;
        settings.max_item = self.max_item;
        settings.receive_memory = self.receive_memory.saturating_mul(MEBI);
        settings.threads = self.threads;
        settings.max_connections = self.max_connections;
        settings.auth_file.clone_from(&self.auth_file);
        settings.allows_flush = !self.disable_flush_all;
        settings.allows_shutdown = self.enable_shutdown;
        let (mut certificate, mut key) = (None, None);
        for option in &self.extended {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match name {
                "idle_timeout" => {
                    let seconds = value
                        .parse()
                        .map_err(|_| bad_option("-o idle_timeout needs a number of seconds"))?;
                    settings.idle_timeout = Duration::from_secs(seconds);
                }
                "ssl_chain_cert" => certificate = Some(PathBuf::from(value)),
                "ssl_key" => key = Some(PathBuf::from(value)),
                _ => tracing::warn!("the option -o {option} is ignored"),
            }
        }
        settings.tls = match (self.enable_ssl, certificate, key) {
            (false, ..) => None,
            (true, Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
            (true, ..) => return Err(bad_option("-Z needs -o ssl_chain_cert=FILE,ssl_key=FILE")),
        };
        self.ignored.warn();
        Ok(settings)
    }

    fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let mut addresses = Vec::new();
        for text in &self.listen {
            let host = text.parse::<IpAddr>().ok();
            let host = host.or((text == "*").then_some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
            let found = match host {
                Some(host) => Ok(vec![SocketAddr::new(host, self.port)]),
                None if text.contains(':') => text.to_socket_addrs().map(Iterator::collect),
                None => (text.as_str(), self.port)
                    .to_socket_addrs()
                    .map(Iterator::collect),
            };
            let failed = |source| MemcachedError::Listen {
                at: text.clone(),
                source,
            };
            // A name may have several addresses, of which the first is meant.
            addresses.extend(found.map_err(failed)?.into_iter().take(1));
        }
        Ok(addresses)
    }
}

fn bad_option(what: &'static str) -> MemcachedError {
    MemcachedError::Io {
        what: "a wrong option",
        source: io::Error::new(io::ErrorKind::InvalidInput, what),
    }
}

fn stop_at_signals(stopper: Stopper) -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |source| MemcachedError::Io {
        what: "signals cannot be waited for",
        source,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let (mut terminate, mut interrupt) = {
        let _entered = runtime.enter();
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        (terminate, signal(SignalKind::interrupt()).map_err(failed)?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
        stopper.stop();
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Command, FromArgMatches};

    fn settings(words: &[&str]) -> std::result::Result<ServerSettings, String> {
        let command = MemcachedArgs::augment_args(Command::new("test").disable_help_flag(true));
        let words = ["test", "pool"].iter().chain(words);
        let matches = command
            .try_get_matches_from(words)
            .map_err(|error| error.to_string())?;
        let args = MemcachedArgs::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        args.settings().map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_spelled_as_in_memcached() {
        let found = settings(&[
            "-p",
            "0",
            "-m",
            "64",
            "-c",
            "9",
            "-t",
            "2",
            "-I",
            "2k",
            "-A",
            "-o",
            "idle_timeout=3,modern",
            "--tree",
            "fast-fair",
            "--hot-items",
            "3",
            "--receive-memory",
            "8",
        ]);
        let found = found.unwrap();
        assert_eq!(found.listen, [SocketAddr::from(([127, 0, 0, 1], 0))]);
        assert_eq!(
            (found.memory_limit, found.max_connections, found.threads),
            (Some(64 << 20), 9, 2)
        );
        assert_eq!((found.max_item, found.allows_shutdown), (2048, true));
        assert_eq!(found.idle_timeout, Duration::from_secs(3));
        assert_eq!((found.tree, found.hot_items), (Some(TreeKind::FastFair), 3 << 20));
        assert_eq!(found.receive_memory, 8 << 20);
    }

    #[test]
    fn no_number_is_too_large() {
        let most = u64::MAX.to_string();
        let found = settings(&[
            "-m",
            &most,
            "--receive-memory",
            &most,
            "-o",
            &format!("idle_timeout={most}"),
        ]);
        let found = found.unwrap();
        assert_eq!(
            (found.memory_limit, found.receive_memory),
            (Some(u64::MAX), u64::MAX)
        );
        assert_eq!(found.idle_timeout, Duration::from_secs(u64::MAX));
    }

    #[test]
    fn what_is_not_supported_says_so() {
        for (words, expected) in [
            (&["-B", "binary"][..], "text protocol"),
            (&["-U", "11211"], "UDP is not supported"),
            (&["-I", "2m"], "between 1k and 1m"),
            (&["-Z"], "ssl_chain_cert"),
            (&["--eviction", "best"], "unknown policy"),
            (&["--tree", "oak"], "unknown kind of tree"),
            (&["-o", "idle_timeout=x"], "number of seconds"),
            (&["-c", "0"], "at least 1"),
            (&["-t", "0"], "at least 1"),
            (&["-a", "789"], "permissions in octal"),
            (&["-a", "1777"], "permissions in octal"),
        ] {
            let error = settings(words).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
