//! Batched lookups. The paths of several keys are followed level by level, so that their cache misses
//! overlap.
//!
//! `get_batch` follows 16 keys at a time. It prefetches a leaf's header before the line that the header
//! selects.

use crate::TreeError;
use crate::inner::LeafLocation;

use super::leaves::LeafFormat;
use super::tree::HybridTree;

/// Number of keys in a group: about as many cache misses as a core can have outstanding.
const GROUP: usize = 16;

/// Position of one key of a batch on its way to a leaf.
#[derive(Debug)]
struct BatchCursor<'a> {
    /// The inner node that was read last, its version and the selected child.
    place: LeafLocation<'a>,
    /// True as long as validation has succeeded.
    valid: bool,
}

impl<L: LeafFormat> HybridTree<L> {
    pub(crate) fn batch(&self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), TreeError> {
        assert_eq!(keys.len(), values.len(), "a value for each key");
        for (keys, values) in keys.chunks(GROUP).zip(values.chunks_mut(GROUP)) {
            self.group(keys, values)?;
        }
        Ok(())
    }

    fn group(&self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), TreeError> {
        let Some((_, height, node, version)) = self.inner.start() else {
            // A writer holds the root's lock.
            for (key, value) in keys.iter().zip(values) {
                *value = self.get(*key)?;
            }
            return Ok(());
        };
        let mut steps: [BatchCursor<'_>; GROUP] = std::array::from_fn(|_| BatchCursor {
            place: LeafLocation {
                node,
                version,
                slot: 0,
                leaf: 0,
            },
            valid: true,
        });
        let steps = &mut steps[..keys.len()];
        for (step, key) in steps.iter_mut().zip(keys) {
            let slot = self.inner.search(node, *key);
            (step.place.slot, step.place.leaf) = (slot as u32, node.child(slot));
        }
        for _ in 1..height {
            for step in steps.iter() {
                self.inner.prefetch(step.place.leaf);
            }
            for (step, key) in steps.iter_mut().zip(keys) {
                self.descend(step, *key);
            }
        }
        for (step, key) in steps.iter().zip(keys) {
            L::fetch_head(self.at(step.place.leaf), *key);
        }
        for (step, key) in steps.iter().zip(keys) {
            // Validates first: the number must be that of a leaf before its memory is read.
            if step.valid && self.inner.is_current(&step.place) {
                L::fetch_entry(self.at(step.place.leaf), *key);
            }
        }
        for ((step, key), value) in steps.iter().zip(keys).zip(values) {
            *value = match self.finish(step, *key) {
                Some(found) => {
                    self.intact(step.place.leaf)?;
                    found
                }
                // Searches again, as the key may belong to another leaf now.
                None => self.get(*key)?,
            };
        }
        Ok(())
    }

    /// Moves a cursor down by one level.
    #[inline(always)]
    fn descend<'a>(&'a self, step: &mut BatchCursor<'a>, key: u64) {
        let above = &step.place;
        let Some(node) = self.inner.node(above.leaf).filter(|_| step.valid) else {
            step.valid = false;
            return;
        };
        let version = node.read();
        step.valid = version.is_some() && self.inner.is_current(above);
        let slot = self.inner.search(node, key);
        step.place = LeafLocation {
            node,
            version: version.unwrap_or(1),
            slot: slot as u32,
            leaf: node.child(slot),
        };
    }

    /// Returns the value, or `None` if validation fails.
    #[inline(always)]
    fn finish(&self, step: &BatchCursor<'_>, key: u64) -> Option<Option<u64>> {
        if step.valid {
            self.read_leaf(&step.place, key)
        } else {
            None
        }
    }
}
