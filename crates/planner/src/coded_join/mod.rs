//! Joins by strings that compare codes instead.
//!
//! Strings of stored tables are ranks in dictionaries. Where both sides of a join are scans, and all strings
//! of a key have dictionaries with few entries, [`CodedJoinRule`] makes the scans return numbers that both
//! sides share ([`KeyCodes`](halocline_joins::equi::KeyCodes)) as the key, and no string that only the join
//! needs. The codes are found when the first of the scans runs.
//!
//! A scan cannot test a dynamic filter on codes, so joins that are estimated to drop most rows of the probe
//! side stay as they are.

mod rule;
mod side;

pub use rule::CodedJoinRule;
