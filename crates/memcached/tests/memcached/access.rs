//! Access: users, Unix sockets, idle connections, clients that do not read, the command `shutdown`.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::support::{Client, TestServer, data};

#[test]
fn clients_authenticate_first() {
    let directory = tempfile::tempdir().unwrap();
    let users = directory.path().join("users");
    std::fs::write(&users, "ann:secret\n").unwrap();
    let server = TestServer::start_with(|settings| settings.auth_file = Some(users));
    let mut client = server.connect();
    client.talk("get k\r\n", "CLIENT_ERROR unauthenticated\r\n");
    client.talk("ms k 2\r\nhi\r\n", "CLIENT_ERROR unauthenticated\r\n");
    client.talk(
        "set k 0 0 2\r\nhi\r\n",
        "CLIENT_ERROR bad authentication token format\r\n",
    );
    client.talk(
        "set k 0 0 9\r\nann wrong\r\n",
        "CLIENT_ERROR authentication failure\r\n",
    );
    client.talk("set k 0 0 10\r\nann secret\r\n", "STORED\r\n");
    client.talk("get k\r\n", "END\r\n");
    client.talk("set k 0 0 2\r\nhi\r\n", "STORED\r\n");
    let stats = client.stats("stats\r\n");
    assert_eq!(
        (stats["auth_cmds"].as_str(), stats["auth_errors"].as_str()),
        ("3", "2")
    );
}

#[test]
fn a_unix_socket_is_listened_on_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    // One that a server that was killed has left.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let mut server = TestServer::start_with(|settings| settings.socket = Some(path.clone()));
    let mut client = Client {
        stream: UnixStream::connect(&path).unwrap(),
    };
    client.talk(
        "set k 0 0 1\r\nx\r\nget k\r\n",
        "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n",
    );
    server.stop();
    assert!(!path.exists());
}

#[test]
fn a_unix_socket_has_the_permissions_that_are_asked_for() {
    for (mode, asked) in [(0o700, None), (0o666, Some(0o666)), (0o600, Some(0o600))] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let _server = TestServer::start_with(|settings| {
            settings.socket = Some(path.clone());
            settings.socket_mode = asked.unwrap_or(settings.socket_mode);
        });
        let found = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode);
    }
}

#[test]
fn idle_connections_are_closed() {
    let server = TestServer::start_with(|settings| settings.idle_timeout = Duration::from_millis(50));
    let mut client = server.connect();
    client.talk("mn\r\n", "MN\r\n");
    client.expect_end();
    assert_eq!(server.connect().stats("stats\r\n")["idle_kicks"], "1");
}

/// Sends requests until their replies fill all buffers, and reads none.
fn fill(server: &TestServer) -> Client<std::net::TcpStream> {
    let mut client = server.connect();
    let large = data(1_000_000);
    client.send(b"set large 0 0 1000000 noreply\r\n");
    client.send(&large);
    client.send(b"\r\n");
    // Many times what the buffers of two sockets hold.
    let _ = client.stream.write_all(&b"get large\r\n".repeat(100));
    std::thread::sleep(Duration::from_millis(100));
    client
}

#[test]
fn a_client_that_does_not_read_does_not_hold_the_server() {
    let mut server = TestServer::start();
    let _client = fill(&server);
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[test]
fn a_client_that_does_not_read_is_closed_after_the_idle_timeout() {
    let server = TestServer::start_with(|settings| settings.idle_timeout = Duration::from_millis(300));
    let _client = fill(&server);
    let begun = Instant::now();
    let mut other = server.connect();
    while other.stats("stats\r\n")["curr_connections"] != "1" {
        assert!(begun.elapsed() < Duration::from_secs(30), "it is still open");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_client_can_stop_the_server() {
    let mut server = TestServer::start_with(|settings| settings.allows_shutdown = true);
    let mut client = server.connect();
    client.send(b"shutdown\r\n");
    client.expect_end();
    server.stop();
}

#[test]
fn flush_all_can_be_forbidden() {
    let server = TestServer::start_with(|settings| settings.allows_flush = false);
    let mut client = server.connect();
    client.talk(
        "set k 0 0 1\r\nx\r\nflush_all\r\n",
        "STORED\r\nCLIENT_ERROR flush_all not allowed\r\n",
    );
    client.talk("flush_all noreply\r\nget k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
}
