//! Building all inner nodes bottom-up, after a recovery or a bulk load.

use halocline_media::MediaError;

use super::{CHILDREN, InnerNodes};

/// Number of children of a newly built node. Some room is left for splits.
const FILL: usize = CHILDREN * 4 / 5;

impl InnerNodes {
    /// Builds the inner nodes above leaves in key order, each given with its lower bound. The bound of the
    /// first leaf is treated as zero. There must be at least one leaf.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`].
    pub(crate) fn build(leaves: &[(u64, u32)]) -> Result<InnerNodes, MediaError> {
        let first = leaves.first().map_or(0, |(_, leaf)| *leaf);
        let inner = InnerNodes::new(first)?;
        if leaves.len() < 2 {
            return Ok(inner);
        }
        let mut height = 0;
        let mut level = leaves.to_vec();
        let mut root = None;
        while level.len() > 1 || root.is_none() {
            let nodes = level.len().div_ceil(FILL);
            let mut above = Vec::with_capacity(nodes);
            for number in 0..nodes {
                // Children are distributed evenly, so that no node has a single child.
                let range = level.len() * number / nodes..level.len() * (number + 1) / nodes;
                let (keys, children): (Vec<u64>, Vec<u32>) = level[range].iter().copied().unzip();
                let (index, node) = inner.alloc()?;
                node.lock_new().set(&keys[1..], &children);
                above.push((keys[0], index));
            }
            height += 1;
            root = above.first().map(|(_, index)| *index);
            level = above;
        }
        let old = inner.root.load(std::sync::atomic::Ordering::Acquire) as u32;
        inner.set_root(root.unwrap_or(old), height);
        inner.free(old);
        Ok(inner)
    }
}
