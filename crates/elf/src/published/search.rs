//! Exact matches in layout `published` as its authors describe them: lists are scanned from the front.
//! Selections are in select.rs.

use crate::header::{ElfHeader, Ranks};
use crate::kernel::CodeRange;
use crate::place::hashed::Hashed;
use crate::plan::{Plan, Test};
use crate::published::hashed::entries;
use crate::published::{ENTRY, LAST, MONO};
use crate::tids::Tids;
use crate::view::View;
use crate::{ElfError, Result};
use halocline_media::Bytes;

/// The lists of an open index.
#[derive(Debug)]
pub(crate) struct PublishedTree<'a, B> {
    pub(crate) view: View<'a, B>,
    pub(crate) header: &'a ElfHeader,
    /// The paper's dynamic cache: copies of lists by their offsets.
    pub(crate) hashed: Option<&'a Hashed>,
}

impl<B> Clone for PublishedTree<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for PublishedTree<'_, B> {}

impl<'a, B: Bytes> PublishedTree<'a, B> {
    /// Returns the first rank whose code is at least `code`, and true if it is equal. Without ranks, codes
    /// stand for themselves.
    fn rank(&self, ranks: Ranks, code: u64) -> (u64, bool) {
        if ranks.len == 0 {
            return (code, true);
        }
        let (mut from, mut size) = (0, ranks.len);
        while size > 0 {
            let half = size / 2;
            let at = (ranks.at + (from + half) * 8) as usize;
            self.view.touch(at, 8);
            if self.view.u64(at) < code {
                from += half + 1;
                size -= half + 1;
            } else {
                size = half;
            }
        }
        let at = (ranks.at + from * 8) as usize;
        (from, from < ranks.len && self.view.u64(at) == code)
    }

    /// Returns the stored values that stand for the codes of `wanted`; `None` if there are none.
    fn ranked(&self, ranks: Ranks, wanted: CodeRange) -> Option<CodeRange> {
        let lo = self.rank(ranks, wanted.lo).0;
        let (last, exact) = self.rank(ranks, wanted.hi());
        let hi = if exact { last } else { last.checked_sub(1)? };
        hi.checked_sub(lo).map(|span| CodeRange { lo, span })
    }

    /// Returns the plan over stored values; `None` if no row can match.
    pub(crate) fn translate(&self, plan: &Plan) -> Option<Plan> {
        let translated = plan
            .tests
            .iter()
            .zip(&self.header.ranks)
            .map(|(test, &ranks)| match test {
                Test::Any => Some(Test::Any),
                Test::Range(between) => self.ranked(ranks, *between).map(Test::Range),
                Test::Set(set) if ranks.len > 0 => {
                    let ranked = set.codes.iter().map(|&code| self.rank(ranks, code));
                    // A bisection places distinct codes in their order, also in a damaged array.
                    let ranked = ranked.filter_map(|(rank, exact)| exact.then_some(rank)).collect();
                    Test::one_of(ranked, ranks.len - 1)
                }
                Test::Set(set) => Some(Test::Set(set.clone())),
            });
        translated.collect::<Option<Vec<_>>>().map(Plan::from_tests)
    }

    /// Returns the number of entries in the first dimension's array.
    pub(crate) fn places(&self) -> u64 {
        match self.header.ranks[0].len {
            0 => self.header.geometry.max_codes[0].saturating_add(1),
            ranks => ranks,
        }
    }

    /// Returns the link of the first dimension's `value`; 0 if no row has it.
    #[inline]
    pub(crate) fn root_link(&self, value: u64) -> u64 {
        let at = self.header.root.saturating_add(value.saturating_mul(8)) as usize;
        if value >= self.places() || at as u64 >= self.header.nodes_end {
            return 0;
        }
        self.view.touch(at, 8);
        self.view.u64(at)
    }

    /// Returns the value (with its mark) and the link of the entry at `at`.
    #[inline(always)]
    pub(crate) fn entry(&self, at: usize) -> Result<(u32, u64)> {
        self.view.touch(at, ENTRY);
        self.view
            .u32_u64(at)
            .ok_or_else(|| ElfError::damaged(at, "a list reaches beyond the nodes"))
    }

    /// Returns the number of TIDs from `at` on, up to the marked one.
    pub(crate) fn tid_count(&self, at: usize) -> Result<usize> {
        let mut count = 0;
        loop {
            let tid = at + count * 4;
            if tid as u64 + 4 > self.header.nodes_end {
                return Err(ElfError::damaged(at, "a MonoList reaches beyond the nodes"));
            }
            count += 1;
            if self.view.u32(tid) & LAST != 0 {
                return Ok(count);
            }
        }
    }

    /// Returns the rows that equal the point.
    pub(crate) fn exact(&self, point: &[u64]) -> Result<Tids<'a>> {
        let mut values = [0_u32; crate::geometry::MAX_DIMS];
        for ((value, &code), (ranks, &max)) in values
            .iter_mut()
            .zip(point)
            .zip(self.header.ranks.iter().zip(&self.header.geometry.max_codes))
        {
            let (rank, exact) = self.rank(*ranks, code);
            if !exact || code > max {
                return Ok(Tids::none());
            }
            *value = rank as u32;
        }
        let values = &values[..point.len()];
        let mut link = self.root_link(u64::from(values[0]));
        for depth in 1..=values.len() {
            if link == 0 {
                return Ok(Tids::none());
            }
            if link & MONO != 0 {
                return self.exact_mono_list((link & !MONO) as usize, &values[depth..]);
            }
            let Some(&wanted) = values.get(depth) else {
                return Err(ElfError::damaged(link as usize, "a list has no dimension left"));
            };
            link = match self.hashed {
                Some(hashed) if self.is_slow(link as usize) => {
                    self.cached(hashed, link as usize, depth, |list| find_in(list, wanted))?
                }
                _ => self.find(link as usize, wanted)?,
            };
        }
        Ok(Tids::none())
    }

    /// Returns the link of the value `wanted` in the list at `at`; 0 if there is none.
    #[inline(always)]
    fn find(&self, mut at: usize, wanted: u32) -> Result<u64> {
        loop {
            let (value, child) = self.entry(at)?;
            if value & !LAST >= wanted {
                return Ok(if value & !LAST == wanted { child } else { 0 });
            }
            if value & LAST != 0 {
                return Ok(0);
            }
            at += ENTRY;
        }
    }

    fn exact_mono_list(&self, at: usize, values: &[u32]) -> Result<Tids<'a>> {
        let tids = at.saturating_add(values.len() * 4);
        self.view.touch(at, values.len() * 4 + 4);
        for (i, &value) in values.iter().enumerate() {
            if self.view.u32(at + i * 4) != value {
                return Ok(Tids::none());
            }
        }
        let count = self.tid_count(tids)?;
        let bytes = self.view.rest(tids, Tids::bytes(4, count));
        Ok(Tids::new(bytes, 4, count, !LAST))
    }
}

/// Returns the link of the value `wanted` in a list; 0 if there is none.
fn find_in(list: &[u8], wanted: u32) -> u64 {
    for (value, link) in entries(list) {
        if value >= wanted {
            return if value == wanted { link } else { 0 };
        }
    }
    0
}
