//! Node checksums, which are valid from the closing of a slab until its next write.
//!
//! Each chunk ends with a checksum per node. While a slab is being written they are invalid. When its owner
//! closes it ([`Slab::seal`]), those of changed nodes are computed, and the head records durably that all are
//! valid. The next writer first records durably that they are not ([`Slab::begin_writing`]).
//!
//! Invariant: as long as the head says that the slab is closed, every node in use and the first line of the
//! root match their checksums.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use halocline_media::{LINE, Medium};
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::little_endian::U64;
use zerocopy::{FromZeros, IntoBytes};

use crate::PoolError;
use crate::fault::{PoolFault, injected};
use crate::layout::{
    NO_SUM, NODE_SUM, SLAB_CLOSED, SLAB_OPEN, SLAB_OPEN_WORD, SLAB_WITH_SUMS, SlabHead, checksum,
};

use super::Slab;
use super::nodes::ChunkLayout;

/// Largest node that is read to the stack, in bytes.
const PIECE: usize = 1024;

/// The state of a node in use, as reported by its owner when it closes the slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeAtRest {
    /// Intact, and possibly changed since the slab was opened: gets a new checksum.
    Current,
    /// Not stored to since the slab was opened: keeps its checksum if that was valid then.
    Untouched,
    /// Damaged or in doubt: keeps its checksum if that was valid when the slab was opened, otherwise gets
    /// none.
    Damaged,
}

/// The node checksums of a slab at its last closing. Cheap to clone and shareable between threads.
#[derive(Debug)]
pub struct NodeSums {
    medium: Medium,
    node_size: u64,
    /// Sorted by offset.
    layouts: Arc<[ChunkLayout]>,
}

impl Clone for NodeSums {
    fn clone(&self) -> NodeSums {
        NodeSums {
            medium: self.medium.clone(),
            node_size: self.node_size,
            layouts: Arc::clone(&self.layouts),
        }
    }
}

impl NodeSums {
    /// Returns true if a node has not changed since the slab was closed, or has no checksum. Reads the whole
    /// node.
    pub fn matches(&self, offset: u64) -> bool {
        match self.sum_offset(offset) {
            Some(at) => match load_sum(&self.medium, at) {
                NO_SUM => true,
                sum => sum == sum_of(&self.medium, offset, self.node_size),
            },
            None => true,
        }
    }

    /// Returns the offset of a node's checksum.
    fn sum_offset(&self, offset: u64) -> Option<u64> {
        let after = self.layouts.partition_point(|layout| layout.start <= offset);
        let layout = &self.layouts[after.checked_sub(1)?];
        layout.sum_of(offset, self.node_size)
    }
}

impl Slab {
    /// Returns true if the slab is open for reading only.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns the node checksums if the slab was closed cleanly after its last write. In that case its owner
    /// has nothing to finish, and a mismatch is damage.
    pub fn sums(&self) -> Option<&NodeSums> {
        self.at_rest.as_ref()
    }

    /// Records durably that checksums are no longer valid. The owner calls it before its first store to a
    /// node or the root; later calls cost a load.
    ///
    /// # Errors
    /// [`PoolError::ReadOnly`], [`PoolError::Media`]: nothing may be stored.
    pub fn begin_writing(&self) -> Result<(), PoolError> {
        if self.written.load(Ordering::Acquire) {
            return Ok(());
        }
        self.pool.inner.writable()?;
        if self.read_only {
            return Err(PoolError::ReadOnly {
                path: self.pool.path().to_path_buf(),
            });
        }
        let _one_at_a_time = self
            .growing
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let at = self.head + SlabHead::STATE;
        let medium = &self.medium;
        let (_, state) = self.open_state();
        if self.has_sums && medium.load_u64(at) != state && !injected(PoolFault::KeepSlabClosed) {
            // Durable before the first store, or a crash could leave changed nodes in a slab that looks
            // closed, or a word that the owner does not keep valid. The head already has a valid word.
            medium.store_u64(at, state);
            medium.persist(at, 8)?;
            if !medium.fence_is_durable() {
                medium.sync()?;
            }
        }
        self.written.store(true, Ordering::Release);
        Ok(())
    }

    /// Closes the slab cleanly: computes the checksums of all nodes in use, according to `at_rest`, and
    /// records durably in the head that they are valid. Nobody may store to the slab any more. A slab
    /// that has not been written since it was last closed is left unchanged. One that an earlier program
    /// created has no room for checksums and gets none. `at_rest` must not call the slab.
    ///
    /// # Errors
    /// [`PoolError::Media`]: the slab counts as not closed.
    pub fn seal(&mut self, at_rest: impl FnMut(u64) -> NodeAtRest) -> Result<(), PoolError> {
        let result = self.try_seal(at_rest);
        if let Err(error) = &result {
            tracing::warn!(slab = %self.name, %error, "closed without checksums of its nodes");
        }
        result
    }

    fn try_seal(&mut self, mut at_rest: impl FnMut(u64) -> NodeAtRest) -> Result<(), PoolError> {
        if self.read_only || !self.has_sums {
            return Ok(());
        }
        let medium = self.medium.clone();
        let medium = &medium;
        let written = self.is_changed();
        if !written && !self.marked {
            return Ok(());
        }
        if written {
            self.close_frontier();
            self.store_sums(&mut at_rest);
            // Nodes and checksums must be durable before the head that vouches for them.
            if !injected(PoolFault::SealUnfenced) {
                medium.fence()?;
            }
        }
        if !medium.fence_is_durable() {
            medium.sync()?;
        }
        let (root_sum, owner_word) = if written {
            (self.root_sum(), self.next_owner_word)
        } else {
            (self.root_sum_before, self.owner_word)
        };
        // Stored before the state, which is in the same line: a crash must not find the state of this closing
        // with the word of an earlier one.
        medium.store_u64(self.head + SlabHead::OWNER_WORD, owner_word);
        let head = head_of_closed(root_sum, owner_word);
        medium.store(self.head, head.as_bytes());
        medium.flush(self.head, size_of::<SlabHead>() as u64);
        medium.fence()?;
        if !medium.fence_is_durable() {
            medium.sync()?;
        }
        self.marked = false;
        Ok(())
    }

    /// Stores and flushes the checksums of nodes in use, one store per chunk.
    fn store_sums(&mut self, at_rest: &mut impl FnMut(u64) -> NodeAtRest) {
        let medium = &self.medium;
        let (node_size, old) = (self.node_size, self.at_rest.as_ref());
        let nodes = self.nodes();
        for chunk in nodes.chunks() {
            let Some(sums_at) = chunk.layout.sums else {
                continue;
            };
            let mut sums = vec![0; (chunk.layout.count * NODE_SUM) as usize];
            medium.load(sums_at, &mut sums);
            let mut changed = None;
            for (index, sum) in sums.chunks_exact_mut(NODE_SUM as usize).enumerate() {
                let offset = chunk.layout.start + index as u64 * node_size;
                let held = || old.and_then(|old| old.sum_offset(offset)).is_some();
                let new = if !chunk.is_used(index as u64) {
                    // If a damaged link leads to the free node, it must not look intact.
                    0
                } else {
                    match at_rest(offset) {
                        NodeAtRest::Current => sum_of(medium, offset, node_size),
                        _ if held() => continue,
                        _ => NO_SUM,
                    }
                };
                let new = new.to_le_bytes();
                if sum != new {
                    sum.copy_from_slice(&new);
                    let first = changed.map_or(index, |(first, _)| first);
                    changed = Some((first, index));
                }
            }
            if let Some((first, last)) = changed {
                let bytes = first * NODE_SUM as usize..(last + 1) * NODE_SUM as usize;
                let at = sums_at + bytes.start as u64;
                medium.store(at, &sums[bytes.clone()]);
                medium.flush(at, bytes.len() as u64);
            }
        }
    }

    /// Evaluates the head at opening: whether checksums are valid, and for which nodes.
    pub(super) fn rest_at_opening(&mut self, head: &SlabHead, accept: bool) -> Result<(), PoolError> {
        if !self.has_sums {
            return Ok(());
        }
        match head.state.get() {
            SLAB_OPEN => return Ok(()),
            // After a power loss nodes may be older than the head, so the owner must not rely on its word.
            SLAB_OPEN_WORD if accept => return Ok(()),
            SLAB_OPEN_WORD => {
                self.owner_word = head.owner_word.get();
                *self.open_word.get_mut() = self.owner_word;
                return Ok(());
            }
            SLAB_CLOSED => {}
            _ if accept => return Ok(()),
            _ => return Err(self.damaged("its head does not say whether it was closed")),
        }
        let root_sum = self.root_sum();
        self.root_changed = root_sum != head.root_sum.get() && !accept;
        self.root_sum_before = if accept { root_sum } else { head.root_sum.get() };
        // As for an open slab.
        self.owner_word = if accept { 0 } else { head.owner_word.get() };
        let layouts: Vec<ChunkLayout> = self.nodes().chunks().map(|chunk| chunk.layout).collect();
        self.at_rest = Some(NodeSums {
            medium: self.medium.clone(),
            node_size: self.node_size,
            layouts: layouts.into(),
        });
        Ok(())
    }

    /// Compares the first line of the root with its checksum, if the slab was closed. The owner calls it
    /// before it relies on anything else in the root, once it knows that its links lead to nodes.
    ///
    /// # Errors
    /// [`PoolError::DamagedSlab`].
    pub fn check_root(&self) -> Result<(), PoolError> {
        if self.root_changed {
            Err(self.damaged("its root is not as it was when it was closed"))
        } else {
            Ok(())
        }
    }

    fn root_sum(&self) -> u64 {
        let mut root = [0; LINE as usize];
        self.medium.load(self.root(), &mut root);
        checksum(&root)
    }

    fn damaged(&self, reason: &'static str) -> PoolError {
        PoolError::DamagedSlab {
            path: self.pool.path().to_path_buf(),
            name: self.name.to_string(),
            reason,
        }
    }

    /// Returns the head to store now, without the mark against power loss. A closed slab that is not written
    /// stays closed, even if opening it ends in an error.
    pub(super) fn head_now(&self) -> SlabHead {
        match self.has_sums {
            true if self.at_rest.is_some() && !self.written.load(Ordering::Acquire) => {
                head_of_closed(self.root_sum_before, self.owner_word)
            }
            true => {
                let (word, state) = self.open_state();
                SlabHead {
                    owner_word: U64::new(word),
                    state: U64::new(state),
                    ..SlabHead::new_zeroed()
                }
            }
            false => SlabHead::new_zeroed(),
        }
    }
}

fn head_of_closed(root_sum: u64, owner_word: u64) -> SlabHead {
    SlabHead {
        root_sum: U64::new(root_sum),
        owner_word: U64::new(owner_word),
        state: U64::new(SLAB_CLOSED),
        ..SlabHead::new_zeroed()
    }
}

/// Returns true if slabs of this version of the layout have room for checksums.
pub(super) fn has_sums(version: u32) -> bool {
    version >= SLAB_WITH_SUMS
}

fn load_sum(medium: &Medium, at: u64) -> u32 {
    let mut sum = [0; NODE_SUM as usize];
    medium.load(at, &mut sum);
    u32::from_le_bytes(sum)
}

/// Returns the checksum of a node: the lower half of the xxh3-64 of its bytes, with its offset as the seed.
fn sum_of(medium: &Medium, offset: u64, node_size: u64) -> u32 {
    let sum = if node_size as usize <= PIECE {
        let mut bytes = [0; PIECE];
        let bytes = &mut bytes[..node_size as usize];
        medium.load(offset, bytes);
        xxh3_64_with_seed(bytes, offset)
    } else {
        let mut bytes = vec![0; node_size as usize];
        medium.load(offset, &mut bytes);
        xxh3_64_with_seed(&bytes, offset)
    };
    // `NO_SUM` is reserved for nodes without a checksum.
    (sum as u32).min(NO_SUM - 1)
}
