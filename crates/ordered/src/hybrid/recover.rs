//! Opening a tree without a [checkpoint](super::checkpoint): the leaves are traversed by their links, and
//! the inner nodes are built from them.
//!
//! One thread follows the links, the only step that is sequential; other threads read the leaves it has
//! passed. Changes that a crash has left unfinished are completed: entries that a split has moved are
//! cleared, and empty leaves are unlinked. Each of these changes is one store, so another crash does no harm.
//!
//! A tree with damaged leaves can be opened. Operations that need a damaged leaf fail, and `check` reports
//! all of them. A bad link is distinguished from a damaged target by where the target's own keys belong.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use halocline_media::Medium;
use halocline_pool::{NodeSums, Slab, SlabRecovery};

use crate::TreeError;
use crate::damaged::DamagedNodes;
use crate::open_mode::{NOT_AS_CLOSED, begin_repair};

use super::check::{LeafSummary, summarize};
use super::leaf_ref::LeafRef;
use super::leaves::LeafFormat;
use super::tree::{number_of, offset_of};

/// Number of leaves that are passed to another thread at a time.
const BATCH: usize = 4096;

/// Prefetch distance in leaves.
const AHEAD: usize = 8;

/// The leaves of a tree.
#[derive(Debug)]
pub(super) struct AllLeaves {
    /// The lower bound and the number of each leaf.
    pub(super) bounds: Vec<(u64, u32)>,
    pub(super) entries: u64,
    pub(super) damaged_nodes: DamagedNodes,
}

/// Reads all leaves of a slab and completes unfinished changes.
pub(super) fn read_all<L: LeafFormat>(mut recovery: SlabRecovery) -> Result<(Slab, AllLeaves), TreeError> {
    let mut found = traverse::<L>(&mut recovery)?;
    let slab = recovery.finish();
    let damaged_nodes = DamagedNodes::default();
    settle::<L>(&slab, &mut found, &damaged_nodes)?;
    if damaged_nodes.any() {
        // The links of a damaged leaf are unknown, so no node may be freed.
        slab.keep_all();
    }
    let all = AllLeaves {
        bounds: bounds(&found),
        entries: found.iter().map(|leaf| leaf.summary.count).sum(),
        damaged_nodes,
    };
    Ok((slab, all))
}

/// A leaf that was found by following the links.
#[derive(Debug)]
pub(super) struct RecoveredLeaf {
    pub(super) number: u32,
    pub(super) summary: LeafSummary,
}

/// Reads all leaves and returns them in the order of their links.
fn traverse<L: LeafFormat>(recovery: &mut SlabRecovery) -> Result<Vec<RecoveredLeaf>, TreeError> {
    let medium = recovery.slab().medium().clone();
    let sums = recovery.slab().sums().cloned();
    let first = medium.load_u64(recovery.slab().root());
    let (leaves, mut at) = follow::<L>(recovery, first)?;
    if at == 0 {
        // One batch is not worth another thread.
        return Ok(summarize_leaves::<L>(&medium, sums.as_ref(), &leaves));
    }
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(8);
    let (sender, receiver) = sync_channel::<(usize, Vec<u32>)>(64);
    let (receiver, looked) = (Mutex::new(receiver), Mutex::new(BTreeMap::new()));
    let look = || {
        while let Ok((number, leaves)) = locked(&receiver).recv() {
            let found = summarize_leaves::<L>(&medium, sums.as_ref(), &leaves);
            locked(&looked).insert(number, found);
        }
    };
    let walked = thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(look)));
        let (mut batch, mut number) = (leaves, 0);
        loop {
            // Cannot fail: receivers do not disconnect before the sender is dropped.
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

/// Follows the links for one batch and marks the nodes as used. Returns their numbers and the next link.
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

/// Reads leaves while prefetching the following ones.
pub(super) fn summarize_leaves<L: LeafFormat>(
    medium: &Medium,
    sums: Option<&NodeSums>,
    leaves: &[u32],
) -> Vec<RecoveredLeaf> {
    let leaf = |number: u32| LeafRef {
        medium,
        offset: offset_of(number),
    };
    let look = |(at, number): (usize, &u32)| {
        if let Some(ahead) = leaves.get(at + AHEAD) {
            L::fetch_all(leaf(*ahead));
        }
        let mut summary = summarize::<L>(leaf(*number));
        if sums.is_some_and(|sums| !sums.matches(offset_of(*number))) {
            summary.damage = Some(NOT_AS_CLOSED);
        }
        RecoveredLeaf {
            number: *number,
            summary,
        }
    };
    leaves.iter().enumerate().map(look).collect()
}

/// Completes unfinished changes and records damaged leaves.
pub(super) fn settle<L: LeafFormat>(
    slab: &Slab,
    leaves: &mut Vec<RecoveredLeaf>,
    damaged_nodes: &DamagedNodes,
) -> Result<(), TreeError> {
    let medium = slab.medium();
    let leaf = |number: u32| LeafRef {
        medium,
        offset: offset_of(number),
    };
    // The next leaf to the right that has entries.
    let mut next: Option<usize> = None;
    for at in (0..leaves.len()).rev() {
        if leaves[at].summary.damage.is_some() || leaves[at].summary.count == 0 {
            continue;
        }
        if let Some(next) = next
            && leaves[at].summary.greatest >= leaves[next].summary.least
        {
            let least = leaves[next].summary.least;
            // An unfinished split or merge leaves only entries that the next leaf has too. Other entries out
            // of order are damage.
            let (left, right) = (leaf(leaves[at].number), leaf(leaves[next].number));
            if slab.sums().is_none() && are_copies::<L>(left, right, least) {
                begin_repair(slab)?;
                L::clear_from(left, least)?;
            }
            leaves[at].summary = summarize::<L>(leaf(leaves[at].number));
            if leaves[at].summary.count > 0 && leaves[at].summary.greatest >= least {
                let damage = Some("its keys and those of the neighbouring leaf overlap");
                leaves[at].summary.damage = damage;
                leaves[next].summary.damage = damage;
                continue;
            }
        }
        if leaves[at].summary.count > 0 {
            next = Some(at);
        }
    }
    // Unlink empty leaves, except for the first leaf.
    let mut freed = Vec::new();
    let mut before: Option<u32> = None;
    for found in leaves.iter() {
        if let Some(damage) = found.summary.damage {
            damaged_nodes.add(found.number, damage.to_owned());
            before = None;
        } else if found.summary.count == 0
            && let Some(before) = before
        {
            if slab.is_read_only() {
                // The leaf has no keys, so leaving it linked is harmless.
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
    for found in leaves.iter_mut().filter(|found| found.summary.damage.is_some()) {
        found.summary.count = 0;
    }
    Ok(())
}

/// Returns true if all entries of `left` with keys from `least` on are also in `right`.
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

/// Returns each leaf with its lower bound. The range of a damaged leaf begins after the greatest key of
/// the leaf before it, as the keys that it may have held are unknown.
fn bounds(leaves: &[RecoveredLeaf]) -> Vec<(u64, u32)> {
    let mut index: Vec<(u64, u32)> = Vec::with_capacity(leaves.len());
    let mut greatest: Option<u64> = None;
    for found in leaves {
        let bound = match (index.is_empty(), found.summary.damage, found.summary.count) {
            (true, ..) => Some(0),
            (_, Some(_), _) => greatest.map_or(Some(0), |key| key.checked_add(1)),
            (_, None, 0) => None,
            (_, None, _) => Some(found.summary.least),
        };
        // Of consecutive damaged leaves, the first represents all.
        if let Some(bound) = bound.filter(|bound| index.last().is_none_or(|(last, _)| last < bound)) {
            index.push((bound, found.number));
        }
        if found.summary.damage.is_none() && found.summary.count > 0 {
            greatest = Some(found.summary.greatest);
        }
    }
    index
}
