//! The use of one segment: [`SegmentUse`], and the numbers that stand for it in catalogs.

use crate::layout::{BRANCH, KIND_BRANCHES, KIND_LEAVES, KIND_LOG, LEAF, NO_STORE, SEGMENT};

/// The kind of data in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    Log,
    Leaves,
    Branches,
}

impl SegmentKind {
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Log => KIND_LOG,
            Self::Leaves => KIND_LEAVES,
            Self::Branches => KIND_BRANCHES,
        }
    }

    pub(crate) fn from_number(number: u32) -> Option<Self> {
        [Self::Log, Self::Leaves, Self::Branches]
            .into_iter()
            .find(|kind| kind.number() == number)
    }

    /// Returns the bytes of a page.
    pub(crate) fn page(self) -> u64 {
        match self {
            Self::Log => SEGMENT,
            Self::Leaves => LEAF,
            Self::Branches => BRANCH,
        }
    }

    /// Returns the bit of the page at an offset in its segment.
    pub(crate) fn bit(self, offset: u64) -> u64 {
        1 << (offset / self.page())
    }

    /// Returns the pages that the bits of a segment stand for, for [`Freed`](super::Freed).
    pub(crate) fn pages(self, segment: u64, bits: u64) -> impl Iterator<Item = (u64, Self)> {
        let set = (0..64).filter(move |page| bits >> page & 1 == 1);
        set.map(move |page| (segment + page * self.page(), self))
    }

    /// Returns a bit for each page.
    pub(crate) fn all(self) -> u64 {
        u64::MAX >> (64 - SEGMENT / self.page())
    }
}

/// The stores of which records in a log segment have ever counted as needed. It only ever widens, so that a
/// segment of one store certainly has nothing that another one needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordsOf {
    None,
    Store(u32),
    /// Or it is not known.
    Several,
}

impl RecordsOf {
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::None => NO_STORE,
            Self::Store(id) if id < NO_STORE - 1 => id + 1,
            Self::Store(_) | Self::Several => 0,
        }
    }

    pub(crate) fn from_number(number: u32) -> Self {
        match number {
            NO_STORE => Self::None,
            0 => Self::Several,
            number => Self::Store(number - 1),
        }
    }

    /// Adds a store, one of whose records counts as needed now.
    pub(super) fn widen(&mut self, store: u32) {
        *self = match *self {
            Self::None => Self::Store(store),
            Self::Store(same) if same == store => *self,
            Self::Store(_) | Self::Several => Self::Several,
        };
    }
}

/// A segment in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentUse {
    pub(crate) kind: SegmentKind,
    /// For log segments the bytes of records that are still needed, else a bit for each page in use.
    pub(crate) used: u64,
    /// The latest time at which one of its records expires; 0 if none does.
    pub(crate) expires: u64,
    /// Of log segments.
    pub(crate) store: RecordsOf,
}

impl SegmentUse {
    /// Returns true if a segment of its kind can have this much in use.
    pub(crate) fn is_plausible(&self) -> bool {
        match self.kind {
            SegmentKind::Log => self.used <= SEGMENT,
            SegmentKind::Leaves | SegmentKind::Branches => self.used & !self.kind.all() == 0,
        }
    }

    /// A log segment without records.
    pub(crate) const NEW_LOG: SegmentUse = SegmentUse {
        kind: SegmentKind::Log,
        used: 0,
        expires: 0,
        store: RecordsOf::None,
    };
}
