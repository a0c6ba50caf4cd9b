//! The list of replacement policies: their kinds, names and constructors.
//!
//! A new policy is a variant of [`PolicyKind`], a line of the list at the end of this file, and the number of
//! policies in [`PolicyKind::ALL`]. The compiler finds a variant without a line, and a wrong number.

use std::fmt;
use std::str::FromStr;

use super::{Capacity, Policy};
use crate::CacheError;

/// A replacement policy of a dynamic cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PolicyKind {
    /// Admits until the budget is full and never evicts.
    Naive,
    /// Evicts the least recently used item.
    Lru,
    /// Evicts the least frequently used item.
    Lfu,
    /// LRU queue with admission on the second miss (Johnson and Shasha, VLDB '94).
    TwoQ,
    /// "Least likely to be accessed": evicts the item with the lowest probability, and only for a more
    /// probable one.
    Lla,
    /// Second chance: a rotating hand skips items that were used since it last passed.
    Clock,
    /// One queue and one hand, without moves on a hit (Zhang et al., NSDI '24).
    Sieve,
    /// A small queue in front of the main one, and a ghost queue of evicted keys (Yang et al., SOSP '23).
    S3Fifo,
    /// An admission window in front of a segmented LRU, with admission by a count-min sketch (Einziger et
    /// al., TOS '17).
    WTinyLfu,
}

impl PolicyKind {
    /// All policies.
    pub const ALL: [Self; 9] = POLICIES;

    /// Returns the policy's name in SQL and on the command line.
    pub fn name(self) -> &'static str {
        name_of(self)
    }

    /// Creates a policy with no resident items.
    #[must_use]
    pub fn build(self, capacity: Capacity) -> Box<dyn Policy> {
        build(self, capacity)
    }

    pub(crate) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PolicyKind {
    type Err = CacheError;

    fn from_str(name: &str) -> Result<Self, CacheError> {
        let found = Self::ALL
            .into_iter()
            .find(|policy| policy.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| CacheError::UnknownPolicy { name: name.into() })
    }
}

/// Generates what depends on the kind of a policy from the list of kinds, types and names.
macro_rules! policies {
    ($($kind:ident($policy:ty) = $name:literal),+ $(,)?) => {
        const POLICIES: [PolicyKind; [$($name),+].len()] = [$(PolicyKind::$kind),+];

        fn name_of(kind: PolicyKind) -> &'static str {
            match kind { $(PolicyKind::$kind => $name),+ }
        }

        fn build(kind: PolicyKind, capacity: Capacity) -> Box<dyn Policy> {
            match kind { $(PolicyKind::$kind => Box::new(<$policy>::new(capacity))),+ }
        }
    };
}

policies! {
    Naive(super::naive::Naive) = "naive",
    Lru(super::lru::Lru) = "lru",
    Lfu(super::lfu::Lfu) = "lfu",
    TwoQ(super::two_q::TwoQ) = "2q",
    Lla(super::lla::Lla) = "lla",
    Clock(super::clock::ClockPolicy) = "clock",
    Sieve(super::sieve::Sieve) = "sieve",
    S3Fifo(super::s3_fifo::S3Fifo) = "s3-fifo",
    WTinyLfu(super::w_tiny_lfu::WTinyLfu) = "w-tinylfu",
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_document_lists_the_policies() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/indexes.md");
        let document = fs::read_to_string(path).unwrap();
        for name in PolicyKind::ALL.map(PolicyKind::name) {
            assert!(document.contains(&format!("`{name}`")), "{name}");
        }
    }
}
