//! TLS: handshakes, commands, plain and silent clients, files that cannot be used.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halocline_memcached::{Server, ServerSettings, TlsFiles};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::{Client, TestServer, data};

/// Writes a certificate for `localhost` and its key. Returns the files and the certificate.
fn certificate(directory: &Path) -> (TlsFiles, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles {
        certificate: directory.join("chain.pem"),
        key: directory.join("key.pem"),
    };
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    (files, made.cert.der().clone())
}

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// Connects with TLS, trusting one certificate.
fn connect(server: &TestServer, trusted: &CertificateDer<'static>) -> Client<TlsStream> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    Client {
        stream: StreamOwned::new(connection, server.connect().stream),
    }
}

#[test]
fn commands_and_large_values_pass_through_tls() {
    let directory = tempfile::tempdir().unwrap();
    let (files, certificate) = certificate(directory.path());
    let server = TestServer::start_with(|settings| settings.tls = Some(files));
    let mut client = connect(&server, &certificate);
    client.talk(
        "set k 5 0 2\r\nhi\r\nget k\r\n",
        "STORED\r\nVALUE k 5 2\r\nhi\r\nEND\r\n",
    );
    let large = data(700_000);
    client.send(format!("set large 0 0 {}\r\n", large.len()).as_bytes());
    client.send(&large);
    client.talk("\r\n", "STORED\r\n");
    client.talk("get large\r\n", "VALUE large 0 700000\r\n");
    client.expect(&large);
    client.talk("quit\r\n", "\r\nEND\r\n");
    client.expect_end();
}

#[test]
fn values_that_have_not_arrived_take_no_more_than_the_setting() {
    const BYTES: usize = 700_000;
    let directory = tempfile::tempdir().unwrap();
    let (files, certificate) = certificate(directory.path());
    let server = TestServer::start_with(|settings| {
        settings.tls = Some(files);
        settings.receive_memory = 2 << 20;
    });
    let mut first = connect(&server, &certificate);
    let mut receiving = || {
        first.stats("stats\r\n")["read_buf_bytes"]
            .parse::<usize>()
            .unwrap()
    };
    let begun = [format!("set k 0 0 {BYTES}\r\n").as_bytes(), &data(BYTES)[1000..]].concat();
    let mut clients = Vec::new();
    for number in 0..6 {
        let mut client = connect(&server, &certificate);
        client.send(&begun);
        if number < 2 {
            // The memory is taken before the next client begins.
            while receiving() < (number + 1) * BYTES {}
        } else {
            client.expect(b"SERVER_ERROR out of memory storing object\r\n")
        }
        clients.push(client);
    }
    drop(clients);
    while receiving() > 0 {}
}

#[test]
fn a_client_that_ends_its_side_gets_its_replies() {
    let directory = tempfile::tempdir().unwrap();
    let (files, certificate) = certificate(directory.path());
    let server = TestServer::start_with(|settings| settings.tls = Some(files));
    let mut client = connect(&server, &certificate);
    client.send(b"set k 0 0 1\r\nx\r\nget k\r\n");
    client.stream.conn.send_close_notify();
    client.stream.flush().unwrap();
    client.expect(b"STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
    // A side that is not ended in order is an error.
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn another_certificate_is_not_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let (files, trusted) = certificate(directory.path());
    let (_, other) = certificate(tempfile::tempdir().unwrap().path());
    let server = TestServer::start_with(|settings| settings.tls = Some(files));
    let mut client = connect(&server, &other);
    client.stream.write_all(b"mn\r\n").unwrap_err();
    connect(&server, &trusted).talk("mn\r\n", "MN\r\n");
}

#[test]
fn a_client_without_tls_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (files, certificate) = certificate(directory.path());
    let server = TestServer::start_with(|settings| settings.tls = Some(files));
    let mut plain = server.connect();
    plain.send(b"set k 0 0 2\r\nhi\r\n");
    let mut answer = Vec::new();
    // It may get an alert of TLS, but no reply.
    let _ = plain.stream.read_to_end(&mut answer);
    let alert = 21;
    assert!(answer.first().is_none_or(|first| *first == alert), "{answer:?}");
    connect(&server, &certificate).talk("get k\r\n", "END\r\n");
}

#[test]
fn a_handshake_ends_in_time() {
    let directory = tempfile::tempdir().unwrap();
    let (files, _) = certificate(directory.path());
    let server = TestServer::start_with(|settings| {
        settings.tls = Some(files);
        settings.idle_timeout = Duration::from_millis(50);
    });
    server.connect().expect_end();
}

#[test]
fn a_silent_handshake_does_not_hold_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let (files, _) = certificate(directory.path());
    let mut server = TestServer::start_with(|settings| settings.tls = Some(files));
    let mut silent = server.connect();
    std::thread::sleep(Duration::from_millis(50));
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    silent.expect_end();
}

#[test]
fn errors_name_the_file_that_cannot_be_used() {
    let directory = tempfile::tempdir().unwrap();
    let (good, _) = certificate(directory.path());
    let wrong = directory.path().join("wrong.pem");
    std::fs::write(&wrong, "no certificate and no key\n").unwrap();
    let broken = directory.path().join("broken.pem");
    let text = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    std::fs::write(&broken, text).unwrap();
    let missing = directory.path().join("missing.pem");
    for bad in [&wrong, &broken, &missing] {
        let of_certificate = TlsFiles {
            certificate: bad.clone(),
            ..good.clone()
        };
        let of_key = TlsFiles {
            key: bad.clone(),
            ..good.clone()
        };
        for files in [of_certificate, of_key] {
            let mut settings = ServerSettings::new(directory.path().join("cache.pool"));
            settings.tls = Some(files);
            let error = Server::start(settings).unwrap_err().to_string();
            assert!(error.starts_with(bad.to_str().unwrap()), "{error}");
        }
    }
}
