//! Servers in processes of their own.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cli::MemcachedOptions;
use crate::disk;

/// Longest time until a server must answer.
const START: Duration = Duration::from_secs(30);

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

impl MemcachedOptions {
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
    /// Starts the server with a pool in an empty directory, and waits until it accepts connections.
    pub(super) fn start(&self, directory: &Path, options: &MemcachedOptions) -> Result<RunningServer> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new(&self.program);
        command.args(["-l", "127.0.0.1", "-p", &address.port().to_string(), "-U", "0"]);
        command.args(["-t", &options.server_threads.to_string(), "-c", "4096"]);
        match self.kind {
            // Enough for all items: none is evicted.
            Kind::Memcached => command.args(["-m", "8192", "-u", "root"]),
            Kind::HaloclineOnDax => command.arg(directory.join("items.pool")).arg("--assume-dax"),
            Kind::Halocline => command.arg(directory.join("items.pool")),
        };
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
