//! Which segments are worth merging: by size in tiers, and those with many deleted rows.
//!
//! Neighbouring segments are grouped: any two with fewer than 65,536 live rows, eight of one tier (each tier
//! is eight times the size of the one before), and each segment with over 20 % deleted rows by itself.

use crate::{Segment, Table};

/// When segments are worth merging.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionPolicy {
    /// Segments with fewer live rows are small: two of them side by side are merged.
    pub small_rows: u64,
    /// Larger segments are in tiers, each this many times as large as the one before; this many of one
    /// tier, with any smaller ones between them, are merged. At least 2.
    pub fanout: u64,
    /// A segment with a larger share of deleted rows than this is written anew.
    pub deleted_share: f64,
    /// Live rows that a merge makes at most.
    pub max_rows: u64,
}

impl Default for CompactionPolicy {
    fn default() -> Self {
        Self {
            small_rows: 1 << 16,
            fanout: 8,
            deleted_share: 0.2,
            max_rows: 1 << 31,
        }
    }
}

impl CompactionPolicy {
    /// Creates a policy that merges all segments into as few as `max_rows` allows and leaves no deleted row.
    pub fn everything() -> Self {
        Self {
            small_rows: u64::MAX,
            deleted_share: 0.0,
            ..Self::default()
        }
    }

    /// Returns the tier of a segment with `rows` live rows: 0 if it is small, otherwise 1 plus the logarithm
    /// of `rows / small_rows` to the base `fanout`, rounded down.
    fn tier(&self, rows: u64) -> u32 {
        if rows < self.small_rows {
            return 0;
        }
        let times = (rows / self.small_rows.max(1)).max(1);
        1 + times.ilog(self.fanout.max(2))
    }

    fn is_worn(&self, segment: &Segment) -> bool {
        let deleted = segment.rows() as u64 - segment.live_rows();
        deleted as f64 > self.deleted_share * segment.rows() as f64
    }
}

/// A segment as the plan sees it.
#[derive(Debug, Clone, Copy)]
struct MergeCandidate {
    id: u64,
    rows: u64,
    tier: u32,
    worn: bool,
}

/// Returns the groups of segments (their ids, adjacent in the table) that are worth merging, in the order of
/// the table. A group of one is a segment with many deleted rows. Empty if nothing is worth merging.
pub fn plan(table: &Table, policy: &CompactionPolicy) -> Vec<Vec<u64>> {
    let candidate = |segment: &Segment| MergeCandidate {
        id: segment.id(),
        rows: segment.live_rows(),
        tier: policy.tier(segment.live_rows()),
        worn: policy.is_worn(segment),
    };
    let candidates: Vec<MergeCandidate> = table.segments().iter().map(candidate).collect();
    let top = candidates.iter().map(|c| c.tier).max().unwrap_or(0);
    // Of each segment the group it is in, named by the group's first segment.
    let mut groups: Vec<Option<usize>> = vec![None; candidates.len()];
    for tier in (0..=top).rev() {
        let least = if tier == 0 { 2 } else { policy.fanout.max(2) };
        let mut start = 0;
        while start < candidates.len() {
            let fits = |i: &usize| groups[*i].is_none() && candidates[*i].tier <= tier;
            let end = start + (start..candidates.len()).take_while(fits).count();
            for part in limited(&candidates, start, end, policy.max_rows) {
                let of_tier = candidates[part.clone()].iter().filter(|c| c.tier == tier);
                if of_tier.count() as u64 >= least {
                    groups[part.clone()].fill(Some(part.start));
                }
            }
            start = end.max(start + 1);
        }
    }
    let mut plan: Vec<(usize, Vec<u64>)> = Vec::new();
    for (i, candidate) in candidates.iter().enumerate() {
        let Some(group) = groups[i].or(candidate.worn.then_some(i)) else {
            continue;
        };
        match plan.last_mut().filter(|(first, _)| *first == group) {
            Some((_, ids)) => ids.push(candidate.id),
            None => plan.push((group, vec![candidate.id])),
        }
    }
    plan.into_iter().map(|(_, ids)| ids).collect()
}

/// Splits `start..end` into ranges of at most `max_rows` rows each; a segment with more rows gets a range of
/// its own.
fn limited(
    candidates: &[MergeCandidate],
    start: usize,
    end: usize,
    max_rows: u64,
) -> Vec<std::ops::Range<usize>> {
    let mut parts: Vec<std::ops::Range<usize>> = Vec::new();
    let mut rows = 0;
    for (i, candidate) in (start..end).zip(&candidates[start..end]) {
        rows += candidate.rows;
        match parts.last_mut().filter(|_| rows <= max_rows) {
            Some(part) => part.end = i + 1,
            None => {
                parts.push(i..i + 1);
                rows = candidate.rows;
            }
        }
    }
    parts
}
