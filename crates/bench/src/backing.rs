//! Storage of trees and pools in experiments that compare several kinds of it.

use std::fmt;
use std::str::FromStr;

/// Storage of a tree or a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backing {
    /// Anonymous memory of the process.
    Dram,
    /// A file in DRAM (/dev/shm) that is taken for a DAX file: every flush and fence is really executed.
    Dax,
    /// A file on the page cache.
    PageCache,
    /// The emulated medium, its bytes in DRAM.
    Emulated,
}

impl Backing {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Dram, Self::Dax, Self::PageCache, Self::Emulated];
    /// Those that keep trees.
    pub const OF_TREES: [Self; 3] = [Self::Dax, Self::PageCache, Self::Emulated];

    /// Returns the name of the backing on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dram => "dram",
            Self::Dax => "dax",
            Self::PageCache => "page-cache",
            Self::Emulated => "emulated",
        }
    }
}

impl fmt::Display for Backing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Backing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|backing| backing.name() == text);
        found.ok_or_else(|| format!("there is no medium `{text}`: dram, dax, page-cache or emulated"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for backing in Backing::ALL {
            assert_eq!(backing.to_string().parse(), Ok(backing));
        }
        assert!("floppy".parse::<Backing>().is_err());
    }
}
