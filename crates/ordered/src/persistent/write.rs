//! Inserts and updates.

use crate::TreeError;
use crate::locks::{Backoff, Locked};

use super::format::NodeFormat;
use super::grow::SpareNode;
use super::node::NodeWriter;
use super::tree::PersistentTree;

impl<F: NodeFormat> PersistentTree<F> {
    /// Inserts an entry. If the key exists, returns its value and, if `replace` is true, stores the new one.
    #[inline]
    pub(crate) fn put(&self, key: u64, value: u64, replace: bool) -> Result<Option<u64>, TreeError> {
        self.write_gate.check(&self.slab)?;
        match self.put_into_leaf(key, value, replace)? {
            Some(before) => Ok(before),
            None => self.put_and_split(key, value, replace),
        }
    }

    /// Does the work of [`put`](PersistentTree::put) if the leaf has room; returns `None` otherwise.
    #[inline]
    fn put_into_leaf(&self, key: u64, value: u64, replace: bool) -> Result<Option<Option<u64>>, TreeError> {
        let (number, locked) = self.lock_leaf(key)?;
        let node = self.node(number);
        let mut out = NodeWriter::new(self.slab.medium());
        if let Some((at, before)) = F::find(node, key) {
            if replace {
                F::set_value(&mut out, node, at, value);
            } else {
                locked.unchanged();
            }
            self.write_gate.keep(out.done())?;
            return Ok(Some(Some(before)));
        }
        if F::count(node) == F::CAPACITY {
            locked.unchanged();
            return Ok(None);
        }
        F::insert(&mut out, node, key, value);
        self.entry_count.add(number, key, 1);
        self.write_gate.keep(out.done())?;
        Ok(Some(None))
    }

    #[cold]
    fn put_and_split(&self, key: u64, value: u64, replace: bool) -> Result<Option<u64>, TreeError> {
        let mut spare = SpareNode::new(self);
        let mut backoff = Backoff::default();
        loop {
            // No lock may be held here, as the pool may have to grow.
            spare.fill()?;
            if self.make_room(key, value, &mut spare)? {
                return Ok(None);
            }
            if let Some(before) = self.put_into_leaf(key, value, replace)? {
                return Ok(before);
            }
            for level in 0..self.root().1 {
                self.verify_place(key, level)?;
            }
            backoff.wait();
        }
    }

    /// Replaces the value of an existing key.
    pub(crate) fn replace(&self, key: u64, value: u64) -> Result<Option<u64>, TreeError> {
        self.write_gate.check(&self.slab)?;
        let (number, locked) = self.lock_leaf(key)?;
        let node = self.node(number);
        let Some((at, before)) = F::find(node, key) else {
            locked.unchanged();
            return Ok(None);
        };
        let mut out = NodeWriter::new(self.slab.medium());
        F::set_value(&mut out, node, at, value);
        self.write_gate.keep(out.done())?;
        Ok(Some(before))
    }

    /// Locks the leaf of a key.
    #[inline]
    pub(super) fn lock_leaf(&self, key: u64) -> Result<(u32, Locked<'_>), TreeError> {
        let mut backoff = Backoff::default();
        loop {
            let at = self.leaf_for(key)?;
            let locked = self.locks.lock(at.number);
            let node = self.node(at.number);
            if node.is::<F>(0) && node.covers(key) {
                return Ok((at.number, locked));
            }
            locked.unchanged();
            backoff.wait();
        }
    }
}
