//! Closing: the checksums of nodes that hold until a tree is written again.

use std::sync::Arc;

use halocline_explore::{Explorer, MutantReport, Tracked, Violation};
use halocline_media::MediumAccess;
use halocline_pool::{Pool, PoolError};

use super::images;
use super::workload::{Do, Kind, check, contents, run, states};
use crate::seal::fault::{self, CloseFault};
use crate::{OrderedIndex, Range, TreeError};

/// State word of a closed slab, and its offset in the slab's head.
const CLOSED: u64 = u64::from_le_bytes(*b"slabshut");
const STATE: u64 = 32;

/// A value that occurs nowhere else.
const ODD: u64 = 0xDEAD_BEEF_0BAD_F00D;

/// Returns the offset of the state of the tree's slab.
fn state_at(pool: &Pool) -> u64 {
    let object = pool.snapshot().unwrap();
    object.get("tree").unwrap().extent_ref(0).offset + STATE
}

/// Returns the setup operations: a few leaves.
fn setup<K: Kind>() -> Vec<Do> {
    (1..=2 * K::LEAF + 2).map(|key| Do::Insert(key * 10)).collect()
}

/// Explores every crash of a tree that is opened, written and closed. Each image must open, hold what
/// was acknowledged and contain nothing that is taken for damage, and it must be closed after it is
/// closed again.
fn survives_closing<K: Kind>() -> Result<MutantReport, Box<Violation>> {
    let setup = setup::<K>();
    let operations = [Do::Update(20, 7), Do::Insert(15), Do::Remove(30)];
    let all = [setup.clone(), operations.to_vec()].concat();
    let states = states(&all);
    let explorer = Explorer {
        limit: 200,
        ..Explorer::default()
    };
    let closing = operations.len() as u64;
    let report = explorer.mutants(
        |medium| {
            let pool = Pool::create_on(Arc::clone(medium)).unwrap();
            run(&mut K::create(&pool), &setup, |_| (), |_| ());
            assert_eq!(medium.load_u64(state_at(&pool)), CLOSED);
        },
        |medium| {
            let pool = Pool::open_on(Arc::clone(medium)).unwrap();
            let mut tree = K::open(&pool).unwrap();
            run(
                &mut tree,
                &operations,
                |step| medium.begin(step),
                |step| medium.acknowledge(step),
            );
            medium.begin(closing);
            drop(tree);
            medium.acknowledge(closing);
        },
        |medium, crash| {
            let pool = Pool::open_on(Arc::clone(&medium)).map_err(|error| error.to_string())?;
            let closed = medium.load_u64(state_at(&pool)) == CLOSED;
            if crash.acknowledged.contains(&closing) && !closed {
                return Err("it is not closed".to_owned());
            }
            drop(pool);
            // Only the operations before closing, which changes no contents.
            let mut acknowledged = crash.acknowledged.to_vec();
            acknowledged.retain(|step| *step != closing);
            let mut crash = *crash;
            crash.acknowledged = &acknowledged;
            crash.in_flight = crash.in_flight.filter(|step| *step != closing);
            check::<K>(medium, &crash, &states, setup.len())
        },
    )?;
    images::count(report.images);
    Ok(report)
}

/// Checks that no flush or fence of closing, or of the first operation on a closed tree (an update),
/// can be left out, and that an injected fault is noticed. Other scenarios cover what is in between.
pub(crate) fn closing_and_the_first_store_after_it<K: Kind>() {
    let report = survives_closing::<K>().unwrap_or_else(|violation| panic!("{violation}"));
    let own = |text: &str| text.contains("operation 0") || text.contains("operation 3");
    let missed = report.missed.iter().filter(|(_, text)| own(text)).count();
    assert_eq!(missed, 0, "{report}");
    let broken = fault::with(CloseFault::StayClosed, survives_closing::<K>);
    assert!(
        broken.is_err(),
        "a tree that is written while it says that it is closed"
    );
}

/// Creates a closed tree with an odd value.
fn closed<K: Kind>() -> (Arc<Tracked>, Pool, u64) {
    let medium = Arc::new(Tracked::new(0).unwrap());
    let pool = Pool::create_on(Arc::clone(&medium)).unwrap();
    let mut tree = K::create(&pool);
    run(&mut tree, &setup::<K>(), |_| (), |_| ());
    tree.update(20, ODD).unwrap();
    drop(tree);
    let words = (0..medium.len()).step_by(8);
    let at: Vec<u64> = words.filter(|at| medium.load_u64(*at) == ODD).collect();
    assert_eq!(at.len(), 1);
    (medium, pool, at[0])
}

/// Checks that a changed bit of a value, which only the checksum can detect, is never read, however
/// often the tree is opened, written elsewhere and closed.
pub(crate) fn a_changed_value_is_damage_that_closing_keeps<K: Kind>() {
    let (medium, pool, at) = closed::<K>();
    medium.store_u64(at, ODD ^ 1 << 33);
    let far = 20 * K::LEAF + 30;
    for round in 0..3 {
        let tree = K::open(&pool).unwrap();
        assert!(matches!(tree.get(20), Err(TreeError::Damaged { .. })), "{round}");
        assert!(tree.insert(far + round, 1).unwrap());
        assert!(matches!(tree.update(20, 1), Err(TreeError::Damaged { .. })));
        assert_eq!(tree.check().unwrap().problems.len(), 1);
        let scanned: Result<Vec<_>, _> = Range::new(&tree, ..).collect();
        assert!(matches!(scanned, Err(TreeError::Damaged { .. })));
        drop(tree);
        // Closed again without a visit to the leaf.
        let tree = K::open(&pool).unwrap();
        assert!(tree.insert(far + 10 + round, 1).unwrap());
    }
    fault::with(CloseFault::SealDamaged, || {
        let tree = K::open(&pool).unwrap();
        assert!(tree.get(20).is_err());
        tree.insert(far + 20, 1).unwrap();
    });
    assert!(
        K::open(&pool).unwrap().get(20).is_ok(),
        "the test would not notice"
    );
}

/// Checks that several readers can share a tree, which stays closed, and that a writer excludes all
/// others.
pub(crate) fn readers_share_a_tree<K: Kind>() {
    let (medium, pool, _) = closed::<K>();
    let before = medium.image();
    let in_use = |result: Result<K::Tree, TreeError>| {
        matches!(result, Err(TreeError::Pool(PoolError::SlabInUse { .. })))
    };
    let (first, second) = (
        K::open_read_only(&pool).unwrap(),
        K::open_read_only(&pool).unwrap(),
    );
    for tree in [&first, &second] {
        assert_eq!(tree.get(20).unwrap(), Some(ODD));
        assert_eq!(contents(tree).unwrap().len() as u64, 2 * K::LEAF + 2);
        assert!(matches!(tree.insert(1, 1), Err(TreeError::ReadOnly { .. })));
        assert!(matches!(tree.update(20, 1), Err(TreeError::ReadOnly { .. })));
        assert!(matches!(tree.upsert(20, 1), Err(TreeError::ReadOnly { .. })));
        assert!(matches!(tree.remove(20), Err(TreeError::ReadOnly { .. })));
    }
    assert!(in_use(K::open(&pool)));
    drop(first);
    assert!(in_use(K::open(&pool)));
    drop(second);
    assert!(before == medium.image(), "something was stored");
    let writer = K::open(&pool).unwrap();
    assert!(in_use(K::open_read_only(&pool)));
    drop(writer);
    assert!(K::open_read_only(&pool).is_ok());
}

/// Checks that a tree that was not closed can be read where no change is unfinished. Elsewhere reads
/// must fail or return correct results.
pub(crate) fn readers_of_a_tree_that_was_not_closed<K: Kind>() {
    let setup = setup::<K>();
    let leaf = K::LEAF;
    let removals = (leaf / 2..leaf + leaf / 2).map(|key| Do::Remove(key * 10));
    let inserts = (1..=leaf).map(|key| Do::Insert(key * 10 + 1));
    let operations: Vec<Do> = inserts.chain(removals).collect();
    let states = states(&[setup.clone(), operations.clone()].concat());
    let explorer = Explorer {
        limit: 20,
        ..Explorer::default()
    };
    let (mut read, mut refused) = (0, 0);
    let report = explorer.run(
        |medium| {
            let pool = Pool::create_on(Arc::clone(medium)).unwrap();
            run(&mut K::create(&pool), &setup, |_| (), |_| ());
        },
        |medium| {
            let pool = Pool::open_on(Arc::clone(medium)).unwrap();
            let mut tree = K::open(&pool).unwrap();
            run(
                &mut tree,
                &operations,
                |step| medium.begin(step),
                |step| medium.acknowledge(step),
            );
            fault::with(CloseFault::Unsealed, || drop(tree));
        },
        |medium, crash| {
            let (first, last) = crash.completed(setup.len());
            let pool = Pool::open_on(Arc::clone(&medium)).map_err(|error| error.to_string())?;
            let before = medium.image();
            let found = K::open_read_only(&pool)
                .and_then(|tree| Range::new(&tree, ..).collect::<Result<Vec<_>, _>>());
            if before != medium.image() {
                return Err("something was stored".to_owned());
            }
            match found {
                Err(TreeError::NeedsRecovery { .. }) => refused += 1,
                Err(error) => return Err(error.to_string()),
                Ok(found) => {
                    read += 1;
                    let right = |state: usize| {
                        found
                            .iter()
                            .copied()
                            .eq(states[state].iter().map(|(k, v)| (*k, *v)))
                    };
                    if !right(first) && !right(last) {
                        return Err(format!("read {found:?} after {first} operations"));
                    }
                }
            }
            K::open(&pool).map(drop).map_err(|error| error.to_string())
        },
    );
    report.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(read > 0, "{refused} were refused");
}
