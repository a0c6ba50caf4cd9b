//! How the keys of the fact table have to match those of a dimension.

use halocline_catalog::OpenTable;

use super::bounds::{has_nulls, integer_bounds};

/// How a key of the fact table has to match the keys of a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyMatch {
    /// The dimension has one row with the key, whose attributes are looked up.
    Lookup,
    /// The same, or the dimension has no row with the key: its columns are NULL.
    Optional,
    /// The dimension has a row with the key.
    Exists,
    /// The dimension has no row with the key. All keys of the fact table are between these two, and none is
    /// NULL.
    Absent(i64, i64),
}

/// Most keys for each row of the fact table, and at least, up to which an anti join marks the absent ones.
const MAX_MARKED_KEYS: (i128, i128) = (64, 1 << 23);

impl KeyMatch {
    /// Returns the condition that a dimension has no row with the key in a column of the fact table; `None`
    /// if a key may be NULL, or there are too many possible keys to mark.
    pub(super) fn absence(fact: &OpenTable, column: usize) -> Option<KeyMatch> {
        if has_nulls(fact, column) {
            return None;
        }
        let (low, high) = integer_bounds(fact, column)?;
        let (each, least) = MAX_MARKED_KEYS;
        let most = i128::from(fact.live_rows()) * each;
        let most = most.max(least).min(i128::from(u32::MAX) - 1);
        let key_match = KeyMatch::Absent(i64::try_from(low).ok()?, i64::try_from(high).ok()?);
        (high - low < most).then_some(key_match)
    }
}
