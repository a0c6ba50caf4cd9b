//! Concurrent clients: what they sent and received, with the times, must have an order on each key in which
//! every reply is right (linearizability).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use halocline_memcached::ServerSettings;

use crate::support;
use crate::support::TestServer;
use crate::support::random::{Random, seed};

/// A command with its reply.
#[derive(Debug, Clone, Copy)]
enum Call {
    Get(Option<u64>),
    Set(u64),
    Add(u64, bool),
    Replace(u64, bool),
    Incr(Option<u64>),
    Delete(bool),
    /// The value that was read with the cas value, the new value, and the code of the reply.
    Cas(u64, u64, Swapped),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Swapped {
    Stored,
    Exists,
    NotFound,
}

#[derive(Debug, Clone, Copy)]
struct Event {
    start: u64,
    end: u64,
    call: Call,
}

/// Returns the value of the key after a call, or `None` if the reply is wrong where the key has this value.
fn after(call: Call, value: Option<u64>) -> Option<Option<u64>> {
    let when = |is_right: bool, value: Option<u64>| is_right.then_some(value);
    match call {
        Call::Get(read) => when(read == value, value),
        Call::Set(new) => Some(Some(new)),
        Call::Add(new, true) => when(value.is_none(), Some(new)),
        Call::Add(_, false) => when(value.is_some(), value),
        Call::Replace(new, true) => when(value.is_some(), Some(new)),
        Call::Replace(_, false) => when(value.is_none(), value),
        Call::Incr(sum) => when(value.map(|value| value + 1) == sum, sum),
        Call::Delete(true) => when(value.is_some(), None),
        Call::Delete(false) => when(value.is_none(), None),
        // Another command may have stored the same value again, with another cas value.
        Call::Cas(read, new, Swapped::Stored) => when(value == Some(read), Some(new)),
        Call::Cas(_, _, Swapped::Exists) => when(value.is_some(), value),
        Call::Cas(_, _, Swapped::NotFound) => when(value.is_none(), value),
    }
}

/// The first call that is not done, those after it that are, and the value.
type State = (usize, Vec<usize>, Option<u64>);

/// A state of the search, and the calls that may be next in it, each with the value after it.
struct Step {
    state: State,
    next: Vec<(usize, Option<u64>)>,
    /// The call that was tried last.
    taken: usize,
}

/// Returns the next step after calls were done; `None` if all are.
fn step(events: &[Event], done: &[bool], first: usize, value: Option<u64>) -> Option<Step> {
    let first = (first..events.len()).find(|at| !done[*at])?;
    let mut horizon = u64::MAX;
    let (mut next, mut ahead) = (Vec::new(), Vec::new());
    // Calls are done only if they have started before the first one that is not done ended.
    for (at, event) in events.iter().enumerate().skip(first) {
        if event.start > horizon {
            break;
        }
        if done[at] {
            ahead.push(at);
        } else {
            horizon = horizon.min(event.end);
            next.push(at);
        }
    }
    let next = next.into_iter().rev();
    Some(Step {
        state: (first, ahead, value),
        next: next
            .filter_map(|at| Some((at, after(events[at].call, value)?)))
            .collect(),
        taken: first,
    })
}

/// Returns true if the calls, sorted by their starts, have an order that agrees with their times and replies:
/// the search of Wing and Gong ("Testing and verifying concurrent objects", 1993), which visits no state
/// twice (Lowe, "Testing for linearizability", 2017).
fn can_be_ordered(events: &[Event]) -> bool {
    let mut done = vec![false; events.len()];
    let mut dead = HashSet::new();
    let mut steps = Vec::from_iter(step(events, &done, 0, None));
    if steps.is_empty() {
        return true;
    }
    while let Some(last) = steps.last_mut() {
        if let Some((at, value)) = last.next.pop() {
            (done[at], last.taken) = (true, at);
            match step(events, &done, last.state.0, value) {
                None => return true,
                Some(step) if dead.contains(&step.state) => done[at] = false,
                Some(step) => steps.push(step),
            }
        } else {
            dead.extend(steps.pop().map(|step| step.state));
            if let Some(before) = steps.last() {
                done[before.taken] = false;
            }
        }
    }
    false
}

#[test]
fn the_check_finds_histories_that_have_no_order() {
    let event = |start, end, call| Event { start, end, call };
    let is_right = can_be_ordered;
    let set = event(0, 10, Call::Set(1));
    assert!(is_right(&[
        set,
        event(5, 6, Call::Get(None)),
        event(7, 8, Call::Get(Some(1)))
    ]));
    assert!(!is_right(&[
        set,
        event(5, 6, Call::Get(Some(1))),
        event(7, 8, Call::Get(None))
    ]));
    assert!(!is_right(&[set, event(11, 12, Call::Incr(Some(3)))]));
    assert!(!is_right(&[set, event(11, 12, Call::Add(5, true))]));
}

const CLIENTS: usize = 4;

#[test]
fn commands_on_one_key_are_linearizable() {
    histories_have_an_order(|_| {});
}

#[test]
fn copies_of_hot_items_are_linearizable() {
    let stats = histories_have_an_order(|settings| {
        settings.hot_items = 1 << 20;
        settings.hot_items_always = true;
    });
    assert_ne!(stats["hot_hits"], "0");
}

#[test]
fn commands_on_items_in_trees_are_linearizable() {
    histories_have_an_order(|settings| {
        settings.tree = Some("lb".parse().unwrap());
        settings.hot_items = 0;
    });
}

/// Runs clients against a server with changed settings and checks what they received. Returns its statistics.
fn histories_have_an_order(change: impl FnOnce(&mut ServerSettings)) -> HashMap<String, String> {
    const KEYS: u64 = 3;
    const CALLS: usize = 1500;
    let server = TestServer::start_with(|settings| {
        settings.threads = CLIENTS;
        change(settings);
    });
    let seed = seed();
    let (clock, barrier) = (AtomicU64::new(0), Barrier::new(CLIENTS));
    let mut histories: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (server, clock, barrier) = (&server, &clock, &barrier);
                scope.spawn(move || {
                    let mut random = Random::new(seed + number as u64);
                    let mut client = server.connect();
                    let mut events = Vec::new();
                    barrier.wait();
                    for call in 0..CALLS {
                        let key = random.below(KEYS);
                        let value = (call * CLIENTS + number) as u64 * 1000;
                        if random.below(8) == 0 {
                            let keys = [key, (key + 1) % KEYS];
                            let start = clock.fetch_add(1, Ordering::SeqCst);
                            let calls = client.call_together(keys, value, &mut random);
                            let end = clock.fetch_add(1, Ordering::SeqCst);
                            let events_of = keys.into_iter().zip(calls);
                            events.extend(events_of.map(|(key, call)| (key, Event { start, end, call })));
                            continue;
                        }
                        if random.below(8) == 0 {
                            let pairs = [(key, value), ((key + 1) % KEYS, value + 500)];
                            let start = clock.fetch_add(1, Ordering::SeqCst);
                            client.set_together(pairs);
                            let end = clock.fetch_add(1, Ordering::SeqCst);
                            let event = |value| Event {
                                start,
                                end,
                                call: Call::Set(value),
                            };
                            events.extend(pairs.map(|(key, value)| (key, event(value))));
                            continue;
                        }
                        let read = match random.below(8) {
                            0 => Some(client.read(key)),
                            _ => None,
                        };
                        let start = clock.fetch_add(1, Ordering::SeqCst);
                        let call = match read {
                            Some(Some((read, cas))) => Call::Cas(read, value, client.swap(key, value, cas)),
                            Some(None) => Call::Get(client.read(key).map(|(value, _)| value)),
                            None => client.call(key, value, &mut random),
                        };
                        let end = clock.fetch_add(1, Ordering::SeqCst);
                        events.push((key, Event { start, end, call }));
                    }
                    events
                })
            })
            .collect();
        for client in clients {
            for (key, event) in client.join().unwrap() {
                histories.entry(key).or_default().push(event);
            }
        }
    });
    for (key, mut events) in histories {
        events.sort_unstable_by_key(|event| event.start);
        assert!(
            can_be_ordered(&events),
            "key {key}, HALOCLINE_SEED={seed}: no order"
        );
    }
    server.connect().stats("stats\r\n")
}

trait Calls {
    fn read(&mut self, key: u64) -> Option<(u64, u64)>;
    fn swap(&mut self, key: u64, value: u64, cas: u64) -> Swapped;
    fn set_together(&mut self, pairs: [(u64, u64); 2]);
    fn call_together(&mut self, keys: [u64; 2], value: u64, random: &mut Random) -> [Call; 2];
    fn call(&mut self, key: u64, value: u64, random: &mut Random) -> Call;
}

impl Calls for support::Client<std::net::TcpStream> {
    /// Returns value and cas value.
    fn read(&mut self, key: u64) -> Option<(u64, u64)> {
        self.send(format!("gets k{key}\r\n").as_bytes());
        let line = self.line();
        if line == "END" {
            return None;
        }
        let cas = line.rsplit(' ').next().unwrap().parse().unwrap();
        let value = self.line().trim_end().parse().unwrap();
        assert_eq!(self.line(), "END");
        Some((value, cas))
    }

    fn swap(&mut self, key: u64, value: u64, cas: u64) -> Swapped {
        let text = value.to_string();
        self.send(format!("cas k{key} 0 0 {} {cas}\r\n{text}\r\n", text.len()).as_bytes());
        match self.line().as_str() {
            "STORED" => Swapped::Stored,
            "EXISTS" => Swapped::Exists,
            "NOT_FOUND" => Swapped::NotFound,
            other => panic!("{other}"),
        }
    }

    fn set_together(&mut self, pairs: [(u64, u64); 2]) {
        let set = |(key, value): (u64, u64)| {
            let text = value.to_string();
            format!("set k{key} 0 0 {}\r\n{text}\r\n", text.len())
        };
        self.send(pairs.map(set).concat().as_bytes());
        self.expect(b"STORED\r\nSTORED\r\n");
    }

    /// Sends commands of different kinds in one piece.
    fn call_together(&mut self, keys: [u64; 2], value: u64, random: &mut Random) -> [Call; 2] {
        let kinds = keys.map(|_| random.below(4));
        let requests = [0, 1].map(|at| {
            let (key, text) = (keys[at], (value + at as u64).to_string());
            match kinds[at] {
                0 => format!("set k{key} 0 0 {}\r\n{text}\r\n", text.len()),
                1 => format!("delete k{key}\r\n"),
                2 => format!("incr k{key} 1\r\n"),
                _ => format!("gat 0 k{key}\r\n"),
            }
        });
        self.send(requests.concat().as_bytes());
        [0, 1].map(|at| {
            let line = self.line();
            match kinds[at] {
                0 => Call::Set(value + at as u64),
                1 => Call::Delete(line == "DELETED"),
                2 => Call::Incr(line.trim_end().parse().ok()),
                _ if line == "END" => Call::Get(None),
                _ => {
                    let value = self.line().trim_end().parse().unwrap();
                    assert_eq!(self.line(), "END");
                    Call::Get(Some(value))
                }
            }
        })
    }

    fn call(&mut self, key: u64, value: u64, random: &mut Random) -> Call {
        let text = value.to_string();
        let mut stored = |name: &str| {
            self.send(format!("{name} k{key} 0 0 {}\r\n{text}\r\n", text.len()).as_bytes());
            match self.line().as_str() {
                "STORED" => true,
                "NOT_STORED" => false,
                other => panic!("{other}"),
            }
        };
        match random.below(8) {
            0 => {
                assert!(stored("set"));
                Call::Set(value)
            }
            1 => Call::Add(value, stored("add")),
            2 => Call::Replace(value, stored("replace")),
            3 | 4 => {
                self.send(format!("incr k{key} 1\r\n").as_bytes());
                Call::Incr(self.line().trim_end().parse().ok())
            }
            5 => {
                self.send(format!("delete k{key}\r\n").as_bytes());
                Call::Delete(self.line() == "DELETED")
            }
            _ => Call::Get(self.read(key).map(|(value, _)| value)),
        }
    }
}
