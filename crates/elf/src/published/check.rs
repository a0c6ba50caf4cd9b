//! Verification of every invariant of layout `published`.

use crate::check::SeenRows;
use crate::published::search::PublishedTree;
use crate::published::{ENTRY, LAST, MONO};
use crate::{ElfError, Result};
use halocline_media::Bytes;

/// Visits every list once, in the order in which they are stored.
pub(crate) fn check<B: Bytes>(lists: PublishedTree<'_, B>) -> Result<()> {
    let header = lists.header;
    let geometry = &header.geometry;
    for ranks in &header.ranks {
        for rank in 1..ranks.len {
            let at = (ranks.at + rank * 8) as usize;
            if lists.view.u64(at - 8) >= lists.view.u64(at) {
                return Err(ElfError::damaged(at, "a rank table is not ascending"));
            }
        }
    }
    let limits: Vec<u64> = header
        .ranks
        .iter()
        .zip(&geometry.max_codes)
        .map(|(ranks, &max)| if ranks.len > 0 { ranks.len - 1 } else { max })
        .collect();
    let mut check = PublishedCheck {
        lists,
        limits,
        seen: SeenRows::new(geometry.rows),
        next: header.root as usize,
    };
    if geometry.rows > 0 {
        let places = check.limits[0].saturating_add(1);
        check.next = check.next.saturating_add((places as usize).saturating_mul(8));
        if check.next as u64 > header.nodes_end {
            return Err(ElfError::damaged(
                header.root as usize,
                "the first dimension reaches beyond the nodes",
            ));
        }
        for value in 0..places {
            let link = check.lists.root_link(value);
            if link != 0 {
                check.follow(link, 1)?;
            }
        }
    }
    if check.next as u64 != header.nodes_end {
        return Err(ElfError::damaged(
            check.next,
            "bytes between the lists belong to none",
        ));
    }
    check.seen.finish()
}

struct PublishedCheck<'a, B> {
    lists: PublishedTree<'a, B>,
    /// Largest stored value of each dimension.
    limits: Vec<u64>,
    seen: SeenRows,
    /// First byte not yet accounted for.
    next: usize,
}

impl<B: Bytes> PublishedCheck<'_, B> {
    fn follow(&mut self, link: u64, depth: usize) -> Result<()> {
        let at = (link & !MONO) as usize;
        if at != self.next {
            return Err(ElfError::damaged(at, "a list does not follow the one before it"));
        }
        if link & MONO != 0 {
            self.mono_list(at, depth)
        } else {
            self.list(at, depth)
        }
    }

    fn list(&mut self, at: usize, depth: usize) -> Result<()> {
        let Some(&limit) = self.limits.get(depth) else {
            return Err(ElfError::damaged(at, "a list has no dimension left"));
        };
        let mut end = at;
        let mut before = None;
        loop {
            let (marked, _) = self.lists.entry(end)?;
            let value = marked & !LAST;
            if before.is_some_and(|before| before >= value) || u64::from(value) > limit {
                return Err(ElfError::damaged(
                    end,
                    "the values of a list are not ascending codes",
                ));
            }
            before = Some(value);
            end += ENTRY;
            if marked & LAST != 0 {
                break;
            }
        }
        self.next = end;
        for entry in (at..end).step_by(ENTRY) {
            let (_, link) = self.lists.entry(entry)?;
            self.follow(link, depth + 1)?;
        }
        Ok(())
    }

    fn mono_list(&mut self, at: usize, depth: usize) -> Result<()> {
        let view = self.lists.view;
        let limits = self.limits.get(depth..).unwrap_or_default();
        for (i, &limit) in limits.iter().enumerate() {
            if u64::from(view.u32(at + i * 4)) > limit {
                return Err(ElfError::damaged(at, "a code is above its dimension's maximum"));
            }
        }
        let tids = at + limits.len() * 4;
        let count = self.lists.tid_count(tids)?;
        for i in 0..count {
            self.seen.add(view.u32(tids + i * 4) & !LAST, tids + i * 4)?;
        }
        self.next = tids + count * 4;
        Ok(())
    }
}
