//! The paper's dynamic cache for layout `published`: a hash table of lists with a replacement policy.

use crate::header::ElfHeader;
use crate::{ElfError, Result};
use halocline_cache::ListCache;

/// A hash table of lists.
#[derive(Debug)]
pub(crate) struct Hashed {
    pub(crate) lists: ListCache,
    /// Probability of a list by its dimension, as if all prefixes had the same number of rows.
    pub(crate) probabilities: Vec<f32>,
}

impl Hashed {
    /// Creates an empty table of at most `budget` bytes; `None` if that is too little.
    pub(crate) fn new(
        budget: u64,
        policy: halocline_cache::PolicyKind,
        header: &ElfHeader,
    ) -> Result<Option<Self>> {
        let geometry = &header.geometry;
        let (mut lists, mut rows, mut probabilities) = (1.0_f64, geometry.rows as f64, vec![]);
        for histogram in &header.histograms {
            probabilities.push((1.0 / lists) as f32);
            lists = (lists * histogram.distinct.max(1) as f64).min(rows.max(1.0));
        }
        rows = rows.max(1.0);
        // Most lists are on the lower levels and have few entries, so their size determines the number of
        // slots.
        let entries = header.histograms.iter().map(|histogram| histogram.distinct);
        let mut below = 1.0;
        let mut average = 12.0;
        for distinct in entries {
            let next = below * distinct.max(1) as f64;
            if next >= rows {
                average = (rows / below).clamp(1.0, distinct.max(1) as f64) * crate::published::ENTRY as f64;
                break;
            }
            below = next;
        }
        match ListCache::new(budget as usize, average as usize, policy) {
            Ok(lists) => Ok(Some(Self { lists, probabilities })),
            Err(halocline_cache::CacheError::BudgetTooSmall { .. }) => Ok(None),
            Err(error) => Err(ElfError::Placement {
                placement: halocline_cache::Placement::Dynamic(policy, halocline_cache::Links::Hashed),
                reason: error.to_string(),
            }),
        }
    }
}
