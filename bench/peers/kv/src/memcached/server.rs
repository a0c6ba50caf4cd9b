//! Servers in processes of their own.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use halocline_memcached::ServerSettings;

use super::redb::RedbStorage;
use crate::cli::{MemcachedOptions, RedbServerOptions, ServerKind};
use crate::disk;
use crate::systems::System;

/// Most connections of a server.
const MOST_CONNECTIONS: usize = 4096;
/// Longest time until a server must answer.
const START: Duration = Duration::from_secs(30);

/// A server that can be started.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) version: String,
    program: PathBuf,
    kind: ServerKind,
    /// The pool is treated as persistent memory. Otherwise every acknowledgement waits for the disk.
    is_dax: bool,
}

/// A server that runs, until it is dropped.
pub(crate) struct RunningServer {
    child: Child,
    address: SocketAddr,
}

impl MemcachedOptions {
    /// Returns the servers that are compared.
    pub(super) fn servers(&self, directory: &Path) -> Result<Vec<Server>> {
        let is_dax = disk::is_tmpfs(directory)?;
        let server = |kind: ServerKind| -> Result<Server> {
            let program = match kind {
                ServerKind::Memcached => self.memcached.clone(),
                ServerKind::Redb => std::env::current_exe()?,
                _ => self.halocline.clone(),
            };
            let version = match kind {
                ServerKind::Redb => System::Redb.version().to_owned(),
                _ => version(&program)?,
            };
            Ok(Server {
                name: kind.name().to_owned(),
                version,
                program,
                kind,
                is_dax,
            })
        };
        self.servers.iter().map(|kind| server(*kind)).collect()
    }
}

/// Returns the version that a program prints.
fn version(program: &Path) -> Result<String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.with_context(|| format!("cannot run {}", program.display()))?;
    let version = String::from_utf8_lossy(&output.stdout);
    Ok(version.split_whitespace().last().unwrap_or("unknown").to_owned())
}

/// Serves items in redb until the process is killed.
pub(crate) fn serve_redb(options: &RedbServerOptions) -> Result<()> {
    let storage = RedbStorage::open(&options.directory)?;
    let mut settings = ServerSettings::new(&options.directory);
    settings.listen = vec![options.listen];
    settings.threads = options.threads;
    settings.max_connections = MOST_CONNECTIONS;
    settings.hot_items = options.hot_items << 20;
    halocline_memcached::Server::with_storage(settings, Arc::new(storage))?.wait()?;
    Ok(())
}

impl Server {
    /// Starts the server with a pool in an empty directory, and waits until it accepts connections.
    pub(super) fn start(&self, directory: &Path, options: &MemcachedOptions) -> Result<RunningServer> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let (threads, hot_items) = (options.server_threads.to_string(), options.hot_items.to_string());
        let mut command = Command::new(&self.program);
        if self.kind == ServerKind::Redb {
            command.args([
                "memcached-over-redb",
                "--listen",
                &address.to_string(),
                "--threads",
                &threads,
            ]);
            command
                .args(["--hot-items", &hot_items, "--directory"])
                .arg(directory);
        } else {
            let connections = MOST_CONNECTIONS.to_string();
            command.args(["-l", "127.0.0.1", "-p", &address.port().to_string(), "-U", "0"]);
            command.args(["-t", &threads, "-c", &connections]);
        }
        match self.kind {
            ServerKind::Redb => {}
            // Enough for all items: none is evicted.
            ServerKind::Memcached => _ = command.args(["-m", "8192", "-u", "root"]),
            kind => {
                command
                    .arg(directory.join("items.pool"))
                    .args(["--hot-items", &hot_items]);
                if kind != ServerKind::Halocline {
                    command.args(["--tree", kind.name()]);
                }
                if self.is_dax {
                    command.arg("--assume-dax");
                }
            }
        }
        let child = command
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", self.name))?;
        let mut running = RunningServer { child, address };
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = running.child.try_wait()? {
                bail!("{} has ended: {status}", self.name);
            }
            if begun.elapsed() > START {
                bail!("{} does not accept connections on {address}", self.name);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(running)
    }
}

impl RunningServer {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
