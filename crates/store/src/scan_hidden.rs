//! Steps of scans over [deleted ranges](crate::deleted_ranges): they skip the keys that a range hides
//! instead of reading them.

use std::ops::ControlFlow;

use crate::error::Result;
use crate::key_cut::KeyCut;
use crate::key_range::KeyRange;
use crate::scan::{Direction, NewestRecord, StepEnd, StepSize};
use crate::scan_pairs::ScannedPairs;
use crate::state::{StoreTrees, StoresState};
use crate::tree::Damage;

/// Number of entries without a visible pair after which a step looks whether it can end at a hidden part. A
/// seek takes about as long as a few entries, so that shorter parts are read.
const ENTRIES_BEFORE_SEEK: usize = 8;

impl StoresState {
    /// Finds the pairs of a step in a store with deleted ranges.
    pub(crate) fn find_unhidden(
        &self,
        trees: &StoreTrees,
        range: &KeyRange,
        commit: u64,
        direction: Direction,
        size: StepSize,
        found: &mut ScannedPairs,
    ) -> Result<StepEnd, Damage> {
        let ScannedPairs { space, pairs } = found;
        let mut near = KeyCut::near_end(range, direction);
        let mut rest = None;
        if let Some(end) = trees.end_of_hidden(&near, commit, direction) {
            let Some(after) = end.rest_of(range, direction) else {
                return Ok(StepEnd::Range);
            };
            (near, rest) = (end, Some(after));
        }
        let range = rest.as_ref().unwrap_or(range);
        // What a reader beside the writer reads may be used again before it knows. It has read the ranges
        // when it was opened.
        let is_writer = self.observer.is_none();
        let around = trees.range_around(&near, commit, direction).filter(|_| is_writer);
        let (mut newer, mut hidden, mut without_pair) = (Vec::new(), 0, 0);
        let end = trees.step(self, range, direction, size, space, |arena, newest| {
            let (table_key, leaf_key, record) = match &newest {
                NewestRecord::OfTable(key, record) => (Some(*key), None, *record),
                NewestRecord::OfLeaf(record, span) => (None, Some(span.key.clone()), *record),
            };
            let pair = self.pair_at(trees, newest, commit, arena)?;
            let leaf_key = leaf_key.map(|key| arena.get(&key));
            let key = table_key.or(leaf_key).unwrap_or_default();
            match around {
                Some(around) if around.deleted().hides_newest(&record) => hidden += 1,
                Some(_) => newer.push(key.to_vec()),
                None => {}
            }
            if let Some(pair) = pair {
                pairs.push_back(pair);
                without_pair = 0;
                return Ok(ControlFlow::Continue(()));
            }
            without_pair += 1;
            let can_seek = || {
                let here = KeyCut::past(key, direction);
                trees.end_of_hidden(&here, commit, direction).is_some()
            };
            Ok(if without_pair % ENTRIES_BEFORE_SEEK == 0 && can_seek() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })?;
        // Many newer keys are not worth it: there is room for some only.
        if let Some(around) = around.filter(|_| hidden >= newer.len()) {
            let far = end.place(range, direction);
            match direction {
                Direction::Forward => around.learn(&near, &far, &newer),
                Direction::Backward => around.learn(&far, &near, &newer),
            }
        }
        Ok(end)
    }
}
