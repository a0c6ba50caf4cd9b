//! Tests of `src/version.rs` and `src/locks.rs` with atomics that explore every execution the memory
//! model allows, including those of machines with weaker ordering than this one: `cargo test -p
//! halocline-ordered --features loom --test orderings`.
//!
//! The protected data are two words that are stored and read with relaxed ordering, like the weakest
//! leaf or inner node.

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use fault::LockFault;
use locks::{Backoff, Locks};

#[path = "../src/locks.rs"]
#[allow(dead_code, reason = "not all of it is modelled")]
mod locks;

#[path = "../src/version.rs"]
mod version;

/// Modelled threads are coroutines of one real thread, so that a fault of this thread holds in all of them.
#[path = "../src/fault.rs"]
#[allow(dead_code, reason = "not all of it is modelled")]
mod fault;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
}

mod sched {
    use loom::sync::atomic::{AtomicU64, Ordering};

    loom::lazy_static! {
        /// A word that is stored to and never loaded, so that it imposes no order, while loom tries both
        /// orders of two stores to it. Without it, loom does not try both orders of a thread's load and
        /// another thread's store if the latter has loaded the word in between.
        static ref POINT: AtomicU64 = AtomicU64::new(0);
    }

    /// Allows a switch to another thread.
    pub(crate) fn point() {
        POINT.store(0, Ordering::Relaxed);
    }

    pub(crate) fn wait() -> bool {
        loom::thread::yield_now();
        true
    }
}

const LEAF: u32 = 7;

struct Leaf {
    locks: Locks,
    words: [AtomicU64; 2],
}

impl Leaf {
    fn new() -> Arc<Leaf> {
        sched::point();
        Arc::new(Leaf {
            locks: Locks::new(),
            words: [AtomicU64::new(0), AtomicU64::new(0)],
        })
    }

    /// Adds 1 to both words.
    fn write(&self) {
        let _locked = self.locks.lock(LEAF);
        for word in &self.words {
            sched::point();
            word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Returns both words at one version.
    fn read(&self) -> [u64; 2] {
        let mut backoff = Backoff::default();
        loop {
            if let Some(version) = self.locks.read(LEAF) {
                let words = [0, 1].map(|word: usize| {
                    sched::point();
                    self.words[word].load(Ordering::Relaxed)
                });
                if self.locks.validate(LEAF, version) {
                    return words;
                }
            }
            backoff.wait();
        }
    }
}

/// Data locked like an inner node: a writer reads it without the lock, which it obtains only if nothing
/// has changed since.
struct Node {
    version: AtomicU64,
    words: [AtomicU64; 2],
}

impl Node {
    fn new() -> Arc<Node> {
        sched::point();
        Arc::new(Node {
            version: AtomicU64::new(0),
            words: [AtomicU64::new(0), AtomicU64::new(0)],
        })
    }

    fn words(&self) -> [u64; 2] {
        [0, 1].map(|word: usize| self.words[word].load(Ordering::Relaxed))
    }

    /// Adds 1 to both words; returns false if a concurrent change interferes.
    fn write(&self) -> bool {
        let Some(seen) = version::read(&self.version) else {
            return false;
        };
        let words = self.words();
        let Some(_held) = version::lock(&self.version, seen) else {
            return false;
        };
        for (word, before) in self.words.iter().zip(words) {
            word.store(before + 1, Ordering::Relaxed);
        }
        true
    }

    /// Returns both words at one version, or `None` if a concurrent change interferes.
    fn read(&self) -> Option<[u64; 2]> {
        let seen = version::read(&self.version)?;
        let words = self.words();
        version::is_still(&self.version, seen).then_some(words)
    }
}

/// Checks that a reader of a node sees both words before or after a concurrent write.
fn a_reader_of_a_node() {
    loom::model(|| {
        let node = Node::new();
        let writer = {
            let node = Arc::clone(&node);
            thread::spawn(move || node.write())
        };
        if let Some([first, second]) = node.read() {
            assert_eq!(first, second);
        }
        assert!(writer.join().unwrap());
        assert_eq!(node.read(), Some([1, 1]));
    });
}

/// Checks that no writer stores values that it has read before another thread's change.
fn two_writers_of_a_node() {
    loom::model(|| {
        let node = Node::new();
        let other = {
            let node = Arc::clone(&node);
            thread::spawn(move || node.write())
        };
        let written = u64::from(node.write()) + u64::from(other.join().unwrap());
        assert!(written > 0);
        assert_eq!(node.read(), Some([written; 2]));
    });
}

/// Checks that a reader sees both words before or after a concurrent write.
fn a_reader_beside_a_writer() {
    loom::model(|| {
        let leaf = Leaf::new();
        let writer = {
            let leaf = Arc::clone(&leaf);
            thread::spawn(move || leaf.write())
        };
        let [first, second] = leaf.read();
        assert_eq!(first, second);
        writer.join().unwrap();
        assert_eq!(leaf.read(), [1, 1]);
    });
}

/// Checks that no writer's increment is lost.
fn two_writers() {
    loom::model(|| {
        let leaf = Leaf::new();
        let other = {
            let leaf = Arc::clone(&leaf);
            thread::spawn(move || leaf.write())
        };
        leaf.write();
        other.join().unwrap();
        assert_eq!(leaf.read(), [2, 2]);
    });
}

#[test]
fn readers_find_one_state() {
    a_reader_beside_a_writer();
}

#[test]
fn writers_come_one_after_the_other() {
    two_writers();
}

#[test]
fn readers_of_a_node_find_one_state() {
    a_reader_of_a_node();
}

#[test]
fn writers_of_a_node_have_read_what_they_change() {
    two_writers_of_a_node();
}

#[test]
fn weaker_orders_are_noticed() {
    let noticed = |fault, model: fn()| {
        let result = fault::with(fault, || catch_unwind(AssertUnwindSafe(model)));
        assert!(result.is_err(), "{fault:?}");
    };
    for fault in [
        LockFault::LeafUnvalidated,
        LockFault::ReadUnfenced,
        LockFault::LockUnfenced,
        LockFault::UnlockUnordered,
    ] {
        noticed(fault, a_reader_beside_a_writer);
    }
    noticed(LockFault::UnlockUnordered, two_writers);
    for fault in [
        LockFault::ReadUnfenced,
        LockFault::LockUnfenced,
        LockFault::UnlockUnordered,
    ] {
        noticed(fault, a_reader_of_a_node);
    }
    noticed(LockFault::UnlockUnordered, two_writers_of_a_node);
}
