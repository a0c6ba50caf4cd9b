//! Slabs under crashes: a list of nodes that are added and removed, whose owner loses nothing and finds
//! nothing twice.

use std::sync::Arc;

use halocline_explore::{Explorer, Mutation, Tracked, TrackedPageCache};
use halocline_media::{Medium, MediumAccess};

use super::model::{BOOT, LOG, NEXT_BOOT, PoolStep, SMALL_POOL, append, run};
use super::wrapped::Wrapped;
use crate::fault::{self, PoolFault};
use crate::layout::{BLOCK, DATA_START, SLAB_ROOT, SlabHead};
use crate::{NodeAtRest, Pool, PoolError, Slab, SlabOptions};

pub(super) const OPTIONS: SlabOptions = SlabOptions {
    node_size: 1024,
    owner: *b"a list\0\0",
    chunk: 2 * BLOCK,
};

/// A linked list: a node is the offset of the next one and a value; the root leads to the first.
pub(super) struct NodeList(pub(super) Slab);

impl NodeList {
    pub(super) fn open(pool: &Pool) -> Result<NodeList, PoolError> {
        let mut recovery = pool.open_slab("list", OPTIONS.owner)?;
        let mut at = recovery.slab().medium().load_u64(recovery.slab().root());
        while at != 0 {
            recovery.keep(at)?;
            at = recovery.slab().medium().load_u64(at);
        }
        Ok(NodeList(recovery.finish()))
    }

    pub(super) fn push(&self, value: u64) -> Result<(), PoolError> {
        let (medium, root) = (self.0.medium(), self.0.root());
        let node = self.0.alloc()?;
        medium.store_u64(node, medium.load_u64(root));
        medium.store_u64(node + 8, value);
        medium.persist(node, 16)?;
        medium.store_u64(root, node);
        Ok(medium.persist(root, 8)?)
    }

    /// Removes the second node, so that the list differs from its state before a push.
    pub(super) fn pop(&self) -> Result<(), PoolError> {
        let medium = self.0.medium();
        let first = medium.load_u64(self.0.root());
        let second = medium.load_u64(first);
        medium.store_u64(first, medium.load_u64(second));
        medium.persist(first, 8)?;
        self.0.free(second);
        Ok(())
    }

    pub(super) fn values(&self) -> Vec<u64> {
        let medium = self.0.medium();
        let next = |at: &u64| Some(medium.load_u64(*at)).filter(|next| *next != 0);
        let nodes = std::iter::successors(next(&self.0.root()), next);
        nodes.map(|node| medium.load_u64(node + 8)).collect()
    }
}

/// Pushes its number, counted from 1, or pops.
fn act(list: &NodeList, pushes: &[bool], begun: impl Fn(u64), done: impl Fn(u64)) {
    for (number, push) in (0..).zip(pushes) {
        begun(number);
        if *push {
            list.push(number + 1).unwrap()
        } else {
            list.pop().unwrap()
        }
        done(number);
    }
}

fn expected(pushes: &[bool]) -> Vec<u64> {
    let mut list = Vec::new();
    for (number, push) in (0..).zip(pushes) {
        if *push {
            list.insert(0, number + 1)
        } else {
            list.remove(1);
        }
    }
    list
}

/// Opens the pool and its list, and continues work on both.
fn check(medium: Arc<Tracked>, pushes: &[bool], first: usize, last: usize) -> Result<(), String> {
    let text = |error: PoolError| error.to_string();
    let pool = Pool::open_with(medium, SMALL_POOL, BOOT).map_err(text)?;
    let list = NodeList::open(&pool).map_err(text)?;
    let found = list.values();
    if found != expected(&pushes[..first]) && found != expected(&pushes[..last]) {
        return Err(format!("found {found:?} after {first} to {last} operations"));
    }
    let used = list.0.stats().used;
    if used != found.len() as u64 {
        return Err(format!("{used} nodes for {} values", found.len()));
    }
    for value in 100..112 {
        list.push(value).map_err(text)?;
    }
    drop(list);
    run(
        &pool,
        &[PoolStep::Put("a", 1, &[5000]), PoolStep::Remove("a")],
        |_| (),
        |_| (),
    );
    let list = NodeList::open(&pool).map_err(text)?;
    if list.values()[12..] != found[..] {
        return Err(format!("{found:?} became {:?}", list.values()));
    }
    Ok(())
}

const GROWS: &[bool] = &[
    true, true, true, false, true, false, false, true, true, true, true, true, false, true,
];

#[test]
fn nodes_are_reused_and_added() {
    let explorer = Explorer {
        limit: 300,
        ..Explorer::default()
    };
    let report = explorer.mutants(
        |medium| {
            let pool = Pool::create_with(Arc::clone(medium), SMALL_POOL).unwrap();
            drop(pool.create_slab("list", &OPTIONS).unwrap());
        },
        |medium| {
            let pool = Pool::open_with(Arc::clone(medium), SMALL_POOL, BOOT).unwrap();
            let list = NodeList::open(&pool).unwrap();
            act(
                &list,
                GROWS,
                |step| medium.begin(step),
                |step| medium.acknowledge(step),
            );
            assert!(list.0.stats().chunks > 1);
        },
        |medium, crash| {
            let (first, last) = crash.completed(0);
            check(medium, GROWS, first, last)
        },
    );
    let report = report.unwrap_or_else(|violation| panic!("{violation}"));
    // The fence after the superblock that names a chunk is redundant: the one after its first node replaces
    // it.
    let missed: Vec<_> = report.missed.iter().map(|(mutation, _)| *mutation).collect();
    assert!(matches!(missed[..], [Mutation::SkipFence(_)]), "{report}");
}

/// Explores every crash during the creation of a slab.
fn creation_breaks() -> Result<(), String> {
    let explorer = Explorer {
        limit: 300,
        ..Explorer::default()
    };
    let result = explorer.run(
        |medium| {
            let pool = Pool::create_with(Arc::clone(medium), SMALL_POOL).unwrap();
            drop(pool);
            // The space after the only directory is free, but not zero.
            let free = DATA_START + BLOCK;
            medium.store(free, &vec![0xEE; (medium.len() - free) as usize]);
        },
        |medium| {
            let pool = Pool::open_with(Arc::clone(medium), SMALL_POOL, BOOT).unwrap();
            medium.begin(0);
            drop(pool.create_slab("list", &OPTIONS).unwrap());
            medium.acknowledge(0);
        },
        |medium, crash| {
            let pool =
                Pool::open_with(Arc::clone(&medium), SMALL_POOL, BOOT).map_err(|error| error.to_string())?;
            let opened = NodeList::open(&pool).map(drop);
            match opened {
                Err(PoolError::NoSuchObject { .. }) if crash.acknowledged.is_empty() => Ok(()),
                _ => check(medium, &[], 0, 0),
            }
        },
    );
    result.map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn a_slab_is_created_whole_or_not_at_all() {
    creation_breaks().unwrap();
    assert!(fault::with(PoolFault::UnflushedSlabHead, creation_breaks).is_err());
}

/// Checks that another object that claims the space of a slab is detected.
fn chunks_overlap() -> bool {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_with(medium, SMALL_POOL).unwrap();
    drop(pool.create_slab("list", &OPTIONS).unwrap());
    let list = NodeList::open(&pool).unwrap();
    let pushes = [true; 12];
    act(&list, &pushes, |_| (), |_| ());
    run(
        &pool,
        &[PoolStep::Put("a", 1, &[5000, 5000, 5000])],
        |_| (),
        |_| (),
    );
    list.values() != expected(&pushes)
}

#[test]
fn chunks_are_published_before_they_are_used() {
    assert!(!chunks_overlap());
    let noticed = fault::with(PoolFault::UnpublishedChunk, || {
        std::panic::catch_unwind(chunks_overlap)
    });
    assert!(noticed.unwrap_or(true));
}

#[test]
fn growth_leaves_logs_as_they_are() {
    let pool = Pool::create_with(Arc::new(Tracked::new(0).unwrap()), SMALL_POOL).unwrap();
    run(
        &pool,
        &[PoolStep::Log(4096), PoolStep::Append(20)],
        |_| (),
        |_| (),
    );
    let before = pool.snapshot().unwrap();
    drop(pool.create_slab("list", &OPTIONS).unwrap());
    append(&pool, 50).unwrap();
    let list = NodeList::open(&pool).unwrap();
    act(&list, &[true; 12], |_| (), |_| ());
    append(&pool, 30).unwrap();
    for snapshot in [before, pool.snapshot().unwrap()] {
        assert_eq!(snapshot.log_records(LOG, 0).unwrap().records.len(), 3);
    }
    assert!(pool.check(|_| ()).unwrap().is_intact());
}

/// Loses power on a page cache: the slab opens in a synced state or is rejected.
fn after_power_loss(setup: usize) -> Result<(), String> {
    let explorer = Explorer {
        limit: 300,
        ..Explorer::default()
    };
    let pushes = [true, true, true, false, true, false];
    let result = explorer.run(
        |medium| {
            let pool = Pool::create_with(Wrapped::lazy(medium), SMALL_POOL).unwrap();
            drop(pool.create_slab("list", &OPTIONS).unwrap());
            if setup > 0 {
                act(&NodeList::open(&pool).unwrap(), &pushes[..setup], |_| (), |_| ());
            }
            pool.close().unwrap();
        },
        |medium| {
            let pool = Pool::open_with(Wrapped::lazy(medium), SMALL_POOL, BOOT).unwrap();
            let list = NodeList::open(&pool).unwrap();
            for (number, push) in (0..).zip(pushes).skip(setup) {
                if push {
                    list.push(number + 1).unwrap()
                } else {
                    list.pop().unwrap()
                }
            }
            medium.begin(0);
            drop(list);
            medium.acknowledge(0);
        },
        |medium, crash| {
            let pool = Pool::open_with(Wrapped::lazy(&medium), SMALL_POOL, NEXT_BOOT);
            let pool = pool.map_err(|error| error.to_string())?;
            match NodeList::open(&pool) {
                Err(PoolError::SlabUnsynced { .. }) if crash.acknowledged.is_empty() => Ok(()),
                Err(error) => Err(error.to_string()),
                Ok(list) => {
                    let found = list.values();
                    let synced = found == expected(&pushes[..setup]) && crash.acknowledged.is_empty();
                    if synced || found == expected(&pushes) {
                        Ok(())
                    } else {
                        Err(format!("found {found:?}"))
                    }
                }
            }
        },
    );
    result.map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn power_loss_that_may_have_torn_nodes_is_noticed() {
    after_power_loss(2).unwrap();
    for fault in [
        PoolFault::TrustSlabAfterReboot,
        PoolFault::MarkSlabLate,
        PoolFault::UnmarkSlabFirst,
    ] {
        let result = fault::with(fault, || after_power_loss(2));
        assert!(result.is_err(), "{fault:?}");
    }
}

#[test]
fn what_power_loss_has_left_can_be_accepted() {
    let tracked = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_with(Wrapped::lazy(&tracked), SMALL_POOL).unwrap();
    drop(pool.create_slab("list", &OPTIONS).unwrap());
    pool.sync().unwrap();
    let list = NodeList::open(&pool).unwrap();
    list.push(1).unwrap();
    let copy = Arc::new(Tracked::from_image(&tracked.image()).unwrap());
    let pool = Pool::open_with(Wrapped::lazy(&copy), SMALL_POOL, NEXT_BOOT).unwrap();
    assert!(matches!(
        NodeList::open(&pool),
        Err(PoolError::SlabUnsynced { .. })
    ));
    drop(pool.open_slab_unsynced("list", OPTIONS.owner).unwrap());
    assert_eq!(NodeList::open(&pool).unwrap().values(), [1]);
}

#[test]
fn an_open_slab_is_not_removed() {
    let pool = Pool::create_with(Arc::new(Tracked::new(0).unwrap()), SMALL_POOL).unwrap();
    let slab = pool.create_slab("list", &OPTIONS).unwrap();
    let in_use = |result: Result<(), PoolError>| matches!(result, Err(PoolError::SlabInUse { .. }));
    let txn = pool.begin().unwrap();
    assert!(in_use(txn.remove("list")) && in_use(txn.put_log("list", 10)));
    assert!(fault::with(PoolFault::RemoveOpenSlab, || !in_use(
        txn.remove("list")
    )));
    drop(txn);
    assert!(in_use(pool.open_slab("list", OPTIONS.owner).map(drop)));
    drop(slab);
    let txn = pool.begin().unwrap();
    txn.remove("list").unwrap();
    assert!(in_use(pool.open_slab("list", OPTIONS.owner).map(drop)));
    txn.commit().unwrap();
    let gone = pool.open_slab("list", OPTIONS.owner);
    assert!(matches!(gone, Err(PoolError::NoSuchObject { .. })));
}

#[test]
fn a_full_pool_changes_nothing() {
    let medium = Wrapped::new(&Arc::new(Tracked::new(0).unwrap()));
    let pool = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
    drop(pool.create_slab("list", &OPTIONS).unwrap());
    let list = NodeList::open(&pool).unwrap();
    medium.limit(pool.info().unwrap().len);
    let mut pushed = 0;
    let error = loop {
        match list.push(pushed) {
            Ok(()) => pushed += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, PoolError::DiskFull { .. }), "{error}");
    assert_eq!(list.values().len() as u64, pushed);
    assert_eq!(list.0.stats().used, pushed);
    medium.limit(u64::MAX);
    list.push(pushed).unwrap();
}

/// Explores every crash of a list that is closed, written and closed again: where the slab is marked closed,
/// all nodes match their checksums.
fn checksums_hold_when_they_say_so(lazy: bool) -> Result<(), String> {
    let explorer = Explorer {
        limit: 300,
        ..Explorer::default()
    };
    let wrap = |medium: &Arc<Tracked>| {
        if lazy {
            Wrapped::lazy(medium)
        } else {
            Wrapped::new(medium)
        }
    };
    let work = |medium: &Arc<Tracked>, values: std::ops::Range<u64>| {
        let pool = Pool::open_with(wrap(medium), SMALL_POOL, BOOT).unwrap();
        let NodeList(mut slab) = NodeList::open(&pool).unwrap();
        slab.begin_writing().unwrap();
        let list = NodeList(slab);
        values.for_each(|value| list.push(value).unwrap());
        // Change a node in use in place.
        let first = list.0.medium().load_u64(list.0.root());
        list.0.medium().store_u64(first + 8, 77);
        list.0.medium().persist(first + 8, 8).unwrap();
        slab = list.0;
        slab.seal(|_| NodeAtRest::Current).unwrap();
    };
    let result = explorer.run(
        |medium| {
            let pool = Pool::create_with(wrap(medium), SMALL_POOL).unwrap();
            drop(pool.create_slab("list", &OPTIONS).unwrap());
            pool.close().unwrap();
            work(medium, 0..2);
        },
        |medium| {
            medium.begin(0);
            work(medium, 2..3);
            medium.acknowledge(0);
        },
        |medium, crash| {
            let pool = Pool::open_with(wrap(&medium), SMALL_POOL, if lazy { NEXT_BOOT } else { BOOT });
            let pool = pool.map_err(|error| error.to_string())?;
            let NodeList(slab) = match NodeList::open(&pool) {
                Err(PoolError::SlabUnsynced { .. }) if crash.acknowledged.is_empty() => return Ok(()),
                list => list.map_err(|error| error.to_string())?,
            };
            slab.check_root().map_err(|error| error.to_string())?;
            let Some(sums) = slab.sums() else {
                return if crash.acknowledged.is_empty() {
                    Ok(())
                } else {
                    Err("it is not closed".to_owned())
                };
            };
            let medium = slab.medium();
            let next = |at: &u64| Some(medium.load_u64(*at)).filter(|next| *next != 0);
            let mut nodes = std::iter::successors(next(&slab.root()), next);
            match nodes.find(|node| !sums.matches(*node)) {
                None => Ok(()),
                Some(node) => Err(format!("the node at {node} is not as its checksum says")),
            }
        },
    );
    result.map(drop).map_err(|violation| violation.to_string())
}

#[test]
fn checksums_hold_from_closing_to_the_next_store() {
    for lazy in [false, true] {
        checksums_hold_when_they_say_so(lazy).unwrap();
    }
    let broken = |fault, lazy| fault::with(fault, || checksums_hold_when_they_say_so(lazy)).is_err();
    assert!(broken(PoolFault::KeepSlabClosed, false));
    assert!(broken(PoolFault::SealUnfenced, false));
}

/// Returns a medium of tracked memory, which only a sync makes durable if it is lazy.
fn tracked_medium(lazy: bool) -> Medium {
    let tracked = Arc::new(Tracked::new(0).unwrap());
    if lazy {
        Medium::from(TrackedPageCache::new(&tracked, false))
    } else {
        Medium::from(&tracked)
    }
}

#[test]
fn the_owners_word_holds_from_closing_to_the_next_store() {
    for lazy in [false, true] {
        let pool = Pool::create_with(tracked_medium(lazy), SMALL_POOL).unwrap();
        let mut slab = pool.create_slab("list", &OPTIONS).unwrap();
        assert!(slab.is_changed() && slab.can_close());
        slab.set_owner_word(77);
        assert_eq!(slab.owner_word(), 0);
        slab.seal(|_| NodeAtRest::Current).unwrap();
        drop(slab);
        let open = || pool.open_slab("list", OPTIONS.owner).unwrap();
        // A slab that is not written keeps its word, whatever the owner sets.
        for _ in 0..2 {
            let mut slab = open().finish();
            assert_eq!((slab.owner_word(), slab.is_changed()), (77, false));
            slab.set_owner_word(78);
            slab.seal(|_| NodeAtRest::Current).unwrap();
        }
        // Nodes in use can be restored until some were reported.
        let slab = open().finish();
        let (node, empty) = (slab.alloc().unwrap(), slab.usage(&[]));
        slab.free(node);
        drop(slab);
        let mut recovery = open();
        assert!(recovery.restore_usage(&empty, &[]) && !recovery.restore_usage(&empty, &[]));
        let mut slab = recovery.finish();
        assert!(slab.is_used(node) && !slab.is_used(node + 1));
        slab.begin_writing().unwrap();
        assert!(slab.is_changed());
        // Without a new word there is none after the next closing.
        slab.seal(|_| NodeAtRest::Current).unwrap();
        drop(slab);
        assert_eq!(open().slab().owner_word(), 0);
        let mut slab = open().finish();
        slab.set_owner_word(79);
        slab.begin_writing().unwrap();
        slab.seal(|_| NodeAtRest::Current).unwrap();
        drop(slab);
        let slab = pool.open_slab_unsynced("list", OPTIONS.owner).unwrap().finish();
        assert_eq!(slab.owner_word(), 0, "a word that may be older than the nodes");
        drop(slab);
    }
}

#[test]
fn a_word_that_is_kept_survives_a_crash() {
    for lazy in [false, true] {
        let pool = Pool::create_with(tracked_medium(lazy), SMALL_POOL).unwrap();
        // A slab that is dropped without being closed is as its process left it.
        let slab = pool.create_slab("list", &OPTIONS).unwrap();
        slab.begin_writing().unwrap();
        slab.replace_open_word(5).unwrap();
        drop(slab);
        let open = || pool.open_slab("list", OPTIONS.owner).unwrap();
        for _ in 0..2 {
            let mut recovery = open();
            assert_eq!(recovery.slab().owner_word(), 5);
            assert!(recovery.slab().sums().is_none());
            recovery.keep_owner_word(true);
            let slab = recovery.finish();
            slab.begin_writing().unwrap();
            drop(slab);
        }
        assert!(!pool.slab_is_closed("list").unwrap());
        let accepted = pool.open_slab_unsynced("list", OPTIONS.owner).unwrap();
        assert_eq!(
            accepted.slab().owner_word(),
            0,
            "a word that may be older than the nodes"
        );
        drop(accepted);
        // The word of a closing, too, is valid as long as it is kept.
        let mut slab = open().finish();
        slab.set_owner_word(6);
        slab.seal(|_| NodeAtRest::Current).unwrap();
        drop(slab);
        for (keep, after) in [(true, 6), (false, 0), (false, 0)] {
            let mut recovery = open();
            recovery.keep_owner_word(keep);
            let slab = recovery.finish();
            slab.begin_writing().unwrap();
            drop(slab);
            assert_eq!(open().slab().owner_word(), after);
        }
        let mut slab = open().finish();
        slab.begin_writing().unwrap();
        slab.replace_open_word(7).unwrap();
        slab.replace_open_word(0).unwrap();
        let set = slab.node_set();
        let nodes = [(); 3].map(|()| slab.alloc().unwrap());
        assert!(set.insert(nodes[1]) && !set.insert(nodes[1]) && !set.insert(nodes[0] + 1));
        slab.retain(&set);
        assert_eq!(nodes.map(|node| slab.is_used(node)), [false, true, false]);
        set.remove(nodes[1]);
        assert!(!set.contains(nodes[1]) && set.insert(nodes[1]) && set.bytes() > 0);
        slab.seal(|_| NodeAtRest::Current).unwrap();
        drop(slab);
        assert_eq!(open().slab().owner_word(), 0);
    }
}

#[test]
fn a_damaged_head_or_root_is_refused_unless_it_is_accepted() {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
    let mut slab = pool.create_slab("list", &OPTIONS).unwrap();
    let (state, root) = (slab.root() - SLAB_ROOT + SlabHead::STATE, slab.root());
    slab.seal(|_| NodeAtRest::Current).unwrap();
    drop(slab);
    let right = medium.load_u64(state);
    for wrong in [0, right ^ 1] {
        medium.store_u64(state, wrong);
        for opened in [
            pool.open_slab("list", OPTIONS.owner),
            pool.open_slab_read_only("list", OPTIONS.owner),
        ] {
            assert!(matches!(opened, Err(PoolError::DamagedSlab { .. })));
        }
        assert!(pool.open_slab_unsynced("list", OPTIONS.owner).is_ok());
    }
    medium.store_u64(state, right);
    medium.store_u64(root + 8, 1);
    let slab = pool.open_slab_read_only("list", OPTIONS.owner).unwrap().finish();
    assert!(matches!(slab.check_root(), Err(PoolError::DamagedSlab { .. })));
    drop(slab);
    let slab = pool.open_slab_unsynced("list", OPTIONS.owner).unwrap().finish();
    slab.check_root().unwrap();
}

/// Checks that a slab whose opening fails stays closed, and that its defects stay as they were.
#[test]
fn opening_in_vain_changes_no_state() {
    let medium = Wrapped::lazy(&Arc::new(Tracked::new(0).unwrap()));
    let pool = Pool::create_with(Arc::clone(&medium), SMALL_POOL).unwrap();
    let mut slab = pool.create_slab("list", &OPTIONS).unwrap();
    slab.seal(|_| NodeAtRest::Current).unwrap();
    medium.store_u64(slab.root(), 1);
    drop(slab);
    for _ in 0..2 {
        let slab = pool.open_slab("list", OPTIONS.owner).unwrap().finish();
        assert!(matches!(slab.check_root(), Err(PoolError::DamagedSlab { .. })));
    }
    assert!(pool.slab_is_closed("list").unwrap());
}
