//! The disagreements that are known, from `known.txt`.
//!
//! A line that begins with `#` is a comment; a line that ends with a colon is a reason, and the lines below
//! it are the records that disagree for it, as `FILE:LINE`.

use std::collections::{BTreeMap, BTreeSet};

/// Known disagreements.
pub(super) struct Known {
    reasons: BTreeMap<&'static str, &'static str>,
}

impl Known {
    /// Reads the list.
    ///
    /// # Panics
    /// A record is listed twice, or without a reason.
    pub(super) fn read(text: &'static str) -> Self {
        let mut reasons = BTreeMap::new();
        let mut reason = None;
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.strip_suffix(':') {
                Some(text) => reason = Some(text),
                None => {
                    let reason = reason.expect("a reason above the first record");
                    assert!(reasons.insert(line, reason).is_none(), "{line} is listed twice");
                }
            }
        }
        Self { reasons }
    }

    /// Returns why a record disagrees, if it is listed.
    pub(super) fn reason(&self, place: &str) -> Option<&'static str> {
        self.reasons.get(place).copied()
    }

    /// Returns the records that are listed and do not occur.
    pub(super) fn without_occurrence(&self, occurrences: &BTreeSet<String>) -> Vec<&'static str> {
        let listed = self.reasons.keys().copied();
        listed.filter(|place| !occurrences.contains(*place)).collect()
    }
}
