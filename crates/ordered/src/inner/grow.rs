//! Making room for another leaf: full nodes are split from the root down, so that the lowest node has
//! room when a leaf is split.

use halocline_media::MediaError;

use crate::locks::Backoff;

use super::{InnerNode, InnerNodes, KEYS};

impl InnerNodes {
    /// Makes room for another leaf in the lowest inner node above a key. Other threads may use it up.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`]. Some nodes may have been split; the mapping of keys to leaves is
    /// unchanged.
    pub(crate) fn make_room(&self, key: u64) -> Result<(), MediaError> {
        let mut backoff = Backoff::default();
        loop {
            if self.try_make_room(key)? {
                return Ok(());
            }
            backoff.wait();
        }
    }

    fn try_make_room(&self, key: u64) -> Result<bool, MediaError> {
        let Some((mut index, mut level, mut node, mut version)) = self.start() else {
            return Ok(false);
        };
        let height = level;
        let mut parent: Option<(&InnerNode, u64, usize)> = None;
        loop {
            if node.count() == KEYS {
                match parent {
                    Some(parent) => self.split(parent, (node, version))?,
                    None => self.split_root((index, node, version), height)?,
                }
                return Ok(false);
            }
            let slot = node.search(key, self.vectors);
            let child = node.child(slot);
            if level == 1 {
                // Prefetches the keys too, as the following insert shifts them.
                self.prefetch_all(index);
                return Ok(true);
            }
            let Some((next, next_version)) = self
                .node(child)
                .and_then(|next| next.read().map(|version| (next, version)))
            else {
                return Ok(false);
            };
            if !node.validate(version) {
                return Ok(false);
            }
            parent = Some((node, version, slot));
            (index, level, node, version) = (child, level - 1, next, next_version);
        }
    }

    /// Splits a full node whose parent has room, unless one of them has changed.
    fn split(&self, parent: (&InnerNode, u64, usize), full: (&InnerNode, u64)) -> Result<(), MediaError> {
        let (right, right_node) = self.alloc()?;
        let Some(above) = parent.0.lock(parent.1) else {
            self.free(right);
            return Ok(());
        };
        let Some(left) = full.0.lock(full.1) else {
            above.unchanged();
            self.free(right);
            return Ok(());
        };
        let contents = left.node().contents();
        let middle = KEYS / 2;
        right_node
            .lock_new()
            .set(&contents.keys[middle + 1..], &contents.children[middle + 1..]);
        left.set(&contents.keys[..middle], &contents.children[..=middle]);
        above.insert(parent.2, contents.keys[middle], right, self.vectors);
        Ok(())
    }

    /// Adds a new root above a full one. The full node is split by the next attempt.
    fn split_root(&self, root: (u32, &InnerNode, u64), height: u32) -> Result<(), MediaError> {
        let (above, node) = self.alloc()?;
        let Some(locked) = root.1.lock(root.2) else {
            self.free(above);
            return Ok(());
        };
        if self.start_is(root.0, height) {
            node.lock_new().set(&[], &[root.0]);
            self.set_root(above, height + 1);
            drop(locked);
        } else {
            locked.unchanged();
            self.free(above);
        }
        Ok(())
    }

    /// Returns true if `root` is still the root. The caller holds its lock.
    pub(super) fn start_is(&self, root: u32, height: u32) -> bool {
        let now = self.root.load(std::sync::atomic::Ordering::Acquire);
        now == u64::from(height) << 32 | u64::from(root)
    }
}
