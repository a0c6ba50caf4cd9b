//! Many keys at once: their paths are followed level by level, so that the memory they wait for is fetched side by side.

use halocline_media::Medium;

use crate::inner::Place;
use crate::{OrderedIndex, TreeError};

use super::leaves::Leaves;
use super::tree::Hybrid;

/// Keys that are followed at a time: about as many as a core can wait for.
const GROUP: usize = 16;

/// How far one key is.
#[derive(Debug)]
struct Step<L: Leaves> {
    /// The inner node that was read last, its version, and the child that was found there.
    place: Place,
    /// The leaf's version.
    leaf_version: u64,
    head: L::Head,
    /// Whether nothing has come in between.
    valid: bool,
}

impl<M: Medium, L: Leaves> Hybrid<M, L> {
    pub(super) fn batch(&self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), TreeError> {
        assert_eq!(keys.len(), values.len(), "a value for each key");
        for (keys, values) in keys.chunks(GROUP).zip(values.chunks_mut(GROUP)) {
            self.group(keys, values)?;
        }
        Ok(())
    }

    fn group(&self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), TreeError> {
        let mut steps: [Step<L>; GROUP] = std::array::from_fn(|_| Step {
            place: Place {
                node: 0,
                version: 0,
                slot: 0,
                leaf: 0,
            },
            leaf_version: 0,
            head: L::Head::default(),
            valid: false,
        });
        let steps = &mut steps[..keys.len()];
        if let Some((root, height, node, version)) = self.inner.start() {
            for (step, key) in steps.iter_mut().zip(keys) {
                let slot = self.inner.search(node, *key);
                step.place = Place {
                    node: root,
                    version,
                    slot: slot as u32,
                    leaf: node.child(slot),
                };
                step.valid = true;
            }
            for _ in 1..height {
                for step in steps.iter() {
                    self.inner.prefetch(step.place.leaf);
                }
                for (step, key) in steps.iter_mut().zip(keys) {
                    self.descend(step, *key);
                }
            }
        }
        for step in steps.iter() {
            L::fetch(self.at(step.place.leaf));
        }
        for (step, key) in steps.iter_mut().zip(keys) {
            self.read_head(step, *key);
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
    fn descend(&self, step: &mut Step<L>, key: u64) {
        let above = &step.place;
        let index = above.leaf;
        let Some(node) = self.inner.node(index).filter(|_| step.valid) else {
            step.valid = false;
            return;
        };
        let version = node.read();
        step.valid = version.is_some() && self.inner.is_current(above);
        let slot = self.inner.search(node, key);
        step.place = Place {
            node: index,
            version: version.unwrap_or(1),
            slot: slot as u32,
            leaf: node.child(slot),
        };
    }

    /// Reads the leaf's head and asks for the line in which the entry may be.
    #[inline(always)]
    fn read_head(&self, step: &mut Step<L>, key: u64) {
        let number = step.place.leaf;
        let Some(version) = self.locks.read(number).filter(|_| step.valid) else {
            step.valid = false;
            return;
        };
        step.valid = self.inner.is_current(&step.place);
        if !step.valid {
            return;
        }
        step.leaf_version = version;
        let at = self.at(number);
        step.head = L::head(at);
        L::fetch_entry(at, &step.head, key);
    }

    /// The value, or nothing if something has come in between.
    #[inline(always)]
    fn finish(&self, step: &Step<L>, key: u64) -> Option<Option<u64>> {
        if !step.valid {
            return None;
        }
        let at = self.at(step.place.leaf);
        let value = L::find(at, &step.head, key).map(|slot| L::value(at, slot));
        self.locks
            .validate(step.place.leaf, step.leaf_version)
            .then_some(value)
    }
}
