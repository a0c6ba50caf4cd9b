//! Each flag of each meta command, and `noreply` of each classic one.

use std::net::TcpStream;

use crate::support::{Client, TestServer, data};

/// Sends requests, and compares the reply of each.
fn converse(client: &mut Client<TcpStream>, requests: &[(&str, &str)]) {
    for (request, reply) in requests {
        // What follows shows that there is nothing more.
        client.talk(&format!("{request}\r\nmn\r\n"), &format!("{reply}MN\r\n"));
    }
}

#[test]
fn flags_of_meta_get() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk("ms key 2 T100 F7 E5\r\nhi\r\n", "HD\r\n");
    server.advance(4);
    converse(
        &mut client,
        &[
            ("mg key", "HD\r\n"),
            ("mg a2V5 b k", "HD ka2V5 b\r\n"),
            ("mg key c", "HD c5\r\n"),
            ("mg key C5 v", "HD\r\n"),
            ("mg key C6 v", "VA 2\r\nhi\r\n"),
            ("mg key f", "HD f7\r\n"),
            ("mg key k", "HD kkey\r\n"),
            ("mg key Oabc", "HD Oabc\r\n"),
            ("mg key Ppath/ Lpath/", "HD\r\n"),
            ("mg key q", "HD\r\n"),
            ("mg none q", ""),
            ("mg none k O1", "EN knone O1\r\n"),
            ("mg key s v", "VA 2 s2\r\nhi\r\n"),
            ("mg key t", "HD t96\r\n"),
            ("mg key T50 t", "HD t50\r\n"),
            ("mg key t R60 c", "HD t50 c5 W\r\n"),
            ("mg key R60", "HD Z\r\n"),
            ("mg new N20 E9 t c v", "VA 0 t20 c9 W\r\n\r\n"),
            ("mg new N20 v", "VA 0 Z\r\n\r\n"),
        ],
    );
    client.talk("ms fresh 1\r\nx\r\n", "HD\r\n");
    server.advance(3);
    converse(
        &mut client,
        &[
            ("mg fresh u h l", "HD h0 l3\r\n"),
            ("mg fresh h l", "HD h0 l3\r\n"),
            ("mg fresh h l", "HD h1 l0\r\n"),
        ],
    );
}

#[test]
fn flags_of_meta_set() {
    let server = TestServer::start();
    let mut client = server.connect();
    converse(
        &mut client,
        &[
            ("ms a2V5 2 b k c E5\r\nhi", "HD ka2V5 b c5\r\n"),
            ("mg key v", "VA 2\r\nhi\r\n"),
            ("ms key 2 F3 T60 O9 s E6\r\nho", "HD O9 s2\r\n"),
            ("mg key f t c", "HD f3 t60 c6\r\n"),
            ("ms key 1 C5 c s\r\nx", "EX c0 s1\r\n"),
            ("ms key 1 C6 E10\r\nx", "HD\r\n"),
            ("ms none 1 C6\r\nx", "NF\r\n"),
            ("ms key 1 I C9\r\ny", "HD\r\n"),
            ("mg key v", "VA 1 X W\r\ny\r\n"),
            ("ms key 1 q E7\r\nz", ""),
            ("ms key 1 q ME\r\nz", "NS\r\n"),
            ("ms new 1 ME\r\nn", "HD\r\n"),
            ("ms none 1 MR\r\nn", "NS\r\n"),
            ("ms new 1 MR\r\nm", "HD\r\n"),
            ("ms new 1 MS\r\nl", "HD\r\n"),
            ("ms new 2 MA s\r\n++", "HD s3\r\n"),
            ("ms new 2 MP s\r\n--", "HD s5\r\n"),
            ("mg new v", "VA 5\r\n--l++\r\n"),
            ("ms none 1 MA\r\nx", "NS\r\n"),
            ("ms none 1 MP N30 T5\r\nx", "HD\r\n"),
            ("mg none v t", "VA 1 t30\r\nx\r\n"),
            ("ms key 1 Ppath Lpath\r\nx", "HD\r\n"),
            ("ms key 1 MX\r\nx", "CLIENT_ERROR invalid mode for ms M token\r\n"),
            (
                "ms key 1 Tx\r\nx",
                "CLIENT_ERROR bad token in command line format\r\n",
            ),
        ],
    );
}

#[test]
fn flags_of_meta_delete() {
    let server = TestServer::start();
    let mut client = server.connect();
    converse(
        &mut client,
        &[
            ("ms key 1 E5\r\nx", "HD\r\n"),
            ("md key C4 O1 k", "EX O1 kkey\r\n"),
            ("md a2V5 b k C5", "HD ka2V5 b\r\n"),
            ("md key k", "NF kkey\r\n"),
            ("md key q", "NF\r\n"),
            ("ms key 1\r\nx", "HD\r\n"),
            ("md key q", ""),
            ("ms key 1 F4 T100 E5\r\nx", "HD\r\n"),
            ("md key I T30 E6", "HD\r\n"),
            ("mg key c t v", "VA 1 c6 t30 X W\r\nx\r\n"),
            ("md key x E8", "HD\r\n"),
            ("mg key c f s", "HD c8 f0 s0\r\n"),
            ("md key I x q", ""),
            ("mg key s", "HD s0 X W\r\n"),
        ],
    );
}

#[test]
fn flags_of_meta_arithmetic() {
    let server = TestServer::start();
    let mut client = server.connect();
    converse(
        &mut client,
        &[
            ("ma bg== b O1 k", "NF O1 kbg== b\r\n"),
            ("ma bg== b k N60 J13 v t", "VA 2 kbg== b t60\r\n13\r\n"),
            ("ma n E5 c", "HD c5\r\n"),
            ("ma n C4", "EX\r\n"),
            ("ma n C5 D6 v", "VA 2\r\n20\r\n"),
            ("ma n MI v", "VA 2\r\n21\r\n"),
            ("ma n M+ v", "VA 2\r\n22\r\n"),
            ("ma n MD v", "VA 2\r\n21\r\n"),
            ("ma n M- D20 v", "VA 1\r\n1\r\n"),
            ("ma n MD D5 v", "VA 1\r\n0\r\n"),
            ("ma n T90 t O2", "HD t90 O2\r\n"),
            ("ma n q", ""),
            ("ma none q", "NF\r\n"),
            ("ma n v k", "VA 1 kn\r\n3\r\n"),
            ("ma max N0 J18446744073709551615", "HD\r\n"),
            ("ma max D2 v", "VA 1\r\n1\r\n"),
            ("ma n MX", "CLIENT_ERROR invalid mode for ma M token\r\n"),
            ("set text 0 0 1\r\nx", "STORED\r\n"),
            (
                "ma text",
                "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
            ),
        ],
    );
}

#[test]
fn meta_debug_and_no_op() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.talk("ms key 2 E5\r\nab\r\n", "HD\r\n");
    converse(
        &mut client,
        &[
            ("me key", "ME key exp=-1 la=0 cas=5 fetch=no cls=1 size=85\r\n"),
            ("mg key", "HD\r\n"),
            (
                "me a2V5 b",
                "ME a2V5 exp=-1 la=0 cas=5 fetch=yes cls=1 size=85\r\n",
            ),
            ("me none", "EN\r\n"),
            ("mn", "MN\r\n"),
        ],
    );
}

#[test]
fn noreply_of_each_command() {
    let server = TestServer::start();
    let mut client = server.connect();
    converse(
        &mut client,
        &[
            ("set k 1 0 1 noreply\r\n1", ""),
            ("add k 0 0 1 noreply\r\n2", ""),
            ("add new 0 0 1 noreply\r\n2", ""),
            ("replace none 0 0 1 noreply\r\n2", ""),
            ("replace new 0 0 1 noreply\r\n3", ""),
            ("append k 0 0 1 noreply\r\n5", ""),
            ("prepend k 0 0 1 noreply\r\n9", ""),
            ("append none 0 0 1 noreply\r\n5", ""),
            ("cas k 0 0 1 1 noreply\r\n0", ""),
            ("cas none 0 0 1 1 noreply\r\n0", ""),
            ("get k new", "VALUE k 1 3\r\n915\r\nVALUE new 0 1\r\n3\r\nEND\r\n"),
            ("incr k 5 noreply", ""),
            ("decr k 10 noreply", ""),
            ("incr none 5 noreply", ""),
            ("touch k 30 noreply", ""),
            ("touch none 30 noreply", ""),
            ("verbosity 1 noreply", ""),
            ("mg k v t", "VA 3 t30\r\n910\r\n"),
            ("delete k noreply", ""),
            ("delete k noreply", ""),
            ("get k new", "VALUE new 0 1\r\n3\r\nEND\r\n"),
            ("flush_all 0 noreply", ""),
            ("get new", "END\r\n"),
        ],
    );
    let cas = {
        client.talk("set k 0 0 1\r\n1\r\n", "STORED\r\n");
        client.cas("k")
    };
    let swap = format!("cas k 0 0 1 {cas} noreply\r\n2");
    converse(
        &mut client,
        &[(&swap, ""), ("get k", "VALUE k 0 1\r\n2\r\nEND\r\n")],
    );
}

#[test]
fn keys_and_values_have_bounds() {
    let server = TestServer::start();
    let mut client = server.connect();
    let (longest, too_long) = ("k".repeat(250), "k".repeat(251));
    let format = "CLIENT_ERROR bad command line format\r\n";
    converse(
        &mut client,
        &[
            (&format!("set {longest} 0 0 1\r\nx"), "STORED\r\n"),
            (&format!("ms {longest} 1\r\ny"), "HD\r\n"),
            (
                &format!("get {longest}"),
                &format!("VALUE {longest} 0 1\r\ny\r\nEND\r\n"),
            ),
            (&format!("set {too_long} 0 0 1\r\nx"), format),
            (&format!("get {too_long}"), format),
            (&format!("mg {too_long} v"), format),
            (&format!("delete {too_long}"), format),
            (&format!("incr {too_long} 1"), format),
            (&format!("touch {too_long} 1"), format),
            // A binary key, of bytes that no other command can send.
            ("ms AAogDf8= 1 b\r\nx", "HD\r\n"),
            ("mg AAogDf8= b k v", "VA 1 kAAogDf8= b\r\nx\r\n"),
            ("md AAogDf8= b", "HD\r\n"),
        ],
    );
    // Key, data and 80 bytes of the server are at most 1 MiB.
    let most = (1 << 20) - 80 - 1;
    let value = data(most + 1);
    for (len, reply) in [
        (most, "STORED\r\n"),
        (most + 1, "SERVER_ERROR object too large for cache\r\n"),
    ] {
        client.send(&[format!("set k 0 0 {len}\r\n").as_bytes(), &value[..len], b"\r\n"].concat());
        client.expect(reply.as_bytes());
    }
}
