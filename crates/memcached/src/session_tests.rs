//! Tests of a session with commands that have arrived together.

use std::sync::Arc;

use halocline_media::{Counting, Dram};
use halocline_ordered::TreeKind;
use halocline_pool::Pool;
use halocline_store::StoresOptions;

use crate::fuzzing::{clock, compare_pieces, shared_on, shared_over};
use crate::random::{Random, seed};
use crate::session::Session;
use crate::settings::Durability;
use crate::storage::{ItemStorage, StoreStorage, TreeStorage, TreeStorageOptions};

/// Returns a session, and the medium that counts its fences.
pub(crate) fn session() -> (Session, Arc<Counting>) {
    let medium = Arc::new(Counting::new(Dram::new(0).unwrap()));
    let mut session = Session::new(shared_on(&medium));
    // The first write reserves cas values and grows the log.
    session.serve(b"set warm 0 0 1\r\nx\r\n", &mut Vec::new());
    (session, medium)
}

/// Returns a session over a storage that is opened in a new pool, and the medium that counts its fences.
fn session_over(open: impl FnOnce(&Pool) -> Arc<dyn ItemStorage>) -> (Session, Arc<Counting>) {
    let medium = Arc::new(Counting::new(Dram::new(0).unwrap()));
    let pool = Pool::create_on(&medium).unwrap();
    let mut session = Session::new(shared_over(open(&pool)));
    session.serve(b"set warm 0 0 1\r\nx\r\n", &mut Vec::new());
    (session, medium)
}

fn store_with(durability: Durability) -> impl FnOnce(&Pool) -> Arc<dyn ItemStorage> {
    move |pool: &Pool| {
        let options = StoresOptions::default().with_background(false);
        let options = options.with_clock(clock());
        Arc::new(StoreStorage::open(pool, durability, options).unwrap())
    }
}

fn tree_of(kind: TreeKind) -> impl FnOnce(&Pool) -> Arc<dyn ItemStorage> {
    move |pool: &Pool| {
        Arc::new(TreeStorage::open(pool, kind, clock(), TreeStorageOptions::default()).unwrap())
    }
}

const TREES: [TreeKind; 4] = [TreeKind::Lb, TreeKind::Fp, TreeKind::Wb, TreeKind::FastFair];

/// Returns the replies to bytes, and the number of fences that they took.
pub(crate) fn talk(session: &mut Session, medium: &Counting, bytes: &[u8]) -> (String, u64) {
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
    // Two sets, what was appended, and the number three times, of which two are sets.
    assert_eq!(fences, 4);
}

#[test]
fn groups_over_trees_are_answered_as_over_the_store() {
    let bytes = b"set a 0 0 1\r\n1\r\nset b 0 0 1\r\n2\r\nadd a 0 0 1\r\n3\r\nappend b 0 0 1\r\n4\r\nadd c 0 0 \
                  1\r\n5\r\nset c 0 -1 1\r\n6\r\ncas a 0 0 1 1\r\n7\r\nreplace b 0 0 2 noreply\r\n88\r\nget a b \
                  c\r\nset a 0 0 1\r\n9\r\nappend a 0 0 1\r\n0\r\nget a\r\n";
    let (mut over_store, medium) = session();
    let (expected, _) = talk(&mut over_store, &medium, bytes);
    assert!(expected.ends_with("VALUE a 0 2\r\n90\r\nEND\r\n"), "{expected}");
    for kind in TREES {
        let (mut session, medium) = session_over(tree_of(kind));
        let (replies, _) = talk(&mut session, &medium, bytes);
        assert_eq!(replies, expected, "{kind}");
    }
}

/// Stores items for [`MIXED`].
const BEFORE: &str = "set a 0 0 1\r\na\r\nset n 0 0 2\r\n10\r\nset m 0 0 2\r\n10\r\nset t 0 0 1\r\nt\r\nset u 0 0 \
                      1\r\nu\r\nset x 0 0 1\r\nx\r\nset y 0 0 1\r\ny\r\nset w 0 0 1\r\nw\r\nset s 0 0 1\r\ns\r\n";

/// Commands of each kind that changes items, of which none depends on another one, and their replies.
const MIXED: [(&str, &str); 14] = [
    ("delete a\r\n", "DELETED\r\n"),
    ("delete none\r\n", "NOT_FOUND\r\n"),
    ("incr n 5\r\n", "15\r\n"),
    ("decr m 1 noreply\r\n", ""),
    ("touch t 100\r\n", "TOUCHED\r\n"),
    ("gat 50 u missing\r\n", "VALUE u 0 1\r\nu\r\nEND\r\n"),
    ("md x q\r\n", ""),
    ("md y I T30\r\n", "HD\r\n"),
    ("ma c N0 J7 v\r\n", "VA 1\r\n7\r\n"),
    ("mg w T90 t v\r\n", "VA 1 t90\r\nw\r\n"),
    ("mg f N30\r\n", "HD W\r\n"),
    ("set z 0 0 1\r\nz\r\n", "STORED\r\n"),
    ("append s 0 0 1\r\n!\r\n", "STORED\r\n"),
    ("ms q 1\r\nq\r\n", "HD\r\n"),
];

/// Lookups after [`MIXED`], and their replies.
const AFTER: (&str, &str) = (
    "get a n m t u x c z s q\r\nmg t t\r\nmg u t\r\nmg y t\r\nmg f t\r\n",
    "VALUE n 0 2\r\n15\r\nVALUE m 0 2\r\n9 \r\nVALUE t 0 1\r\nt\r\nVALUE u 0 1\r\nu\r\nVALUE c 0 1\r\n7\r\nVALUE z 0 \
     1\r\nz\r\nVALUE s 0 2\r\ns!\r\nVALUE q 0 1\r\nq\r\nEND\r\nHD t100\r\nHD t50\r\nHD t30 X W\r\nHD t30 Z\r\n",
);

#[test]
fn commands_of_all_kinds_that_arrive_together_share_a_fence() {
    let requests: String = MIXED.iter().map(|(request, _)| *request).collect();
    let expected: String = MIXED.iter().map(|(_, reply)| *reply).collect();
    for durability in [Durability::Operation, Durability::Group, Durability::Process] {
        let (mut session, medium) = session_over(store_with(durability));
        let most = u64::from(durability == Durability::Operation);
        let (_, fences) = talk(&mut session, &medium, BEFORE.as_bytes());
        assert!(fences <= most, "{durability}: {fences} fences");
        let (replies, fences) = talk(&mut session, &medium, requests.as_bytes());
        assert_eq!(replies, expected);
        assert!(fences <= most, "{durability}: {fences} fences");
        let (replies, _) = talk(&mut session, &medium, AFTER.0.as_bytes());
        assert_eq!(replies, AFTER.1);
    }
}

#[test]
fn records_that_are_stored_together_share_a_fence_in_trees() {
    let requests: String = MIXED.iter().map(|(request, _)| *request).collect();
    let expected: String = MIXED.iter().map(|(_, reply)| *reply).collect();
    let sets: String = (0..20).map(|key| format!("set r{key} 0 0 1\r\nx\r\n")).collect();
    for kind in TREES {
        let (mut session, medium) = session_over(tree_of(kind));
        talk(&mut session, &medium, sets.as_bytes());
        let (_, fences) = talk(&mut session, &medium, sets.as_bytes());
        let (_, alone) = talk(&mut session, &medium, b"set r5 0 0 1\r\nx\r\n");
        // Each link has fences of its own, and new nodes may need one or two.
        let least = 1 + 20 * (alone - 1);
        assert!(
            (least..least + 3).contains(&fences),
            "{kind}: {fences} fences, {alone} for one"
        );
        talk(&mut session, &medium, BEFORE.as_bytes());
        let (replies, _) = talk(&mut session, &medium, requests.as_bytes());
        assert_eq!(replies, expected, "{kind}");
        let (replies, _) = talk(&mut session, &medium, AFTER.0.as_bytes());
        assert_eq!(replies, AFTER.1, "{kind}");
    }
}

#[test]
fn lookups_see_changes_before_them() {
    let bytes =
        b"set k 0 0 1\r\n1\r\nget k\r\ndelete k\r\nget k\r\nincr k 1\r\nset k 0 0 1\r\n5\r\nincr k 1\r\nget \
                  k\r\ntouch k -1\r\ngat 10 k\r\nmg k\r\nmd k\r\nadd k 0 0 1\r\n9\r\nma k D3 v\r\nmg k v T60 \
                  t\r\ndelete k noreply\r\nset k 0 0 1\r\n7\r\nget k\r\n";
    let expected = "STORED\r\nVALUE k 0 1\r\n1\r\nEND\r\nDELETED\r\nEND\r\nNOT_FOUND\r\nSTORED\r\n6\r\nVALUE k 0 \
                    1\r\n6\r\nEND\r\nTOUCHED\r\nEND\r\nEN\r\nNF\r\nSTORED\r\nVA 2\r\n12\r\nVA 2 t60\r\n12\r\nSTORED\r\nVALUE \
                    k 0 1\r\n7\r\nEND\r\n";
    let (mut session, medium) = session();
    assert_eq!(talk(&mut session, &medium, bytes).0, expected);
    for kind in TREES {
        let (mut session, medium) = session_over(tree_of(kind));
        assert_eq!(talk(&mut session, &medium, bytes).0, expected, "{kind}");
    }
}

/// Commands on a key `K`.
const COMMANDS: [&str; 24] = [
    "set K 1 0 2\r\n10\r\n",
    "set K 0 50 1 noreply\r\n7\r\n",
    "set K 0 -1 1\r\n7\r\n",
    "add K 0 0 1\r\n3\r\n",
    "replace K 0 0 1\r\n4\r\n",
    "append K 0 0 1\r\n5\r\n",
    "cas K 0 0 1 99\r\n6\r\n",
    "delete K\r\n",
    "delete K noreply\r\n",
    "incr K 3\r\n",
    "decr K 1 noreply\r\n",
    "touch K 100\r\n",
    "touch K -1\r\n",
    "gat 70 K other K\r\n",
    "gats 0 K\r\n",
    "get K other\r\n",
    "md K\r\n",
    "md K I T30 q\r\n",
    "md K x E99\r\n",
    "ma K N60 J13 v t c\r\n",
    "mg K v t c f\r\n",
    "mg K N30 v h l\r\n",
    "mg K R60 T90 v q\r\n",
    "ms K 2 MA N0 c\r\n12\r\n",
];

#[test]
fn commands_together_are_answered_as_one_after_the_other() {
    let mut random = Random::new(seed());
    for round in 0..90 {
        let mut requests = Vec::new();
        for _ in 0..200 {
            let command = COMMANDS[random.below(COMMANDS.len() as u64) as usize];
            requests.push(command.replace('K', &format!("k{}", random.below(12))));
        }
        let (mut one, medium) = session();
        let expected: Vec<String> = requests
            .iter()
            .map(|request| talk(&mut one, &medium, request.as_bytes()).0)
            .collect();
        let together = requests.concat();
        let (mut session, medium) = match round % 3 {
            0 => session(),
            1 => session_over(tree_of(TreeKind::Lb)),
            _ => session_over(tree_of(TreeKind::FastFair)),
        };
        let (replies, _) = talk(&mut session, &medium, together.as_bytes());
        let mut rest = &replies[..];
        for (request, reply) in requests.iter().zip(&expected) {
            match rest.strip_prefix(&reply[..]) {
                Some(behind) => rest = behind,
                None => {
                    panic!("{request:?}: {rest:?} begins with something else than {reply:?}: {requests:?}")
                }
            }
        }
        assert_eq!(rest, "", "{requests:?}");
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
        b"set k 0 0 3\r\nabc\r\nset l 0 0 1\r\nxy\r\nset k 0 0 1\r\nx\r\nget k\r\ntouch k 5\r\ngat 9 k k\r\nma c N0 \
          v\r\nincr c 2\r\ndelete k\r\nmd c q\r\nmg d N9\r\nset big 0 0 2000000\r\nxxx";
    for end in 0..bytes.len() {
        compare_pieces(bytes, &[end]);
    }
    // A line that is too long ends the connection, also if its end arrives with it.
    for len in [2047, 2048, 2049, 3000, 16_383, 16_384, 16_385, 20_000] {
        let line = [&vec![b'x'; len][..], b"\r\nmn\r\n"].concat();
        compare_pieces(&line, &[2048, 2049, 2050, 16_384, 16_385, 16_386]);
    }
    let value = [b"set k 0 0 150000\r\n", &vec![b'v'; 150_000][..], b"\r\n"].concat();
    let many = format!(
        "get{}\r\ngats 0{}\r\nmn\r\n",
        " k".repeat(20),
        " k none".repeat(20)
    );
    let bytes = [&value, many.as_bytes()].concat();
    compare_pieces(&bytes, &[value.len(), value.len() + 3, bytes.len() - 7]);
}

#[test]
fn values_that_find_no_memory_are_refused_until_others_are_complete() {
    let medium = Arc::new(Counting::new(Dram::new(0).unwrap()));
    let shared = shared_on(&medium);
    let most = shared.settings.receive_memory as usize / 1_000_000;
    let mut waiting: Vec<Session> = (0..most).map(|_| Session::new(Arc::clone(&shared))).collect();
    let begun = [b"set k 0 0 1000000\r\n".as_slice(), &[b'x'; 500_000]].concat();
    for session in &mut waiting {
        let served = session.serve(&begun, &mut Vec::new());
        assert_eq!((served.consumed, served.needs), (0, Some(begun.len() + 500_002)));
    }
    let mut refused = Session::new(Arc::clone(&shared));
    let mut reply = Vec::new();
    let served = refused.serve(&begun, &mut reply);
    assert_eq!((served.consumed, served.needs), (begun.len(), Some(1)));
    assert_eq!(reply, b"SERVER_ERROR out of memory storing object\r\n");
    // The rest of its data is skipped; small values need no memory of others.
    reply.clear();
    let rest = [&[b'x'; 500_000], b"\r\nset s 0 0 1\r\ny\r\n".as_slice()].concat();
    assert_eq!(refused.serve(&rest, &mut reply).consumed, rest.len());
    assert_eq!(reply, b"STORED\r\n");
    waiting.pop();
    reply.clear();
    let whole = [&begun, &rest[..]].concat();
    assert_eq!(refused.serve(&begun, &mut reply).consumed, 0);
    assert_eq!(refused.serve(&whole, &mut reply).consumed, whole.len());
    assert_eq!(reply, b"STORED\r\nSTORED\r\n");
    drop((waiting, refused));
    assert_eq!(shared.receiving.bytes(), 0);
}
