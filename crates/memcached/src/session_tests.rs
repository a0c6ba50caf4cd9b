//! Tests of a session with commands that have arrived together.

use std::sync::Arc;

use halocline_media::{Counting, Dram};
use halocline_ordered::TreeKind;
use halocline_pool::Pool;

use crate::fuzzing::{clock, compare_pieces, shared_on, shared_over};
use crate::session::Session;
use crate::storage::{TreeStorage, TreeStorageOptions};

/// Returns a session, and the medium that counts its fences.
fn session() -> (Session, Arc<Counting>) {
    let medium = Arc::new(Counting::new(Dram::new(0).unwrap()));
    let mut session = Session::new(shared_on(&medium));
    // The first write reserves cas values and grows the log.
    session.serve(b"set warm 0 0 1\r\nx\r\n", &mut Vec::new());
    (session, medium)
}

/// Returns the replies to bytes, and the number of fences that they took.
fn talk(session: &mut Session, medium: &Counting, bytes: &[u8]) -> (String, u64) {
    let before = medium.counts();
    let mut reply = Vec::new();
    let served = session.serve(bytes, &mut reply);
    assert_eq!(served.consumed, bytes.len());
    let fences = (medium.counts() - before).fences;
    (String::from_utf8(reply).unwrap(), fences)
}

#[test]
fn storage_commands_that_arrive_together_share_a_fence() {
    let (mut session, medium) = session();
    let sets: String = (0..100)
        .map(|key| format!("set k{key} 0 0 2\r\n{:02}\r\n", key % 100))
        .collect();
    let (replies, fences) = talk(&mut session, &medium, sets.as_bytes());
    assert_eq!((replies, fences), ("STORED\r\n".repeat(100), 1));
    let mixed = "add new 0 0 1\r\n1\r\nadd k1 0 0 1\r\n1\r\nms m 1 q\r\nx\r\nms k2 1 c E77\r\ny\r\nreplace k3 0 0 1 \
                 noreply\r\nz\r\nappend k4 0 0 1\r\n!\r\ncas k5 0 0 1 1\r\nx\r\n";
    let (replies, fences) = talk(&mut session, &medium, mixed.as_bytes());
    assert_eq!(replies, "STORED\r\nNOT_STORED\r\nHD c77\r\nSTORED\r\nEXISTS\r\n");
    assert_eq!(fences, 1);
    let (replies, fences) = talk(&mut session, &medium, b"get k2 k3 k4 new m\r\n");
    assert_eq!(fences, 0);
    let expected = "VALUE k2 0 1\r\ny\r\nVALUE k3 0 1\r\nz\r\nVALUE k4 0 3\r\n04!\r\nVALUE new 0 1\r\n1\r\nVALUE m 0 \
                    1\r\nx\r\nEND\r\n";
    assert_eq!(replies, expected);
}

#[test]
fn commands_on_one_key_see_those_before() {
    let (mut session, medium) = session();
    let bytes = b"set k 0 0 1\r\na\r\nset k 0 0 1\r\nb\r\nappend k 0 0 1\r\nc\r\nadd k 0 0 1\r\nd\r\nget k\r\nset n 0 0 \
                  1\r\n1\r\nincr n 1\r\nset n 0 0 1\r\n7\r\nbad\r\n";
    let (replies, fences) = talk(&mut session, &medium, bytes);
    let expected = "STORED\r\nSTORED\r\nSTORED\r\nNOT_STORED\r\nVALUE k 0 2\r\nbc\r\nEND\r\nSTORED\r\n2\r\nSTORED\r\nERROR\r\n";
    assert_eq!(replies, expected);
    // Two sets, what was appended, and each change of the number.
    assert_eq!(fences, 5);
}

#[test]
fn groups_over_trees_are_answered_as_over_the_store() {
    let bytes = b"set a 0 0 1\r\n1\r\nset b 0 0 1\r\n2\r\nadd a 0 0 1\r\n3\r\nappend b 0 0 1\r\n4\r\nadd c 0 0 \
                  1\r\n5\r\nset c 0 -1 1\r\n6\r\ncas a 0 0 1 1\r\n7\r\nreplace b 0 0 2 noreply\r\n88\r\nget a b \
                  c\r\nset a 0 0 1\r\n9\r\nappend a 0 0 1\r\n0\r\nget a\r\n";
    let (mut over_store, medium) = session();
    let (expected, _) = talk(&mut over_store, &medium, bytes);
    assert!(expected.ends_with("VALUE a 0 2\r\n90\r\nEND\r\n"), "{expected}");
    for kind in [TreeKind::Lb, TreeKind::Fp, TreeKind::Wb, TreeKind::FastFair] {
        let pool = Pool::create_on(Arc::new(Dram::new(0).unwrap())).unwrap();
        let storage = TreeStorage::open(&pool, kind, clock(), TreeStorageOptions::default()).unwrap();
        let mut session = Session::new(shared_over(Arc::new(storage)));
        let mut replies = Vec::new();
        session.serve(bytes, &mut replies);
        assert_eq!(String::from_utf8(replies).unwrap(), expected, "{kind}");
    }
}

#[test]
fn copies_of_hot_items_follow_groups() {
    let (mut session, medium) = session();
    let gets = "get a b\r\n".repeat(2);
    let first = format!("set a 0 0 1\r\n1\r\nset b 0 0 1\r\n2\r\n{gets}");
    talk(&mut session, &medium, first.as_bytes());
    let second = format!("set a 0 0 1\r\n3\r\nappend b 0 0 1\r\n4\r\nset c 0 0 1\r\n5\r\n{gets}");
    let (replies, fences) = talk(&mut session, &medium, second.as_bytes());
    let values = "VALUE a 0 1\r\n3\r\nVALUE b 0 2\r\n24\r\nEND\r\n".repeat(2);
    assert_eq!((replies, fences), ("STORED\r\n".repeat(3) + &values, 1));
    // The newest of two values of a key is the right one, also where the first one has expired.
    let third = "set a 0 -1 1\r\n6\r\nset a 0 0 1\r\n7\r\nset b 0 0 1\r\n8\r\nset b 0 -1 1\r\n9\r\nget a b\r\nget a b\r\n";
    let (replies, fences) = talk(&mut session, &medium, third.as_bytes());
    let values = "VALUE a 0 1\r\n7\r\nEND\r\n".repeat(2);
    assert_eq!((replies, fences), ("STORED\r\n".repeat(4) + &values, 1));
    let (stats, _) = talk(&mut session, &medium, b"stats\r\n");
    let hits = stats
        .lines()
        .find_map(|line| line.strip_prefix("STAT get_hits_dram "));
    assert!(hits.unwrap().parse::<u64>().unwrap() >= 4, "{stats}");
}

#[test]
fn large_values_do_not_wait_for_many_others() {
    let (mut session, medium) = session();
    let value = "x".repeat(200_000);
    let sets: String = (0..4)
        .map(|key| format!("set k{key} 0 0 200000\r\n{value}\r\n"))
        .collect();
    let (replies, _) = talk(&mut session, &medium, sets.as_bytes());
    assert_eq!(replies, "STORED\r\n".repeat(4));
}

#[test]
fn replies_are_the_same_in_pieces() {
    let bytes =
        b"set k 0 0 3\r\nabc\r\nset l 0 0 1\r\nxy\r\nset k 0 0 1\r\nx\r\nget k\r\nset big 0 0 2000000\r\nxxx";
    for end in 0..bytes.len() {
        compare_pieces(bytes, &[end]);
    }
    // A line that is too long ends the connection, also if its end arrives with it.
    for len in [2047, 2048, 2049, 3000] {
        let line = [&vec![b'x'; len][..], b"\r\nmn\r\n"].concat();
        compare_pieces(&line, &[2048, 2049, 2050]);
    }
}
