//! Exact match in layout `packed`.
//!
//! The code of the short ways (dense lists; leaf lists of up to 32 one-byte values) is kept to few instructions without
//! calls: out-of-order execution overlaps the cache misses of one search with the next search only as far as the reorder
//! buffer reaches.

use crate::kernel::{Between, Kernel, Search, low_bits};
use crate::packed::node::{DENSE, FORWARD, FORWARD_LEN, Forward, INNER, INNER_HEADER, LINK_LEN, Node, Tree};
use crate::tids::Tids;
use crate::view::PAD;
use crate::{ElfError, Result};
use halocline_media::Bytes;

/// Most values that are compared within a list's first 64 bytes.
pub(crate) const IN_HEAD: u8 = 32;

/// Bytes of a short leaf list's values, its first byte included.
const FEW: usize = 16;

/// Neighbouring records that equal the point; none if `count` is 0.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run {
    pub(crate) at: usize,
    pub(crate) len: u32,
    pub(crate) count: u32,
}

/// Offset of a list that is damaged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Damage(pub(crate) usize);

impl From<Damage> for ElfError {
    fn from(damage: Damage) -> Self {
        ElfError::damaged(damage.0, "a list reaches beyond the nodes")
    }
}

/// A link: `len` bytes at `at` that tell how far before `from` the list is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Link {
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) from: usize,
}

#[inline(always)]
pub(crate) fn is_dense(kind: u8) -> bool {
    kind & !(LINK_LEN | FORWARD) == INNER | DENSE
}

impl<'a, B: Bytes> Tree<'a, B> {
    /// The list that a link leads to; 0 if none.
    #[inline(always)]
    pub(crate) fn follow(&self, link: Link) -> usize {
        self.view.touch(link.at, link.len);
        let distance = self.view.uint(link.at, link.len) as usize;
        if distance == 0 || distance >= link.from {
            0
        } else {
            link.from - distance
        }
    }

    /// The link of `code` in the dense list with this head; `None` if it has none.
    #[inline(always)]
    pub(crate) fn dense_link(
        &self,
        head: &[u8; PAD],
        at: usize,
        value_mask: u64,
        value_len: usize,
        code: u64,
    ) -> Option<Link> {
        let skip = INNER_HEADER + if head[0] & FORWARD != 0 { FORWARD_LEN } else { 0 };
        let entries = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let min = self.view.u64(at + skip) & value_mask;
        let position = code.wrapping_sub(min);
        let len = usize::from(head[0] >> 2 & 7) + 1;
        self.view.touch(at, skip + value_len);
        if position >= u64::from(entries) {
            return None;
        }
        Some(Link {
            at: at + skip + value_len + position as usize * len,
            len,
            from: at,
        })
    }

    /// The link of `code` in a list whose parent has this head and says what it is like.
    #[inline(always)]
    pub(crate) fn forward_link(&self, head: &[u8; PAD], at: usize, code: Option<&u64>) -> Option<Link> {
        if head[0] & FORWARD == 0 {
            return None;
        }
        let (forward, &code) = (Forward::read(head), code?);
        if code >= u64::from(forward.entries) {
            return None;
        }
        let len = usize::from(forward.link_len);
        Some(Link {
            at: at + usize::from(forward.links) + code as usize * len,
            len,
            from: at,
        })
    }

    /// The run of equal records among the records of `mask` in a leaf list of dimension `depth`.
    #[inline(always)]
    pub(crate) fn equal<K: Kernel>(&self, records: usize, mut mask: u64, depth: usize, point: &[u64]) -> Run {
        let geometry = self.geometry();
        let level = &geometry.levels[depth];
        let mut run = Run {
            at: 0,
            len: level.record_len as u32,
            count: 0,
        };
        let mut tail = 0;
        if level.tail_mask.is_some() {
            match K::tail(geometry, depth + 1, point) {
                Some(codes) => tail = codes,
                None => return run,
            }
        }
        while mask != 0 {
            let record = records + mask.trailing_zeros() as usize * level.record_len;
            mask &= mask - 1;
            self.view.touch(record, level.record_len);
            let equal = match level.tail_mask {
                Some(bits) => {
                    let word = self.view.u64(record + geometry.tid_bits / 8) >> (geometry.tid_bits % 8);
                    word & bits == tail
                }
                None => K::equal(self.view, record, geometry, depth + 1, point),
            };
            if equal {
                run.at = if run.count == 0 { record } else { run.at };
                run.count += 1;
            } else if run.count > 0 {
                break;
            }
        }
        run
    }

    /// One step from any list: the next list (0: none), and what was found if there is none.
    #[inline(always)]
    pub(crate) fn any_list<K: Kernel>(
        &self,
        at: usize,
        depth: usize,
        point: &[u64],
    ) -> Result<(usize, Run), Damage> {
        if point
            .get(depth)
            .is_some_and(|&code| code > self.geometry().levels[depth].value_mask)
        {
            return Ok((0, Run::default()));
        }
        let wanted = Between {
            lo: point.get(depth).copied().unwrap_or(0),
            span: 0,
        };
        match self.node(at, depth).map_err(|_| Damage(at))? {
            Node::Inner(inner) => {
                let (first, end) = inner.interval::<B, K>(self.view, wanted);
                if first == end {
                    return Ok((0, Run::default()));
                }
                self.view
                    .touch(inner.links + first * inner.link_len, inner.link_len);
                Ok((inner.child(self.view, first), Run::default()))
            }
            Node::Leaf(leaf) => {
                let (first, end) = leaf.interval::<B, K>(self.view, wanted);
                if depth + 1 >= point.len() {
                    let (at, len) = (leaf.records_from(first).at, leaf.records.len as u32);
                    return Ok((
                        0,
                        Run {
                            at,
                            len,
                            count: (end - first) as u32,
                        },
                    ));
                }
                // Equal values are few as a rule (write.rs), but a damaged list may say otherwise.
                let mut run = Run::default();
                for from in (first..end).step_by(64) {
                    let mask = low_bits((end - from).min(64));
                    let next = self.equal::<K>(leaf.records_from(from).at, mask, depth, point);
                    if next.count == 0 && run.count > 0 {
                        break;
                    }
                    run = if run.count == 0 {
                        next
                    } else {
                        Run {
                            count: run.count + next.count,
                            ..run
                        }
                    };
                }
                Ok((0, run))
            }
        }
    }

    /// Asks for the values of a list, if they are few.
    #[inline(always)]
    pub(crate) fn fetch(&self, at: usize) {
        self.view.prefetch(at);
        self.view.prefetch(at + FEW);
    }

    pub(crate) fn tids(&self, run: Run) -> Tids<'a> {
        Tids::new(
            self.view.slice(),
            run.at,
            run.len as usize,
            run.count as usize,
            self.geometry().tid_mask,
        )
    }
}

/// Looks for one point.
pub(crate) struct Exact<'a, 'p, B> {
    pub(crate) tree: Tree<'a, B>,
    pub(crate) point: &'p [u64],
}

impl<B: Bytes> Search for Exact<'_, '_, B> {
    type Output = Result<Run, Damage>;

    #[inline(always)]
    fn run<K: Kernel>(self) -> Self::Output {
        let Self { tree, point } = self;
        let (view, geometry) = (tree.view, tree.geometry());
        let (mut at, mut depth) = (tree.header.root as usize, 0);
        loop {
            let (Some(head), Some(level)) = (view.head(at), geometry.levels.get(depth)) else {
                return Err(Damage(at));
            };
            if is_dense(head[0]) && depth < point.len() {
                at = match tree.dense_link(head, at, level.value_mask, level.value_len, point[depth]) {
                    Some(link) => tree.follow(link),
                    None => 0,
                };
                depth += 1;
                if at != 0
                    && let Some(link) = tree.forward_link(head, at, point.get(depth))
                {
                    at = tree.follow(link);
                    depth += 1;
                }
            } else if head[0] <= IN_HEAD && level.value_len == 1 && point[depth] <= 0xff {
                let rows = usize::from(head[0]);
                view.touch(at, 1 + rows);
                let mask = K::between_head(
                    head,
                    rows,
                    Between {
                        lo: point[depth],
                        span: 0,
                    },
                );
                return Ok(tree.equal::<K>(at + 1 + rows, mask, depth, point));
            } else {
                let (next, run) = tree.any_list::<K>(at, depth, point)?;
                if next == 0 {
                    return Ok(run);
                }
                at = next;
                depth += 1;
            }
            if at == 0 {
                return Ok(Run::default());
            }
            // Nothing else is waited for: the record may be in any line of a short leaf list.
            view.prefetch(at);
            view.prefetch(at + 64);
            view.prefetch(at + 128);
        }
    }
}
