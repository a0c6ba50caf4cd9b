//! Servers in processes of their own.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::cli::ServerOptions;
use crate::disk;

/// Longest time until a server must answer.
const START: Duration = Duration::from_secs(600);

/// A server that can be started.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) version: String,
    program: PathBuf,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Memcached,
    /// Halocline, whose pool is treated as persistent memory.
    HaloclineOnDax,
    /// Halocline on a page-cache file: every acknowledgement waits for the disk.
    Halocline,
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
        let halocline = match disk::is_tmpfs(directory)? {
            true => Kind::HaloclineOnDax,
            false => Kind::Halocline,
        };
        let server = |name: &str, program: &Path, kind| -> Result<Server> {
            let output = Command::new(program).arg("--version").output();
            let output = output.with_context(|| format!("cannot run {}", program.display()))?;
            let version = String::from_utf8_lossy(&output.stdout);
            let version = version.split_whitespace().last().unwrap_or("unknown").to_owned();
            Ok(Server {
                name: name.to_owned(),
                version,
                program: program.to_path_buf(),
                kind,
            })
        };
        Ok(vec![
            server("halocline", &self.halocline, halocline)?,
            server("memcached", &self.memcached, Kind::Memcached)?,
        ])
    }
}

impl Server {
    /// Returns true if the server keeps its items when it is killed.
    pub(super) fn survives_kill(&self) -> bool {
        self.kind != Kind::Memcached
    }

    /// Starts the server with a pool in a directory, and waits until it accepts connections.
    pub(super) fn start(&self, directory: &Path, start: &Start) -> Result<RunningServer> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new(&self.program);
        command.args(["-l", "127.0.0.1", "-p", &address.port().to_string(), "-U", "0"]);
        command.args(["-t", &start.threads.to_string(), "-c", "4096"]);
        match self.kind {
            // Enough for all items: none is evicted.
            Kind::Memcached => command.args(["-m", &start.memory.to_string(), "-u", "root"]),
            Kind::HaloclineOnDax => command.arg(directory.join("items.pool")).arg("--assume-dax"),
            Kind::Halocline => command.arg(directory.join("items.pool")),
        };
        if start.is_warm && self.kind == Kind::Memcached {
            command.arg("-e").arg(directory.join("items.memory"));
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
        match by_kill {
            true => self.child.kill()?,
            false => kill_process(Pid::from_child(&self.child), Signal::USR1)?,
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
