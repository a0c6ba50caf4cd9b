//! Many keys at once: their paths are followed level by level, so that the memory they wait for is fetched side by side.
//!
//! `get_batch` follows 16 keys at a time, and asks for a leaf's header before the line that the header names.

use crate::TreeError;
use crate::inner::LeafLocation;

use super::leaves::LeafFormat;
use super::tree::HybridTree;

/// Keys that are followed at a time: about as many as a core can wait for.
const GROUP: usize = 16;

/// How far one key is.
#[derive(Debug)]
struct BatchCursor<'a> {
    /// The inner node that was read last, its version, and the child that was found there.
    place: LeafLocation<'a>,
    /// Whether nothing has come in between.
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
            // Somebody is at the root just now.
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
            // What is read of a leaf must be one.
            if step.valid && self.inner.is_current(&step.place) {
                L::fetch_entry(self.at(step.place.leaf), *key);
            }
        }
        for ((step, key), value) in steps.iter().zip(keys).zip(values) {
            *value = match self.finish(step, *key) {
                Some(found) => found,
                None => self.get(*key)?,
            };
            self.intact(step.place.leaf)?;
        }
        Ok(())
    }

    /// One level down.
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

    /// The value, or nothing if something has come in between.
    #[inline(always)]
    fn finish(&self, step: &BatchCursor<'_>, key: u64) -> Option<Option<u64>> {
        if step.valid {
            self.read_leaf(&step.place, key)
        } else {
            None
        }
    }
}
