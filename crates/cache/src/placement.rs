//! Placements of an index in DRAM: the variants of Jibril et al. (section 4) and their textual form.
//!
//! A placement is a request. How much of it fits is decided when an index is placed, within its own
//! limit and the [`DramBudget`](crate::DramBudget) of all indexes.

use crate::{CacheError, PolicyKind};
use std::fmt;
use std::str::FromStr;

/// The method by which a cached list is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Links {
    /// The DRAM copy of the parent points to it, so that a hit needs no hash table.
    #[default]
    Swizzled,
    /// A hash table maps its offset to it, as in the paper.
    Hashed,
}

/// The lists in a static cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StaticLists {
    /// All lists of the first dimensions.
    Levels(usize),
    /// The most probable lists, as many as fit the budget.
    Probable,
}

/// The parts of an index that are in DRAM. Written as `slow-only`, `hybrid`, `volatile`, `static`,
/// `static:LEVELS`, `dynamic`, `dynamic:POLICY`, `dynamic:hashed-POLICY`, `static+dynamic` with the
/// same suffixes as `dynamic`, `dual-access` or `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Placement {
    /// Nothing: every list is read from the durable index ("persistent" in the paper).
    #[default]
    SlowOnly,
    /// A complete copy of the durable index, made when it is opened.
    Hybrid,
    /// Everything in DRAM and nothing durable; lost at the end of the process.
    Volatile,
    /// The upper lists, copied when the index is opened.
    Static(StaticLists),
    /// Lists that queries access, admitted at run time.
    Dynamic(PolicyKind, Links),
    /// The upper lists from the start, and others as queries access them.
    StaticDynamic(PolicyKind, Links),
    /// All DimensionLists in DRAM and all MonoLists on the slow tier: the upper bound of list caching.
    DualAccess,
    /// The placement that is estimated to be the best within the budget.
    Auto,
}

impl Placement {
    /// Returns the policy of the dynamic part.
    pub fn policy(self) -> Option<PolicyKind> {
        match self {
            Self::Dynamic(policy, _) | Self::StaticDynamic(policy, _) => Some(policy),
            _ => None,
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hashed = |links: &Links| match links {
            Links::Swizzled => "",
            Links::Hashed => "hashed-",
        };
        match self {
            Self::SlowOnly => f.write_str("slow-only"),
            Self::Hybrid => f.write_str("hybrid"),
            Self::Volatile => f.write_str("volatile"),
            Self::Static(StaticLists::Levels(levels)) => write!(f, "static:{levels}"),
            Self::Static(StaticLists::Probable) => f.write_str("static"),
            Self::Dynamic(policy, links) => write!(f, "dynamic:{}{policy}", hashed(links)),
            Self::StaticDynamic(policy, links) => write!(f, "static+dynamic:{}{policy}", hashed(links)),
            Self::DualAccess => f.write_str("dual-access"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for Placement {
    type Err = CacheError;

    fn from_str(text: &str) -> Result<Self, CacheError> {
        let lower = text.trim().to_ascii_lowercase();
        let (name, detail) = match lower.split_once(':') {
            Some((name, detail)) => (name, Some(detail)),
            None => (&*lower, None),
        };
        let dynamic = || -> Result<(PolicyKind, Links), CacheError> {
            let Some(detail) = detail else {
                return Ok((PolicyKind::Lla, Links::Swizzled));
            };
            match detail.strip_prefix("hashed-") {
                Some(policy) => Ok((policy.parse()?, Links::Hashed)),
                None => Ok((detail.parse()?, Links::Swizzled)),
            }
        };
        match (name, detail) {
            ("slow-only" | "persistent", None) => Ok(Self::SlowOnly),
            ("hybrid", None) => Ok(Self::Hybrid),
            ("volatile", None) => Ok(Self::Volatile),
            ("static", None) => Ok(Self::Static(StaticLists::Probable)),
            ("static", Some(levels)) => match levels.parse() {
                Ok(levels) if levels > 0 => Ok(Self::Static(StaticLists::Levels(levels))),
                _ => Err(CacheError::UnknownLevels { text: levels.into() }),
            },
            ("dynamic", _) => dynamic().map(|(policy, links)| Self::Dynamic(policy, links)),
            ("static+dynamic", _) => dynamic().map(|(policy, links)| Self::StaticDynamic(policy, links)),
            ("dual-access", None) => Ok(Self::DualAccess),
            ("auto", None) => Ok(Self::Auto),
            _ => Err(CacheError::UnknownPlacement { text: text.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_displayed_is_read_back() {
        let mut all = vec![
            Placement::SlowOnly,
            Placement::Hybrid,
            Placement::Volatile,
            Placement::Static(StaticLists::Probable),
            Placement::Static(StaticLists::Levels(4)),
            Placement::DualAccess,
            Placement::Auto,
        ];
        for policy in PolicyKind::ALL {
            for links in [Links::Swizzled, Links::Hashed] {
                all.push(Placement::Dynamic(policy, links));
                all.push(Placement::StaticDynamic(policy, links));
            }
        }
        for placement in all {
            assert_eq!(placement.to_string().parse(), Ok(placement));
        }
        assert_eq!(
            "Dynamic".parse(),
            Ok(Placement::Dynamic(PolicyKind::Lla, Links::Swizzled))
        );
    }

    #[test]
    fn what_is_no_placement_is_an_error_that_says_what_is_one() {
        let message = |text: &str| text.parse::<Placement>().unwrap_err().to_string();
        assert!(
            message("fast").contains("slow-only, hybrid"),
            "{}",
            message("fast")
        );
        assert!(
            message("dynamic:mru").contains("naive, lru, lfu, 2q"),
            "{}",
            message("dynamic:mru")
        );
        assert!(
            message("static:0").contains("static:3"),
            "{}",
            message("static:0")
        );
        assert!(message("hybrid:lru").contains("hybrid:lru"));
    }
}
