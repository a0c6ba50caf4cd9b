//! Clients that others have written: pymemcache, pylibmc, and the tools of libmemcached.
//!
//! A client that is not installed is passed over, unless the environment variable `HALOCLINE_CLIENTS` is
//! `required`. `HALOCLINE_CLIENTS_PYTHON` names the Python interpreter that has the modules, `python3` by
//! default.

#![allow(clippy::print_stdout, reason = "a test says when a client is missing")]

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::mpsc;
use std::time::Duration;

use halocline_memcached::{Server, ServerSettings};
use tempfile::TempDir;

/// The longest time that a client may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server with the clock of the system, which stops at the end of a test.
struct RunningServer {
    server: Option<Server>,
    address: SocketAddr,
    _directory: TempDir,
}

impl RunningServer {
    fn start() -> RunningServer {
        let directory = TempDir::new().unwrap();
        let mut settings = ServerSettings::new(directory.path().join("cache.pool"));
        settings.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        settings.threads = 2;
        settings.assume_dax = true;
        let server = Server::start(settings).unwrap();
        RunningServer {
            address: server.addresses()[0],
            server: Some(server),
            _directory: directory,
        }
    }

    fn host(&self) -> String {
        self.address.ip().to_string()
    }

    fn port(&self) -> String {
        self.address.port().to_string()
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
            server.wait().unwrap();
        }
    }
}

/// Says that a client is not installed, which is a failure if all are required.
fn missing(client: &str) {
    println!("{client} is not installed, so it is not tried");
    let required = std::env::var("HALOCLINE_CLIENTS").is_ok_and(|value| value == "required");
    assert!(
        !required,
        "{client} is not installed, but HALOCLINE_CLIENTS=required"
    );
}

/// Runs a program to its end. Returns `None` if it is not installed.
fn run(command: &mut Command) -> Option<Output> {
    use std::process::Stdio;
    let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = match spawned {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        spawned => spawned.unwrap(),
    };
    let id = child.id();
    let (finished, output) = mpsc::channel();
    let waiting = std::thread::spawn(move || finished.send(child.wait_with_output().unwrap()));
    let output = output.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
        panic!("{command:?} has not ended after {PATIENCE:?}");
    });
    waiting.join().unwrap().unwrap();
    Some(output)
}

fn assert_success(output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
}

/// Runs a script of `tests/clients` that needs a module.
fn python(module: &str, script: &str) {
    let python = std::env::var("HALOCLINE_CLIENTS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = format!("import {module}");
    let found = run(Command::new(&python).args(["-c", &import]));
    if !found.is_some_and(|output| output.status.success()) {
        return missing(module);
    }
    let server = RunningServer::start();
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clients")
        .join(script);
    let mut command = Command::new(&python);
    command.arg(script).args([server.host(), server.port()]);
    assert_success(&run(&mut command).unwrap());
}

#[test]
fn pymemcache() {
    python("pymemcache", "pymemcache_client.py");
}

#[test]
fn pylibmc() {
    python("pylibmc", "pylibmc_client.py");
}

#[test]
fn the_conformance_test_of_libmemcached_passes() {
    let server = RunningServer::start();
    let mut command = Command::new("memccapable");
    command.args(["-a", "-h", &server.host(), "-p", &server.port()]);
    let Some(output) = run(&mut command) else {
        return missing("memccapable");
    };
    assert_success(&output);
    let passed = BufReader::new(&output.stdout[..])
        .lines()
        .filter(|line| line.as_ref().unwrap().contains("[pass]"))
        .count();
    assert!(passed > 20, "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_load_of_libmemcached_finds_its_values() {
    let server = RunningServer::start();
    let mut command = Command::new("memcaslap");
    let servers = format!("{}:{}", server.host(), server.port());
    command.args(["-s", &servers, "-T", "2", "-c", "8", "-x", "20000"]);
    // It compares one value in ten, and gets ten keys at a time.
    command.args(["-w", "10k", "-v", "0.1", "-d", "10"]);
    let Some(output) = run(&mut command) else {
        return missing("memcaslap");
    };
    assert_success(&output);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("verify_failed: 0"), "{text}");
    assert!(text.contains("verify_misses: 0"), "{text}");
}
