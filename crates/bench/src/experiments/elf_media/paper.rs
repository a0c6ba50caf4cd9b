//! The paper's figures: time over the index in DRAM, in percent, on 100 M rows and Optane (Jibril et al.,
//! 2022).

use super::QueryType;

/// Returns the figure of the index on the slow tier alone, or `None` if the paper has none.
pub(super) fn slow_only(question: QueryType) -> Option<f64> {
    match question {
        QueryType::Exact => Some(223.0),
        QueryType::Range(2.0) => Some(210.0),
        QueryType::Range(100.0) => Some(70.0),
        QueryType::Partial(2.0) => Some(236.0),
        QueryType::Partial(100.0) => Some(66.0),
        _ => None,
    }
}

/// Returns the figure of the index with four levels in DRAM, 3 % of the tree, or `None` if the paper has
/// none.
pub(super) fn cached(question: QueryType) -> Option<f64> {
    match question {
        QueryType::Exact => Some(150.0),
        QueryType::Range(2.0) => Some(110.0),
        QueryType::Partial(2.0) => Some(140.0),
        _ => None,
    }
}

/// Returns the paper's figure for a placement.
pub(super) fn figure(question: QueryType, placement: &str) -> Option<f64> {
    if placement == "slow-only" {
        slow_only(question)
    } else if placement.starts_with("static") {
        cached(question)
    } else {
        None
    }
}
