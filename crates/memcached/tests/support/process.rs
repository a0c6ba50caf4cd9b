//! A server in a process of its own, with a Unix socket.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::Client;

/// A running process, which is killed when this is dropped.
pub(crate) struct ServerProcess(Child);

impl ServerProcess {
    /// Starts a server with a pool and a socket in a directory.
    pub(crate) fn start(directory: &Path, arguments: &[&str]) -> ServerProcess {
        ServerProcess::start_within("true", directory, arguments)
    }

    /// Starts a server after a command of the shell, such as one that sets limits.
    pub(crate) fn start_within(limits: &str, directory: &Path, arguments: &[&str]) -> ServerProcess {
        let mut child = Command::new("bash")
            .args(["-c", &format!("{limits} && exec \"$0\" \"$@\"")])
            .arg(env!("CARGO_BIN_EXE_halocline-memcached"))
            .arg(directory.join("cache.pool"))
            .args(["--assume-dax", "-t", "2", "-s"])
            .arg(directory.join("socket"))
            .args(arguments)
            .stdout(Stdio::piped())
            // A limit of the size of files would end a server whose output goes to a file.
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on"), "{line}");
        ServerProcess(child)
    }

    pub(crate) fn id(&self) -> i32 {
        self.0.id().try_into().unwrap()
    }

    /// Sends a signal, and waits for the end.
    pub(crate) fn end(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
        self.0.wait().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn connect(directory: &Path) -> Client<UnixStream> {
    let stream = UnixStream::connect(directory.join("socket")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    Client { stream }
}
