//! Feature words: what a program must support to open, read or write a generation, as named bits instead of a
//! version.
//!
//! Rules by word: an unknown `incompatible` bit prevents opening. An unknown `read_compatible` bit prevents
//! writing, because a writer that does not know the feature would leave its data out of date. Unknown
//! `compatible` bits are ignored and kept by every publish. A bit that is set stays set in later generations,
//! unless a program that knows it clears it.

use std::fmt;
use std::ops::BitOr;
use std::path::Path;

use zerocopy::little_endian::U64;

use crate::PoolError;
use crate::directory::ObjectMap;
use crate::layout::{FORMAT_VERSION, Superblock};
use crate::log_count::has_count;
use crate::object::ObjectKind;

/// The feature bits of the three words of a superblock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Features {
    incompatible: u64,
    read_compatible: u64,
    compatible: u64,
}

impl Features {
    /// No features: a pool that versions 1 to 3 can describe.
    pub(crate) const NONE: Features = Features {
        incompatible: 0,
        read_compatible: 0,
        compatible: 0,
    };

    /// The directory carries the limbo list.
    pub(crate) const LIMBO_LIST: Features = Features::read_compatible(0);
    /// Logs have a durable count of their records.
    pub(crate) const LOG_COUNT: Features = Features::read_compatible(1);
    /// Extents have a checksum for each of their blocks.
    pub(crate) const BLOCK_SUMS: Features = Features::read_compatible(2);
    /// Slabs have checksums of their nodes.
    pub(crate) const NODE_SUMS: Features = Features::read_compatible(3);

    /// The generation names logs or slabs, which change without a publish. Only set if another feature needs
    /// version 4; older versions express the same by their number.
    pub(crate) const IN_PLACE: Features = Features::compatible(0);

    const KNOWN: Features = Features {
        incompatible: 0,
        read_compatible: Features::LIMBO_LIST.read_compatible
            | Features::LOG_COUNT.read_compatible
            | Features::BLOCK_SUMS.read_compatible
            | Features::NODE_SUMS.read_compatible,
        compatible: Features::IN_PLACE.compatible,
    };

    /// The names of the bits as in docs/format/file.md: word, bit, name.
    #[cfg(test)]
    pub(crate) const NAMES: [(&'static str, u32, &'static str); 5] = [
        ("read_compatible", 0, "LIMBO_LIST"),
        ("read_compatible", 1, "LOG_COUNT"),
        ("read_compatible", 2, "BLOCK_SUMS"),
        ("read_compatible", 3, "NODE_SUMS"),
        ("compatible", 0, "IN_PLACE"),
    ];

    const fn read_compatible(bit: u32) -> Features {
        Features {
            read_compatible: 1 << bit,
            ..Features::NONE
        }
    }

    const fn compatible(bit: u32) -> Features {
        Features {
            compatible: 1 << bit,
            ..Features::NONE
        }
    }

    /// Returns the features of a superblock; none in versions before 4, whose words are undefined.
    pub(crate) fn from_superblock(superblock: &Superblock) -> Features {
        if superblock.version.get() < FORMAT_VERSION {
            return Features::NONE;
        }
        Features {
            incompatible: superblock.incompatible.get(),
            read_compatible: superblock.read_compatible.get(),
            compatible: superblock.compatible.get(),
        }
    }

    /// Returns true if all bits of `other` are set.
    pub(crate) fn has(self, other: Features) -> bool {
        self | other == self
    }

    /// Returns true if no bit is set, so that versions before 4 can describe the pool.
    pub(crate) fn is_none(self) -> bool {
        self == Features::NONE
    }

    /// Returns the bits of `self` that are not in `other`.
    pub(crate) fn without(self, other: Features) -> Features {
        Features {
            incompatible: self.incompatible & !other.incompatible,
            read_compatible: self.read_compatible & !other.read_compatible,
            compatible: self.compatible & !other.compatible,
        }
    }

    /// Returns the features for a generation of these objects that requires `self`: sets or clears
    /// `LOG_COUNT` and `IN_PLACE` as needed.
    pub(crate) fn for_objects(self, objects: &ObjectMap) -> Features {
        let mut rest = self.without(Features::IN_PLACE | Features::LOG_COUNT);
        let mut records = objects.values();
        if records.any(|record| record.kind == ObjectKind::LOG && has_count(&record.meta)) {
            rest = rest | Features::LOG_COUNT;
        }
        if !rest.is_none() && objects.values().any(|record| record.kind.is_mutable()) {
            rest | Features::IN_PLACE
        } else {
            rest
        }
    }

    /// Stores the words in a superblock.
    pub(crate) fn store(self, superblock: &mut Superblock) {
        superblock.incompatible = U64::new(self.incompatible);
        superblock.read_compatible = U64::new(self.read_compatible);
        superblock.compatible = U64::new(self.compatible);
    }

    /// Fails if the pool has features that readers must know.
    ///
    /// # Errors
    /// [`PoolError::UnknownFeature`].
    pub(crate) fn check_readable(self, path: &Path) -> Result<(), PoolError> {
        let unknown = Features {
            incompatible: self.without(Features::KNOWN).incompatible,
            ..Features::NONE
        };
        if unknown.is_none() {
            return Ok(());
        }
        Err(PoolError::UnknownFeature {
            path: path.to_owned(),
            features: unknown.to_string(),
        })
    }

    /// Fails if the pool has features that writers must know.
    ///
    /// # Errors
    /// [`PoolError::ReadOnlyFeature`], or [`PoolError::UnknownFeature`] if it cannot be read either.
    pub(crate) fn check_writable(self, path: &Path) -> Result<(), PoolError> {
        self.check_readable(path)?;
        let unknown = Features {
            read_compatible: self.without(Features::KNOWN).read_compatible,
            ..Features::NONE
        };
        if unknown.is_none() {
            return Ok(());
        }
        Err(PoolError::ReadOnlyFeature {
            path: path.to_owned(),
            features: unknown.to_string(),
        })
    }
}

impl BitOr for Features {
    type Output = Features;

    fn bitor(self, other: Features) -> Features {
        Features {
            incompatible: self.incompatible | other.incompatible,
            read_compatible: self.read_compatible | other.read_compatible,
            compatible: self.compatible | other.compatible,
        }
    }
}

impl fmt::Display for Features {
    /// Lists each bit by word and number, as error messages name it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            ("incompatible", self.incompatible),
            ("read_compatible", self.read_compatible),
            ("compatible", self.compatible),
        ];
        let mut separator = "";
        for (word, bits) in words {
            for bit in (0..u64::BITS).filter(|bit| bits >> bit & 1 == 1) {
                write!(f, "{separator}bit {bit} of `{word}`")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}
