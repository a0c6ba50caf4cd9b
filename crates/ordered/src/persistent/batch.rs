//! Batched lookups. The paths of several keys are followed level by level, so that their cache misses
//! overlap.

use crate::TreeError;

use super::descend::VersionedNode;
use super::format::NodeFormat;
use super::tree::PersistentTree;

/// Number of keys in a group: about as many cache misses as a core can have outstanding.
const GROUP: usize = 16;

impl<F: NodeFormat> PersistentTree<F> {
    pub(crate) fn batch(&self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), TreeError> {
        assert_eq!(keys.len(), values.len(), "a value for each key");
        for (keys, values) in keys.chunks(GROUP).zip(values.chunks_mut(GROUP)) {
            self.group(keys, values)?;
        }
        Ok(())
    }

    fn group(&self, keys: &[u64], values: &mut [Option<u64>]) -> Result<(), TreeError> {
        let (number, height) = self.root();
        let root = self
            .locks
            .read(number)
            .map(|version| VersionedNode { number, version });
        // `None` where validation has failed: such a key is looked up by itself.
        let mut steps = [root; GROUP];
        let steps = &mut steps[..keys.len()];
        for level in (1..=height).rev() {
            for (step, key) in steps.iter_mut().zip(keys) {
                *step = step.and_then(|at| self.below(at, level, *key));
            }
        }
        for ((step, key), value) in steps.iter().zip(keys).zip(values) {
            *value = match step.and_then(|at| self.finish(at, *key)) {
                Some(found) => found,
                None => self.get(*key)?,
            };
        }
        Ok(())
    }

    /// Returns the child of a node on the path of `key`, and prefetches it.
    #[inline(always)]
    fn below(&self, at: VersionedNode, level: u32, key: u64) -> Option<VersionedNode> {
        let node = self.node(at.number);
        if !(self.visited.has(at.number) && node.is::<F>(level) && node.covers(key)) {
            return None;
        }
        let number = self.number(F::child(node, key));
        self.node(number).fetch();
        let version = self.locks.read(number)?;
        let valid = number != 0 && self.locks.validate(at.number, at.version);
        self.intact(at.number).ok()?;
        valid.then_some(VersionedNode { number, version })
    }

    /// Returns the value, or `None` if validation fails.
    #[inline(always)]
    fn finish(&self, at: VersionedNode, key: u64) -> Option<Option<u64>> {
        let node = self.node(at.number);
        if !(self.visited.has(at.number) && node.is::<F>(0) && node.covers(key)) {
            return None;
        }
        let found = F::find(node, key);
        self.intact(at.number).ok()?;
        self.locks
            .validate(at.number, at.version)
            .then_some(found.map(|(_, value)| value))
    }
}
