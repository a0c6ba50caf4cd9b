//! Tests of the replies of a session to commands, line by line, and of what `stats` counts of them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use halocline_media::{Counting, Dram};
use halocline_ordered::TreeKind;
use halocline_pool::Pool;
use halocline_store::{Clock, StoresOptions};

use crate::fuzzing::shared_with;
use crate::items::HotItems;
use crate::session::Session;
use crate::session_tests::{session, talk};
use crate::settings::Durability;
use crate::storage::{ItemStorage, StoreStorage, TreeStorage, TreeStorageOptions};

/// Returns the replies to lines, without their ends.
fn lines(session: &mut Session, medium: &Counting, text: &str) -> Vec<String> {
    let (replies, _) = talk(session, medium, text.replace('\n', "\r\n").as_bytes());
    replies.lines().map(str::to_owned).collect()
}

#[test]
fn flags_of_times_see_what_those_before_them_have_set() {
    let (mut session, medium) = session();
    let text = "ms k 1 T100\nx\nmg k t T200\nmg k t\nmg k T300 t\nmg k R250 T200 t\nmg k R250 T300 t\nmg k T400 R500\n";
    let expected = [
        "HD",
        "HD t100",
        "HD t200",
        "HD t300",
        "HD t200",
        "HD t300 W",
        "HD Z",
    ];
    assert_eq!(lines(&mut session, &medium, text), expected);
    let text = "mg a t N30\nmg a t\nmg b N30 t\nmg c N30 T90 t\nmg d T90 N30 t\n";
    let expected = ["HD t-1 W", "HD t30 Z", "HD t30 W", "HD t90 W", "HD t30 W"];
    assert_eq!(lines(&mut session, &medium, text), expected);
    let text = "ma n N30 t\nma n t T60\nma n T90 t\nma m t N30\nma o N30 T90 t\n";
    let expected = ["HD t30", "HD t30", "HD t90", "HD t-1", "HD t90"];
    assert_eq!(lines(&mut session, &medium, text), expected);
}

#[test]
fn removing_a_value_makes_a_new_item() {
    let (mut session, medium) = session();
    let text =
        "ms k 1 T100 F7\nx\nmd k I T50\nmg k t f s\nmd k x\nmg k t f s\nmd k x I T20\nmg k t s\nmd k C1\n";
    let expected = [
        "HD",
        "HD",
        "HD t50 f7 s1 X W",
        "HD",
        "HD t-1 f0 s0",
        "HD",
        "HD t20 s0 X W",
        "EX",
    ];
    assert_eq!(lines(&mut session, &medium, text), expected);
    let stats = lines(&mut session, &medium, "stats\n").join(" ");
    assert!(
        stats.contains("STAT delete_hits 1 STAT delete_misses 1"),
        "{stats}"
    );
}

#[test]
fn lines_that_are_too_long_are_answered() {
    let (mut session, medium) = session();
    let (key, spaces) = ("k".repeat(3000), " ".repeat(3000));
    let text = format!("set {key} 0 0 2\nmn\nset n 0 0 1\n1\nincr{spaces}n 1\ndelete {key}\nmn\n");
    let format = "CLIENT_ERROR bad command line format";
    assert_eq!(
        lines(&mut session, &medium, &text),
        [format, "STORED", "2", format, "MN"]
    );
    let long = format!("set {} 0 0 1\n", "k".repeat(17_000));
    assert_eq!(
        lines(&mut session, &medium, &long),
        ["CLIENT_ERROR line too long"]
    );
}

#[test]
fn only_retrievals_have_time_for_a_long_line() {
    let (mut session, _) = session();
    for (line, is_impatient) in [
        (" ".repeat(2048), false),
        (" ".repeat(2049), true),
        (format!("incr {}", "k".repeat(2048)), true),
        (format!("get {}", " k".repeat(4000)), false),
    ] {
        let served = session.serve(line.as_bytes(), &mut Vec::new());
        let expected = (0, Some(line.len() + 1), is_impatient);
        assert_eq!((served.consumed, served.needs, served.is_impatient), expected);
    }
}

#[test]
fn replies_with_many_values_are_made_in_parts() {
    const BYTES: usize = 100_000;
    // A reply of 256 KiB, and the values of a retrieval that sets times.
    const MAX_REPLY_BYTES: [usize; 2] = [(256 << 10) + 2 * BYTES, (256 << 10) + 17 * BYTES];
    let (mut session, medium) = session();
    let value = "v".repeat(BYTES);
    talk(
        &mut session,
        &medium,
        format!("set k 0 0 {BYTES}\r\n{value}\r\n").as_bytes(),
    );
    for (name, most) in ["get", "gat 0"].into_iter().zip(MAX_REPLY_BYTES) {
        let line = format!("{name}{}\r\nmn\r\n", " k none".repeat(100));
        let (mut start, mut replies, mut parts) = (0, Vec::new(), 0);
        while start < line.len() {
            let mut reply = Vec::new();
            let served = session.serve(&line.as_bytes()[start..], &mut reply);
            assert!(reply.len() <= most, "{name}: {} bytes", reply.len());
            (start, parts) = (start + served.consumed, parts + 1);
            replies.append(&mut reply);
        }
        let one = format!("VALUE k 0 {BYTES}\r\n{value}\r\n");
        assert!(
            replies == (one.repeat(100) + "END\r\nMN\r\n").into_bytes(),
            "{name}"
        );
        assert!(parts > 5, "{name}: {parts} parts");
    }
    let stats = lines(&mut session, &medium, "stats\n").join(" ");
    for name in [
        "cmd_get 200",
        "get_hits 100",
        "get_misses 100",
        "cmd_touch 200",
        "touch_hits 100",
        "touch_misses 100",
    ] {
        assert!(stats.contains(&format!("STAT {name} ")), "{name}: {stats}");
    }
}

#[test]
fn cas_values_are_compared_as_in_memcached() {
    let (mut session, medium) = session();
    let text = "ms k 1 E5\na\nmd k x F7\nmg k c f s\nms k 3 C4 s c k\nabc\nms none 2 C4 s\nab\nms k 2 ME s\nab\nms \
                k 1 MA C0 s\nb\nms k 1 C0\nc\nma n N0 J9 E3\nma n C0\nset e 0 0 0\n\nma e C5\n";
    let expected = [
        "HD",
        "HD",
        "HD c5 f7 s0",
        "EX s3 c0 kk",
        "NF s2",
        "NS s2",
        "HD s1",
        "EX",
        "HD",
        "HD",
        "STORED",
        "CLIENT_ERROR cannot increment or decrement non-numeric value",
    ];
    assert_eq!(lines(&mut session, &medium, text), expected);
    let stats = lines(&mut session, &medium, "stats\n").join(" ");
    assert!(
        stats.contains("STAT cas_hits 0 STAT cas_misses 1 STAT cas_badval 2 "),
        "{stats}"
    );
}

#[test]
fn noreply_silences_what_is_wrong_with_a_command() {
    let (mut session, medium) = session();
    let key = "k".repeat(251);
    let text = format!(
        "set k x 0 1 noreply\nx\nset {key} 0 0 1 noreply\nx\nset k 0 0 1 noreply\nxyz\nincr k -1 noreply\ntouch k x \
         noreply\nfoo noreply\ndelete {key} noreply\nset k 0 0 -1 noreply\nset k 0 noreply\n"
    );
    // What follows the block of the third is a line of its own. Where a block ends is not known of the last
    // two.
    let format = "CLIENT_ERROR bad command line format";
    assert_eq!(lines(&mut session, &medium, &text), [format; 3]);
}

#[test]
fn uses_are_those_that_memcached_counts() {
    let (mut session, medium) = session();
    let text = "set n 0 0 1\n9\nadd n 0 0 1\n9\nmg n u h\nmg n\nincr n 1\nmg n u h\nmg n\nincr n 1\nmg n u h\nmd n \
                x\nmg n u h\nmg v N0\nmg v h\nmg w N0 u\nmg w h\n";
    let expected = [
        "STORED",
        "NOT_STORED",
        "HD h0",
        "HD",
        "10",
        "HD h0",
        "HD",
        "11",
        "HD h1",
        "HD",
        "HD h0",
        "HD W",
        "HD h1 Z",
        "HD W",
        "HD h0 Z",
    ];
    assert_eq!(lines(&mut session, &medium, text), expected);
}

/// Returns the value of a statistic.
fn stat(session: &mut Session, medium: &Counting, name: &str) -> u64 {
    let stats = lines(session, medium, "stats\n");
    let value = stats
        .iter()
        .find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    value.unwrap().parse().unwrap()
}

#[test]
fn lookups_of_items_that_have_expired_or_were_flushed_are_counted() {
    type Open = fn(&Pool, Clock) -> Arc<dyn ItemStorage>;
    let store: Open = |pool, clock| {
        let options = StoresOptions::default().with_background(false);
        let options = options.with_clock(clock);
        Arc::new(StoreStorage::open(pool, Durability::Operation, options).unwrap())
    };
    let tree: Open = |pool, clock| {
        Arc::new(TreeStorage::open(pool, TreeKind::Lb, clock, TreeStorageOptions::default()).unwrap())
    };
    for open in [store, tree] {
        for is_hot in [false, true] {
            let medium = Arc::new(Counting::new(Dram::new(0).unwrap()));
            let pool = Pool::create_on(&medium).unwrap();
            let now = Arc::new(AtomicU64::new(1_800_000_000_000));
            let clock: Clock = {
                let now = Arc::clone(&now);
                Arc::new(move || now.load(Relaxed))
            };
            let storage = open(&pool, Arc::clone(&clock));
            let hot = is_hot.then(|| HotItems::new(1 << 20).unwrap().always_on());
            let mut session = Session::new(shared_with(storage, clock, hot));
            let text = "set a 0 10 1\na\nset b 0 0 1\nb\nset c 0 0 1\nc\nget a b\n";
            lines(&mut session, &medium, text);
            assert_eq!(stat(&mut session, &medium, "get_expired"), 0);
            now.fetch_add(10_000, Relaxed);
            let text = "get a b none\nincr a 1\nmg a\n";
            assert_eq!(
                lines(&mut session, &medium, text),
                ["VALUE b 0 1", "b", "END", "NOT_FOUND", "EN"]
            );
            assert_eq!(stat(&mut session, &medium, "get_expired"), 3);
            assert_eq!(stat(&mut session, &medium, "get_flushed"), 0);
            let text = "delete c\nflush_all\nget b b c none\nset b 0 0 1\nd\nget b\n";
            lines(&mut session, &medium, text);
            assert_eq!(stat(&mut session, &medium, "get_flushed"), 1);
            assert_eq!(stat(&mut session, &medium, "get_expired"), 3);
        }
    }
}

#[test]
fn statistics_have_the_names_of_memcached() {
    let (mut session, medium) = session();
    let stats = lines(&mut session, &medium, "stats\n").join(" ");
    for name in [
        "get_expired 0",
        "get_flushed 0",
        "limit_maxbytes 0",
        "read_buf_bytes 0",
        "listen_disabled_num 0",
        "time_in_listen_disabled_us 0",
    ] {
        assert!(stats.contains(&format!("STAT {name} ")), "{name}: {stats}");
    }
    for name in ["rusage_user", "rusage_system"] {
        let value = stats.split(&format!("STAT {name} ")).nth(1).unwrap();
        let (seconds, micros) = value.split(' ').next().unwrap().split_once('.').unwrap();
        assert!(
            seconds.parse::<u64>().is_ok() && micros.len() == 6,
            "{name}: {stats}"
        );
    }
}
