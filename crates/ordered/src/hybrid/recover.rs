//! Opening: along the leaves by their links, then up to the root.
//!
//! One thread follows the links, which is all that must be done in order; the others look at the leaves it has passed. What a crash
//! has left half done is finished: entries that a split has moved are cleared, empty leaves are unlinked. Each of these
//! changes is one store, so a crash in between does no harm.
//!
//! Damaged leaves do not keep a tree from opening: whatever needs one is refused, and `check` names all. A
//! link that contradicts its target is told from a damaged target by where the target's own keys lead to.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use halocline_media::Medium;
use halocline_pool::{NodeSums, Pool, Slab, SlabRecovery};

use crate::TreeError;
use crate::inner::InnerNodes;
use crate::locks::Locks;
use crate::open_mode::{NOT_AS_CLOSED, OpenMode, may_finish};
use crate::write_gate::WriteGate;

use super::check::{LeafSummary, facts};
use super::leaf_ref::LeafRef;
use super::leaves::LeafFormat;
use super::tree::{HybridTree, number_of, offset_of};
use crate::damaged::DamagedNodes;
use crate::entry_counter::EntryCounter;

/// Leaves that are handed over at a time.
const BATCH: usize = 4096;

/// Leaves that are fetched ahead of a look at them.
const AHEAD: usize = 8;

impl<L: LeafFormat> HybridTree<L> {
    /// Opens a tree.
    pub(crate) fn open(pool: &Pool, name: &str, open_mode: OpenMode, leaves: L) -> Result<Self, TreeError> {
        recover(open_mode.slab(pool, name, L::OWNER)?, leaves)
    }
}

/// Opens a tree on its slab.
fn recover<L: LeafFormat>(mut recovery: SlabRecovery, leaves: L) -> Result<HybridTree<L>, TreeError> {
    let (medium, root) = (recovery.slab().medium(), recovery.slab().root());
    let first = medium.load_u64(root);
    if first == 0 || recovery.slab().is_node(first) {
        // Another link is refused by name.
        recovery.slab().check_root()?;
    }
    if first == 0 {
        return begin(recovery.finish(), leaves);
    }
    leaves.finish(recovery.slab())?;
    let mut found = walk::<L>(&mut recovery)?;
    let slab = recovery.finish();
    let broken = DamagedNodes::default();
    settle::<L>(&slab, &mut found, &broken)?;
    if broken.any() {
        // A damaged leaf may have been linked to others.
        slab.keep_all();
    }
    let count = found.iter().map(|leaf| leaf.facts.count).sum();
    let index = bounds(&found);
    Ok(HybridTree {
        inner: InnerNodes::build(&index)?,
        slab,
        locks: Locks::new(),
        count: EntryCounter::new(count),
        broken,
        write_gate: WriteGate::default(),
        leaves,
    })
}

/// The first leaf of a tree that has none.
fn begin<L: LeafFormat>(slab: Slab, leaves: L) -> Result<HybridTree<L>, TreeError> {
    may_finish(&slab)?;
    let offset = slab.alloc()?;
    let number = number_of(offset, slab.name())?;
    let medium = slab.medium();
    L::write_new(LeafRef { medium, offset }, std::iter::empty(), 0, false);
    medium.fence()?;
    medium.store_u64(slab.root(), offset);
    medium.persist(slab.root(), 8)?;
    Ok(HybridTree {
        inner: InnerNodes::new(number)?,
        slab,
        locks: Locks::new(),
        count: EntryCounter::new(0),
        broken: DamagedNodes::default(),
        write_gate: WriteGate::default(),
        leaves,
    })
}

/// A leaf that the links lead to.
#[derive(Debug)]
struct RecoveredLeaf {
    number: u32,
    facts: LeafSummary,
}

/// All leaves, in the order of their links.
fn walk<L: LeafFormat>(recovery: &mut SlabRecovery) -> Result<Vec<RecoveredLeaf>, TreeError> {
    let medium = recovery.slab().medium().clone();
    let sums = recovery.slab().sums().cloned();
    let first = medium.load_u64(recovery.slab().root());
    let (leaves, mut at) = follow::<L>(recovery, first)?;
    if at == 0 {
        // Not worth another thread.
        return Ok(look_at::<L>(&medium, sums.as_ref(), &leaves));
    }
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(8);
    let (sender, receiver) = sync_channel::<(usize, Vec<u32>)>(64);
    let (receiver, looked) = (Mutex::new(receiver), Mutex::new(BTreeMap::new()));
    let look = || {
        while let Ok((number, leaves)) = locked(&receiver).recv() {
            let found = look_at::<L>(&medium, sums.as_ref(), &leaves);
            locked(&looked).insert(number, found);
        }
    };
    let walked = thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(look)));
        let (mut batch, mut number) = (leaves, 0);
        loop {
            // Nobody hangs up before all is sent.
            let _ = sender.send((number, batch));
            if at == 0 {
                drop(sender);
                return Ok(());
            }
            number += 1;
            (batch, at) = match follow::<L>(recovery, at) {
                Ok(followed) => followed,
                Err(error) => {
                    drop(sender);
                    return Err(error);
                }
            };
        }
    });
    walked?;
    let looked = looked.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(looked.into_values().flatten().collect())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Follows the links for one batch, naming the nodes; returns their numbers and the link behind them.
fn follow<L: LeafFormat>(recovery: &mut SlabRecovery, first: u64) -> Result<(Vec<u32>, u64), TreeError> {
    let (mut at, mut batch) = (first, Vec::with_capacity(BATCH));
    while at != 0 && batch.len() < BATCH {
        recovery.keep(at)?;
        batch.push(number_of(at, recovery.slab().name())?);
        let leaf = LeafRef {
            medium: recovery.slab().medium(),
            offset: at,
        };
        at = L::next(leaf);
    }
    Ok((batch, at))
}

/// Looks at leaves, while the next ones are being fetched.
fn look_at<L: LeafFormat>(medium: &Medium, sums: Option<&NodeSums>, leaves: &[u32]) -> Vec<RecoveredLeaf> {
    let leaf = |number: u32| LeafRef {
        medium,
        offset: offset_of(number),
    };
    let look = |(at, number): (usize, &u32)| {
        if let Some(ahead) = leaves.get(at + AHEAD) {
            L::fetch_all(leaf(*ahead));
        }
        let mut facts = facts::<L>(leaf(*number));
        if sums.is_some_and(|sums| !sums.matches(offset_of(*number))) {
            facts.damage = Some(NOT_AS_CLOSED);
        }
        RecoveredLeaf {
            number: *number,
            facts,
        }
    };
    leaves.iter().enumerate().map(look).collect()
}

/// Finishes what was left half done, and sorts out what is damaged.
fn settle<L: LeafFormat>(
    slab: &Slab,
    leaves: &mut Vec<RecoveredLeaf>,
    broken: &DamagedNodes,
) -> Result<(), TreeError> {
    let medium = slab.medium();
    let leaf = |number: u32| LeafRef {
        medium,
        offset: offset_of(number),
    };
    // Entries that belong to the next leaf.
    let mut next: Option<usize> = None;
    for at in (0..leaves.len()).rev() {
        if leaves[at].facts.damage.is_some() || leaves[at].facts.count == 0 {
            continue;
        }
        if let Some(next) = next
            && leaves[at].facts.greatest >= leaves[next].facts.least
        {
            let least = leaves[next].facts.least;
            // What a split or a leaf that takes over another has left is in the next leaf too; what is not belongs to nobody.
            let (left, right) = (leaf(leaves[at].number), leaf(leaves[next].number));
            if slab.sums().is_none() && are_copies::<L>(left, right, least) {
                may_finish(slab)?;
                L::clear_from(left, least)?;
            }
            leaves[at].facts = facts::<L>(leaf(leaves[at].number));
            if leaves[at].facts.count > 0 && leaves[at].facts.greatest >= least {
                let damage = Some("its keys and those of the next leaf are not in order");
                leaves[at].facts.damage = damage;
                leaves[next].facts.damage = damage;
                continue;
            }
        }
        if leaves[at].facts.count > 0 {
            next = Some(at);
        }
    }
    // Leaves without entries, but for the first.
    let mut freed = Vec::new();
    let mut before: Option<u32> = None;
    for found in leaves.iter() {
        if let Some(damage) = found.facts.damage {
            broken.add(found.number, damage.to_owned());
            before = None;
        } else if found.facts.count == 0
            && let Some(before) = before
        {
            if slab.is_read_only() {
                // It has no keys, so nobody needs it.
                continue;
            }
            slab.begin_writing()?;
            let (left, own) = (leaf(before), leaf(found.number));
            L::set_next(left, L::next(own));
            medium.fence()?;
            slab.free(own.offset);
            freed.push(found.number);
        } else {
            before = Some(found.number);
        }
    }
    if !freed.is_empty() {
        let freed: std::collections::HashSet<u32> = freed.into_iter().collect();
        leaves.retain(|found| !freed.contains(&found.number));
    }
    for found in leaves.iter_mut().filter(|found| found.facts.damage.is_some()) {
        found.facts.count = 0;
    }
    Ok(())
}

/// Whether all entries of a leaf with keys from `least` on are those of another one too.
fn are_copies<L: LeafFormat>(left: LeafRef<'_>, right: LeafRef<'_>, least: u64) -> bool {
    let head = L::head(right);
    let mut copies = true;
    L::each(left, &L::head(left), |entry| {
        if entry.key >= least {
            let found = L::find(right, &head, entry.key);
            copies &= found.is_some_and(|slot| L::value(right, slot) == entry.value);
        }
    });
    copies
}

/// Each leaf with the least key that belongs to it. Keys that a damaged leaf may have had belong to it: all behind the
/// leaf before it.
fn bounds(leaves: &[RecoveredLeaf]) -> Vec<(u64, u32)> {
    let mut index: Vec<(u64, u32)> = Vec::with_capacity(leaves.len());
    let mut greatest: Option<u64> = None;
    for found in leaves {
        let bound = match (index.is_empty(), found.facts.damage, found.facts.count) {
            (true, ..) => Some(0),
            (_, Some(_), _) => greatest.map_or(Some(0), |key| key.checked_add(1)),
            (_, None, 0) => None,
            (_, None, _) => Some(found.facts.least),
        };
        // One of several damaged leaves in a row stands for all.
        if let Some(bound) = bound.filter(|bound| index.last().is_none_or(|(last, _)| last < bound)) {
            index.push((bound, found.number));
        }
        if found.facts.damage.is_none() && found.facts.count > 0 {
            greatest = Some(found.facts.greatest);
        }
    }
    index
}
