//! Options of the experiments on an index over two tiers of memory.

use std::fmt;
use std::str::FromStr;

use halocline_cache::Placement;
use halocline_elf::Layout;
use halocline_emulator::{CacheShape, EmulatedError, EmulatedSpec};

/// Bytes of the modelled cache unless told otherwise: the last-level cache of the paper's machine has
/// 13.75 MiB.
const DEFAULT_CACHE_BYTES: u64 = 14 << 20;

/// Options of the experiments on two tiers.
#[derive(Debug, Clone, Default)]
pub struct Tiers {
    /// The table; both kinds by default.
    pub data: Option<DataKind>,
    /// The layout; both by default.
    pub layout: Option<Layout>,
    /// The slow tier; emulated Optane with real delays by default.
    pub medium: Option<SlowTierMedium>,
    /// Bytes of the modelled cache above an emulated medium.
    pub cache_model: Option<u64>,
    /// Skews of the queries, each by itself.
    pub thetas: Vec<f64>,
    /// Placements to compare, beside the baselines.
    pub placements: Vec<Placement>,
    /// Budgets of DRAM, each by itself.
    pub budgets: Vec<Budget>,
    /// Queries before those that count.
    pub warm_up: Option<usize>,
    /// Kinds of queries, of those that an experiment has; all of them by default.
    pub asked: Vec<QueryGroup>,
    /// The paper's sizes.
    pub full: bool,
}

impl Tiers {
    /// Returns the slow tier with its cache.
    #[must_use]
    pub fn medium(&self) -> SlowTierMedium {
        let mut medium = self.medium.clone().unwrap_or_default();
        if let (SlowTierMedium::Emulated(spec), Some(bytes)) = (&mut medium, self.cache_model) {
            spec.cache = CacheShape::with_bytes(bytes);
        }
        medium
    }
}

/// A kind of table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataKind {
    /// 10 independent dimensions.
    Uniform,
    /// 15 columns of TPC-H lineitem, by ascending cardinality.
    Lineitem,
}

impl DataKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Uniform, Self::Lineitem];
}

impl fmt::Display for DataKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uniform => "uniform",
            Self::Lineitem => "lineitem",
        })
    }
}

/// A kind of query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryGroup {
    /// Exact matches, one at a time.
    Exact,
    /// Exact matches, many at a time.
    Batch,
    /// A range in each dimension.
    Range,
    /// A range in every second dimension.
    Partial,
    /// All rows, as a range in each dimension.
    WholeRange,
    /// All rows, as a range in every second dimension.
    WholePartial,
}

/// A slow tier: `dram` (none slower than DRAM) or `emulated:PROFILE…` as [`EmulatedSpec`] says.
#[derive(Debug, Clone, PartialEq)]
pub enum SlowTierMedium {
    /// The same as the fast tier.
    Dram,
    /// An emulated device below a modelled cache.
    Emulated(Box<EmulatedSpec>),
}

impl Default for SlowTierMedium {
    fn default() -> Self {
        "emulated:optane:delay"
            .parse()
            .expect("the medium by default is one")
    }
}

impl FromStr for SlowTierMedium {
    type Err = EmulatedError;

    fn from_str(text: &str) -> Result<Self, EmulatedError> {
        if text.eq_ignore_ascii_case("dram") {
            return Ok(Self::Dram);
        }
        let mut spec: EmulatedSpec = text.parse()?;
        if !text.contains(":cache=") {
            spec.cache = CacheShape::with_bytes(DEFAULT_CACHE_BYTES);
        }
        Ok(Self::Emulated(Box::new(spec)))
    }
}

/// An amount of DRAM: a size, or a part of the index (`3%`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// Bytes.
    Bytes(u64),
    /// A part of the bytes of the index.
    Share(f64),
}

impl Budget {
    /// Reads `3%` or what `size` reads.
    ///
    /// # Errors
    /// Says what a budget looks like.
    pub fn parse(text: &str, size: impl FnOnce(&str) -> Result<u64, String>) -> Result<Self, String> {
        match text.trim().strip_suffix('%') {
            Some(percent) => match percent.trim().parse::<f64>() {
                Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Self::Share(percent / 100.0)),
                _ => Err(format!("`{text}` is no part of an index; write 3% or 64M")),
            },
            None => size(text).map(Self::Bytes),
        }
    }

    /// Returns the budget in bytes for an index of `size` bytes.
    #[must_use]
    pub fn bytes_for(self, size: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) => (size as f64 * share) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halocline_emulator::ClockMode;

    #[test]
    fn media_have_the_paper_s_cache_unless_told_otherwise() {
        let spec = |text: &str| match text.parse::<SlowTierMedium>() {
            Ok(SlowTierMedium::Emulated(spec)) => spec,
            other => panic!("{other:?}"),
        };
        assert_eq!("DRAM".parse::<SlowTierMedium>().unwrap(), SlowTierMedium::Dram);
        assert_eq!(spec("emulated:optane").cache.bytes(), DEFAULT_CACHE_BYTES);
        assert_eq!(spec("emulated:cxl:virtual").clock, ClockMode::Virtual);
        assert_eq!(spec("emulated:optane:cache=32").cache.bytes(), 32 << 20);
        assert!("floppy".parse::<SlowTierMedium>().is_err());
        let tiers = Tiers {
            cache_model: Some(1 << 20),
            ..Tiers::default()
        };
        let SlowTierMedium::Emulated(spec) = tiers.medium() else {
            panic!("not emulated")
        };
        assert_eq!((spec.cache.bytes(), spec.clock), (1 << 20, ClockMode::Delay));
    }

    #[test]
    fn budgets_are_sizes_or_parts() {
        let size = |text: &str| text.parse().map_err(|_| "no size".to_owned());
        assert_eq!(Budget::parse("3%", size).unwrap().bytes_for(1000), 30);
        assert_eq!(Budget::parse("4096", size).unwrap().bytes_for(1000), 4096);
        for wrong in ["0%", "101%", "x%", "x"] {
            assert!(Budget::parse(wrong, size).is_err(), "{wrong}");
        }
    }
}
