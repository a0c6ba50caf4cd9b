//! Options of the program: those that are ignored, those that are refused, and where it listens by default.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::Client;

/// Returns a command that starts a server with a new pool in a directory.
fn server(directory: &tempfile::TempDir, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_halocline-memcached"));
    command
        .arg(directory.path().join("cache.pool"))
        .args(["--assume-dax", "-p", "0"])
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Starts a server, uses it through the only address that it listens on, and stops it. Returns the address
/// and the warnings.
fn served(options: &[&str]) -> (SocketAddr, String) {
    let directory = tempfile::tempdir().unwrap();
    let mut child = server(&directory, options).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening on ").expect(&line);
    let address: SocketAddr = address.parse().unwrap();
    let mut client = Client {
        stream: TcpStream::connect(address).unwrap(),
    };
    client.talk("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    line.clear();
    out.read_to_string(&mut line).unwrap();
    assert_eq!(line, "", "it listens elsewhere too");
    (address, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_server_listens_on_loopback_unless_it_is_told_otherwise() {
    let (address, warnings) = served(&[]);
    assert!(address.ip().is_loopback());
    assert_eq!(warnings, "");
    let (address, _) = served(&["-l", "0.0.0.0"]);
    assert!(address.ip().is_unspecified());
}

#[test]
fn options_without_a_meaning_are_ignored_with_a_warning() {
    let (_, warnings) = served(&[
        "-o",
        "modern,hashpower=20",
        "-o",
        "idle_timeout=60",
        "-u",
        "nobody",
    ]);
    let (_, tuning) = served(&["-f", "1.25", "-n", "48", "-LCkr", "-R", "20", "-b", "1024", "-vv"]);
    let warnings = warnings + &tuning;
    for ignored in [
        "-o modern",
        "-o hashpower=20",
        "-u",
        "-f",
        "-n",
        "-L",
        "-C",
        "-k",
        "-r",
        "-R",
        "-b",
    ] {
        assert!(
            warnings.contains(&format!("the option {ignored} is ignored")),
            "{warnings}"
        );
    }
    assert!(!warnings.contains("idle_timeout"), "{warnings}");
    assert!(!warnings.contains("-v"), "{warnings}");
}

#[test]
fn options_that_cannot_be_kept_are_refused() {
    for (options, reason) in [
        (&["-B", "binary"][..], "clients use the text protocol"),
        (&["-U", "11211"], "UDP is not supported"),
        (&["-Z"], "-Z needs -o ssl_chain_cert=FILE,ssl_key=FILE"),
        (&["-I", "2m"], "between 1k and 1m"),
        (&["-e", "items"], "unexpected argument '-e'"),
        (&["-d"], "unexpected argument '-d'"),
        (&["-Y", "/nowhere/users"], "/nowhere/users"),
        (&["-l", "256.256.256.256"], "256.256.256.256"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let output = server(&directory, options).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && error.contains(reason),
            "{options:?}: {error}"
        );
    }
}
