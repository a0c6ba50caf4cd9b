//! Items after a restart, after `kill -9`, and at the bound of the pool.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use halocline_memcached::Durability;

use crate::support::process::{ServerProcess, connect};
use crate::support::random::{Random, seed};
use crate::support::{TestServer, data};

#[test]
fn items_are_there_after_a_restart() {
    let mut server = TestServer::start();
    let mut client = server.connect();
    client.talk("set a 5 0 3\r\nabc\r\n", "STORED\r\n");
    client.talk("set b 0 100 1\r\nx\r\n", "STORED\r\n");
    client.talk("set c 0 100 1\r\nx\r\nflush_all 50\r\n", "STORED\r\nOK\r\n");
    let cas = client.cas("a");
    server.restart(|_| {});
    let mut client = server.connect();
    client.talk("get a\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n");
    assert_eq!(client.cas("a"), cas);
    client.talk("mg b t\r\n", "HD t100\r\n");
    client.talk("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    assert!(client.cas("a") > cas, "no cas value comes again");
    server.advance(50);
    client.talk("get a b c\r\n", "END\r\n");
}

#[test]
fn every_durability_keeps_items_through_a_restart() {
    for durability in [Durability::Operation, Durability::Group, Durability::Process] {
        let change = |settings: &mut halocline_memcached::ServerSettings| {
            settings.durability = durability;
            settings.assume_dax = false;
        };
        let mut server = TestServer::start_with(change);
        server.connect().talk("set a 0 0 1\r\nx\r\n", "STORED\r\n");
        server.restart(change);
        server.connect().talk("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n");
    }
}

#[test]
fn items_make_room_for_others() {
    const LIMIT: u64 = 16 << 20;
    let mut server = TestServer::start_with(|settings| settings.memory_limit = Some(LIMIT));
    let mut client = server.connect();
    let value = data(4000);
    for number in 0..20_000 {
        client.send(&[format!("set k{number} 0 0 4000\r\n").as_bytes(), &value, b"\r\n"].concat());
        client.expect(b"STORED\r\n");
    }
    let stats = client.stats("stats\r\n");
    let number = |name: &str| stats[name].parse::<u64>().unwrap();
    assert!(number("evictions") > 15_000, "{stats:?}");
    assert!(number("curr_items") > 1_500, "{stats:?}");
    assert!(number("bytes") <= LIMIT, "{stats:?}");
    let size = server.path().join("cache.pool").metadata().unwrap().len();
    assert!(size <= 2 * LIMIT, "the pool has {size} bytes");
    server.restart(|settings| settings.memory_limit = Some(LIMIT / 4));
    let mut client = server.connect();
    client.talk("set after 0 0 1\r\nx\r\n", "STORED\r\n");
    // The policy learns of the items step by step.
    let mut bytes = u64::MAX;
    for _ in 0..10_000 {
        bytes = client.stats("stats\r\n")["bytes"].parse().unwrap();
        if bytes <= LIMIT / 4 {
            break;
        }
        thread::yield_now();
    }
    assert!(bytes <= LIMIT / 4, "{bytes}");
}

#[test]
fn without_evictions_storing_fails_at_the_limit() {
    let server = TestServer::start_with(|settings| {
        settings.memory_limit = Some(4 << 20);
        settings.evicts = false;
    });
    let mut client = server.connect();
    let value = data(100_000);
    let mut stored = 0;
    loop {
        client.send(
            &[
                format!("set k{stored} 0 0 100000\r\n").as_bytes(),
                &value,
                b"\r\n",
            ]
            .concat(),
        );
        match client.line().as_str() {
            "STORED" => stored += 1,
            refused => {
                assert_eq!(refused, "SERVER_ERROR out of memory storing object");
                break;
            }
        }
        assert!(stored < 1000);
    }
    assert!(stored > 10);
    client.talk("mg k0 s\r\n", "HD s100000\r\n");
    client.talk("delete k0\r\n", "DELETED\r\n");
    client.talk("set small 0 0 1\r\nx\r\n", "STORED\r\n");
}

#[test]
fn what_was_acknowledged_survives_kill() {
    survives_kill(&[]);
}

#[test]
fn items_in_trees_survive_kill() {
    survives_kill(&["--tree", "lb"]);
    survives_kill(&["--tree", "fast-fair", "--hot-items", "0"]);
}

/// Kills a server under load, again and again; `HALOCLINE_KILLS` sets the number.
fn survives_kill(options: &[&str]) {
    const KEYS: u64 = 50;
    let kills = std::env::var("HALOCLINE_KILLS").map_or(5, |kills| kills.parse().unwrap());
    let mut random = Random::new(seed());
    let directory = tempfile::tempdir().unwrap();
    // For each key the newest acknowledged value and the newest that was sent.
    let values: Vec<_> = (0..KEYS)
        .map(|_| (AtomicU64::new(0), AtomicU64::new(0)))
        .collect();
    let mut all_cas = HashSet::new();
    for round in 0..kills {
        let mut process = ServerProcess::start(directory.path(), options);
        let mut client = connect(directory.path());
        for (key, (acknowledged, sent)) in values.iter().enumerate() {
            client.send(format!("mg k{key} v\r\n").as_bytes());
            let found = match client.line().as_str() {
                "EN" => 0,
                _ => client.line().trim_end().parse().unwrap(),
            };
            let (least, most) = (acknowledged.load(Ordering::SeqCst), sent.load(Ordering::SeqCst));
            assert!(
                (least..=most).contains(&found),
                "round {round}, key {key}: {found} of {least}..={most}"
            );
            acknowledged.store(found, Ordering::SeqCst);
            sent.store(found, Ordering::SeqCst);
        }
        let commands = 200 + random.below(2000);
        let (count, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let seeds = [random.next(), random.next()];
        let cas = thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|writer| {
                    let (values, count, stop, directory) = (&values, &count, &stop, directory.path());
                    let mut random = Random::new(seeds[writer as usize]);
                    scope.spawn(move || {
                        let mut client = connect(directory);
                        let mut cas = Vec::new();
                        while !stop.load(Ordering::SeqCst) {
                            let key = random.below(KEYS / 2) * 2 + writer;
                            let (acknowledged, sent) = &values[key as usize];
                            let value = sent.load(Ordering::SeqCst) + 1;
                            sent.store(value, Ordering::SeqCst);
                            let command = match acknowledged.load(Ordering::SeqCst) {
                                0 => format!("ms k{key} {} c\r\n{value}\r\n", value.to_string().len()),
                                _ => format!("ma k{key} c\r\n"),
                            };
                            let Some(line) = client.try_ask(command.as_bytes()) else {
                                break;
                            };
                            cas.push(line.strip_prefix("HD c").expect(&line).parse::<u64>().unwrap());
                            acknowledged.store(value, Ordering::SeqCst);
                            count.fetch_add(1, Ordering::SeqCst);
                        }
                        cas
                    })
                })
                .collect();
            while count.load(Ordering::SeqCst) < commands {
                thread::yield_now();
            }
            process.kill();
            stop.store(true, Ordering::SeqCst);
            writers
                .into_iter()
                .flat_map(|writer| writer.join().unwrap())
                .collect::<Vec<_>>()
        });
        for cas in cas {
            assert!(
                all_cas.insert(cas),
                "round {round}: the cas value {cas} comes again"
            );
        }
    }
}
