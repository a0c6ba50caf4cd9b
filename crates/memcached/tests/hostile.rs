//! Bytes that no client sends: mutated commands, huge numbers, missing ends, in pieces of any length.
//!
//! `HALOCLINE_SEQUENCES` is the number of cases, `HALOCLINE_SEED` replays those of a run.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::TestServer;
use support::random::{Random, seed};

/// Panics of any thread, also of those that serve connections.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            report(panic);
        }));
    });
}

/// Requests to begin with. None of their replies depends on the time or on other connections.
const REQUESTS: [&[u8]; 32] = [
    b"set k 5 0 3\r\nabc\r\n",
    b"set k 0 100 3 noreply\r\nabc\r\n",
    b"add k 0 0 1\r\n1\r\n",
    b"add n 0 0 2\r\n10\r\n",
    b"replace k 0 -1 1\r\n2\r\n",
    b"append k 0 0 4\r\n\r\n\r\n\r\n",
    b"prepend n 0 0 1\r\n7\r\n",
    b"cas k 0 0 1 7\r\nx\r\n",
    b"get k\r\n",
    b"get k n other k k\r\n",
    b"gat 100 k n\r\n",
    b"incr n 18446744073709551615\r\n",
    b"decr n 7 noreply\r\n",
    b"touch k 2592001\r\n",
    b"delete k\r\n",
    b"delete n 0 noreply\r\n",
    b"flush_all\r\n",
    b"flush_all 10 noreply\r\n",
    b"verbosity 1\r\n",
    b"version\r\n",
    b"stats settings\r\n",
    b"mg k s v f t k O123 q\r\n",
    b"mg k N30 R30 T60 v t\r\n",
    b"mg azE= b k v\r\n",
    b"ms k 2 T90 F3 I\r\nhi\r\n",
    b"ms n 3 ME N10 E77 c\r\n123\r\n",
    b"ms k S2 b\r\nhi\r\n",
    b"md k I T30 q\r\n",
    b"md n x C77\r\n",
    b"ma n N0 J13 D18446744073709551615 v t\r\n",
    b"me k\r\n",
    b"mn\r\n",
];

/// Words that replace others.
const WORDS: [&[u8]; 14] = [
    b"0",
    b"-1",
    b"2147483647",
    b"2147483648",
    b"4294967295",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"18446744073709551615",
    b"99999999999999999999999",
    b"noreply",
    b"",
    b"T9223372036854775807",
    b"\0\xff",
    b"\xf0\x9f\x98\x80",
];

/// Returns the bytes of a case.
fn bytes(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=random.below(12) {
        let mut request = REQUESTS[random.below(REQUESTS.len() as u64) as usize].to_vec();
        match random.below(4) {
            0 => {}
            1 => replace_word(&mut request, random),
            _ => {
                for _ in 0..=random.below(3) {
                    mutate(&mut request, random);
                }
            }
        }
        bytes.extend_from_slice(&request);
    }
    match random.below(8) {
        0 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
        1 => bytes.extend((0..random.below(3000)).map(|_| b'a')),
        2 => bytes.extend((0..random.below(300)).map(|_| random.next() as u8)),
        _ => {}
    }
    bytes
}

fn replace_word(request: &mut Vec<u8>, random: &mut Random) {
    let line = request.iter().position(|byte| *byte == b'\r').unwrap_or(0);
    let line: Vec<u8> = request.drain(..line).collect();
    let mut words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let at = random.below(words.len() as u64) as usize;
    words[at] = WORDS[random.below(WORDS.len() as u64) as usize];
    request.splice(..0, words.join(&b' '));
}

fn mutate(request: &mut Vec<u8>, random: &mut Random) {
    let len = request.len() as u64;
    if len == 0 {
        return;
    }
    let at = random.below(len) as usize;
    match random.below(5) {
        0 => request[at] = random.next() as u8,
        1 => request[at] ^= 1 << random.below(8),
        2 => _ = request.remove(at),
        3 => request.insert(at, b" \r\n\0z9"[random.below(6) as usize]),
        _ => request.insert(at, request[at]),
    }
}

/// Sends bytes in pieces on a new connection, and returns all that is answered.
fn answers(server: &TestServer, bytes: &[u8], pieces: &[usize]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let reading = std::thread::spawn(move || {
        let mut found = Vec::new();
        // A connection that the server has closed while bytes arrive is reset.
        match reader.read_to_end(&mut found) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer: {error}"),
            _ => found,
        }
    });
    let mut start = 0;
    for end in pieces.iter().copied().chain([bytes.len()]) {
        if stream.write_all(&bytes[start..end]).is_err() {
            break;
        }
        if end < bytes.len() {
            std::thread::sleep(Duration::from_micros(200));
        }
        start = end;
    }
    let _ = stream.shutdown(Shutdown::Write);
    reading.join().unwrap()
}

/// Returns up to ten places at which bytes are split.
fn pieces(len: usize, random: &mut Random) -> Vec<usize> {
    let mut pieces: Vec<usize> = (0..random.below(10))
        .map(|_| random.below(len as u64 + 1) as usize)
        .collect();
    pieces.sort_unstable();
    pieces
}

/// Returns a text without statistics and cas values, which differ from time to time.
fn comparable(answer: &[u8]) -> String {
    // They begin with the time at which the clock of the test stands.
    const TIME: &str = "18874368000";
    let text = String::from_utf8_lossy(answer);
    let lines = text.split_inclusive("\r\n");
    let text: String = lines.filter(|line| !line.starts_with("STAT ")).collect();
    let mut parts = text.split(TIME);
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        found.push_str("CAS");
        found.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    found
}

#[test]
fn the_server_survives_any_bytes_and_answers_the_same_in_pieces() {
    count_panics();
    let cases = std::env::var("HALOCLINE_SEQUENCES").ok();
    let cases = cases.and_then(|cases| cases.parse().ok()).unwrap_or(300);
    let seed = seed();
    let server = TestServer::start();
    for case in 0..cases {
        let mut random = Random::new(seed.wrapping_add(case));
        let bytes = bytes(&mut random);
        let mut found = Vec::new();
        for pieces in [Vec::new(), pieces(bytes.len(), &mut random)] {
            server.connect().talk("flush_all\r\n", "OK\r\n");
            found.push(answers(&server, &bytes, &pieces));
            assert_eq!(PANICS.load(Ordering::SeqCst), 0, "case {case}: {bytes:?}");
            server.connect().talk("mn\r\n", "MN\r\n");
        }
        assert_eq!(
            comparable(&found[0]),
            comparable(&found[1]),
            "case {case}: {:?}",
            String::from_utf8_lossy(&bytes)
        );
    }
}
