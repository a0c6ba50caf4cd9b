//! Slabs whose owner keeps a frontier: it opens them without following its links, allocates nodes, and
//! follows the links later.

use std::sync::Arc;

use halocline_explore::{Explorer, Tracked};

use super::model::{BOOT, SMALL_POOL};
use crate::fault::{self, PoolFault};
use crate::layout::BLOCK;
use crate::{ConfirmedNode, NodeAtRest, Pool, PoolError, Slab, SlabOptions};

const OPTIONS: SlabOptions = SlabOptions {
    node_size: 256,
    owner: *b"a list\0\0",
    chunk: 2 * BLOCK,
};

/// A linked list: a node is the offset of the next one and a value; the root leads to the first.
struct LazyList(Slab);

impl LazyList {
    fn open(pool: &Pool) -> Result<LazyList, PoolError> {
        let mut recovery = pool.open_slab("list", OPTIONS.owner)?;
        match recovery.slab().medium().load_u64(recovery.slab().root()) {
            0 => recovery.keep_none(),
            _ => recovery.keep_in_doubt(),
        }
        let slab = recovery.finish();
        slab.begin_writing()?;
        Ok(LazyList(slab))
    }

    fn push(&self, value: u64) -> Result<(), PoolError> {
        let (medium, root) = (self.0.medium(), self.0.root());
        let node = self.0.alloc()?;
        medium.store_u64(node, medium.load_u64(root));
        medium.store_u64(node + 8, value);
        medium.persist(node, 16)?;
        medium.store_u64(root, node);
        Ok(medium.persist(root, 8)?)
    }

    /// Removes the first node.
    fn pop(&self) -> Result<(), PoolError> {
        let (medium, root) = (self.0.medium(), self.0.root());
        let first = medium.load_u64(root);
        medium.store_u64(root, medium.load_u64(first));
        medium.persist(root, 8)?;
        self.0.free(first);
        Ok(())
    }

    fn nodes(&self) -> Vec<u64> {
        let medium = self.0.medium();
        let next = |at: &u64| Some(medium.load_u64(*at)).filter(|next| *next != 0);
        std::iter::successors(next(&self.0.root()), next)
            .take(10_000)
            .collect()
    }

    fn values(&self) -> Vec<u64> {
        let nodes = self.nodes();
        nodes
            .iter()
            .map(|node| self.0.medium().load_u64(node + 8))
            .collect()
    }

    /// Finds out which nodes are in use.
    fn follow(&self) -> Result<(), String> {
        for node in self.nodes() {
            let state = self.0.confirm(node);
            if !matches!(state, ConfirmedNode::Found | ConfirmedNode::New) {
                return Err(format!("the node at {node} is {state:?}"));
            }
        }
        self.0.free_doubtful();
        Ok(())
    }
}

/// Pushes and pops a number of values.
const STEPS: [bool; 60] = {
    let mut steps = [true; 60];
    let mut step = 3;
    while step < 60 {
        steps[step] = step % 4 != 0;
        step += 3;
    }
    steps
};

fn expected(steps: &[bool]) -> Vec<u64> {
    let mut list = Vec::new();
    for (number, push) in (0..).zip(steps) {
        if *push {
            list.insert(0, number)
        } else {
            list.remove(0);
        }
    }
    list
}

fn check(medium: Arc<Tracked>, first: usize, last: usize) -> Result<(), String> {
    let text = |error: PoolError| error.to_string();
    let pool = Pool::open_with(medium, SMALL_POOL, BOOT).map_err(text)?;
    let mut model = Vec::new();
    for life in 0..3 {
        let list = LazyList::open(&pool).map_err(text)?;
        let found = list.values();
        let fits = match life {
            0 => found == expected(&STEPS[..first]) || found == expected(&STEPS[..last]),
            _ => found == model,
        };
        if !fits {
            return Err(format!("found {found:?} in life {life} after {first} operations"));
        }
        model = found;
        for value in 100..103 {
            list.push(value).map_err(text)?;
            model.insert(0, value);
        }
        if life == 1 {
            list.follow()?;
            let used = list.0.stats().used;
            if used != model.len() as u64 || list.0.doubtful() != 0 {
                return Err(format!("{used} nodes for {} values", model.len()));
            }
        }
    }
    Ok(())
}

fn survives() -> Result<(), String> {
    let explorer = Explorer {
        limit: 100,
        ..Explorer::default()
    };
    let report = explorer.run(
        |medium| {
            let pool = Pool::create_with(Arc::clone(medium), SMALL_POOL).unwrap();
            drop(pool.create_slab("list", &OPTIONS).unwrap());
        },
        |medium| {
            let pool = Pool::open_with(Arc::clone(medium), SMALL_POOL, BOOT).unwrap();
            let list = LazyList::open(&pool).unwrap();
            for (number, push) in (0..).zip(STEPS) {
                medium.begin(number);
                if push {
                    list.push(number).unwrap()
                } else {
                    list.pop().unwrap()
                }
                medium.acknowledge(number);
            }
            assert!(list.0.stats().chunks > 1);
        },
        |medium, crash| {
            let (first, last) = crash.completed(0);
            check(medium, first, last)
        },
    );
    report.map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn nodes_behind_the_frontier_are_free_after_a_crash() {
    survives().unwrap();
    assert!(fault::with(PoolFault::FrontierNotStored, survives).is_err());
}

/// Returns true if a slab that has grown while nodes were in doubt may do so again, in the next life and
/// after its links were followed.
fn grows_in_doubt() -> [bool; 3] {
    let pool = Pool::create_with(Arc::new(Tracked::new(0).unwrap()), SMALL_POOL).unwrap();
    drop(pool.create_slab("list", &OPTIONS).unwrap());
    let list = LazyList::open(&pool).unwrap();
    list.push(1).unwrap();
    drop(list);
    let list = LazyList::open(&pool).unwrap();
    let before = list.0.may_grow_in_doubt();
    while list.0.stats().chunks == 1 {
        list.push(2).unwrap();
    }
    drop(list);
    let list = LazyList::open(&pool).unwrap();
    let after = list.0.may_grow_in_doubt();
    list.follow().unwrap();
    // The next frontier that is stored no longer says so.
    let ready = list.0.stats().capacity - list.0.stats().used;
    (0..ready).for_each(|_| list.push(3).unwrap());
    drop(list);
    [
        before,
        after,
        LazyList::open(&pool).unwrap().0.may_grow_in_doubt(),
    ]
}

#[test]
fn growth_in_doubt_is_remembered() {
    assert_eq!(grows_in_doubt(), [true, false, true]);
    assert_eq!(
        fault::with(PoolFault::GrowthNotRecorded, grows_in_doubt),
        [true, true, true]
    );
}

#[test]
fn a_closed_slab_knows_the_nodes_behind_the_last_one_in_use() {
    let pool = Pool::create_with(Arc::new(Tracked::new(0).unwrap()), SMALL_POOL).unwrap();
    drop(pool.create_slab("list", &OPTIONS).unwrap());
    let mut list = LazyList::open(&pool).unwrap();
    (0..5).for_each(|value| list.push(value).unwrap());
    list.0.seal(|_| NodeAtRest::Current).unwrap();
    drop(list);
    let list = LazyList::open(&pool).unwrap();
    assert_eq!((list.0.doubtful(), list.0.stats().used), (5, 5));
    let nodes = list.nodes();
    assert_eq!(list.0.confirm(nodes[0]), ConfirmedNode::Found);
    assert_eq!(list.0.confirm(nodes[0]), ConfirmedNode::Again);
    list.push(5).unwrap();
    let new = list.nodes()[0];
    assert_eq!(list.0.confirm(new), ConfirmedNode::New);
    let behind = list.0.nodes_end() - OPTIONS.node_size as u64;
    for free in [behind, new + 8, 8] {
        assert_eq!(list.0.confirm(free), ConfirmedNode::NotInUse);
    }
    // A freed node is known to be free, and new when it is allocated again.
    list.pop().unwrap();
    list.pop().unwrap();
    assert_eq!(list.0.doubtful(), 4);
    list.push(6).unwrap();
    assert_eq!(list.0.confirm(list.nodes()[0]), ConfirmedNode::New);
    list.0.free_doubtful();
    assert_eq!(list.0.stats().used, 1);
}

/// Checks that each bit of the word is covered, so that a damaged one never makes nodes free.
#[test]
fn a_damaged_frontier_puts_all_nodes_in_doubt() {
    let pool = Pool::create_with(Arc::new(Tracked::new(0).unwrap()), SMALL_POOL).unwrap();
    drop(pool.create_slab("list", &OPTIONS).unwrap());
    let list = LazyList::open(&pool).unwrap();
    list.push(1).unwrap();
    let capacity = list.0.stats().capacity;
    drop(list);
    let slab = pool.open_slab("list", OPTIONS.owner).unwrap().finish();
    let word = slab.owner_word();
    assert_ne!(word, 0);
    drop(slab);
    for bit in 0..64 {
        let mut recovery = pool.open_slab("list", OPTIONS.owner).unwrap();
        recovery.keep_owner_word(true);
        let slab = recovery.finish();
        slab.replace_open_word(word ^ 1 << bit).unwrap();
        drop(slab);
        let list = LazyList::open(&pool).unwrap();
        assert_eq!(list.0.doubtful(), capacity, "bit {bit}");
        drop(list);
        let slab = pool.open_slab("list", OPTIONS.owner).unwrap().finish();
        slab.replace_open_word(word).unwrap();
        drop(slab);
        assert_eq!(LazyList::open(&pool).unwrap().0.doubtful(), 1, "bit {bit}");
    }
}
