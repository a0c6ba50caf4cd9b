//! Servers in processes of their own.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use halocline_memcached::ServerSettings;
use rustix::process::{Pid, Signal, kill_process};

use super::redb::RedbStorage;
use crate::cli::{RedbServerOptions, ServerKind, ServerOptions};
use crate::disk;
use crate::systems::System;

/// Most connections of a server.
const MOST_CONNECTIONS: usize = 4096;
/// Longest time until a server must answer.
const START: Duration = Duration::from_secs(600);

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

/// Settings of a start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    threads: usize,
    /// DRAM for copies of hot items in MiB.
    hot_items: u64,
    /// memcached keeps its items in a file, so that a restart finds them.
    is_warm: bool,
    /// Bytes of memory for items of memcached, in MiB.
    memory: u64,
    /// Time to wait between two attempts to connect.
    pause: Duration,
}

impl Start {
    /// Returns the settings for a server that is not started again.
    pub(super) fn new(options: &ServerOptions) -> Start {
        Start {
            threads: options.server_threads,
            hot_items: options.hot_items,
            is_warm: false,
            memory: 8192,
            pause: Duration::from_millis(5),
        }
    }

    /// Returns the settings for a server that is started again with its items.
    pub(super) fn warm(options: &ServerOptions, memory: u64) -> Start {
        Start {
            is_warm: true,
            memory,
            pause: Duration::from_micros(50),
            ..Start::new(options)
        }
    }
}

impl ServerOptions {
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
    /// Returns true if the server keeps its items when it is killed.
    pub(super) fn survives_kill(&self) -> bool {
        self.kind != ServerKind::Memcached
    }

    /// Starts the server with a pool in a directory, and waits until it accepts connections.
    pub(super) fn start(&self, directory: &Path, start: &Start) -> Result<RunningServer> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let (threads, hot_items) = (start.threads.to_string(), start.hot_items.to_string());
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
            ServerKind::Memcached => {
                command.args(["-m", &start.memory.to_string(), "-u", "root"]);
                if start.is_warm {
                    command.arg("-e").arg(directory.join("items.memory"));
                }
            }
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
            thread::sleep(start.pause);
        }
        Ok(running)
    }
}

impl RunningServer {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the server: by SIGKILL, or by SIGUSR1, on which memcached writes down what a restart needs.
    pub(super) fn end(&mut self, by_kill: bool) -> Result<()> {
        if by_kill {
            self.child.kill()?
        } else {
            kill_process(Pid::from_child(&self.child), Signal::USR1)?
        }
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
