//! The rows of a table's segment as codes.

use crate::table::cancel::CancellationToken;
use crate::{ElfError, Result, Rows};
use halocline_columns::{CodeSpace, Column, ColumnsError, RankedStrings, rank_strings};
use halocline_pool::Txn;
use std::cell::RefCell;
use std::sync::OnceLock;

/// The codes of one dimension: those of the table, or those of a dictionary made for the index.
pub(super) enum DimensionSource<'a> {
    Coded(&'a Column, &'a CodeSpace),
    Ranked(RankedStrings<'a>),
}

impl<'a> DimensionSource<'a> {
    /// Opens the codes of a column, or ranks its values within `memory` bytes of DRAM.
    ///
    /// # Errors
    /// [`ElfError::NotIndexable`], [`ElfError::Cancelled`], or an error of reading the strings.
    pub(super) fn new(
        txn: &'a Txn,
        column: &'a Column,
        memory: usize,
        cancel: &CancellationToken<'_>,
    ) -> Result<Self> {
        if let Some(space) = column.code_space() {
            return Ok(Self::Coded(column, space));
        }
        match rank_strings(txn, column, memory, cancel.wanted()) {
            Err(ColumnsError::RankingCancelled { .. }) => Err(ElfError::Cancelled),
            Err(ColumnsError::TypeMismatch { .. }) => Err(ElfError::NotIndexable {
                column: column.name().into(),
                reason: "it is stored without codes and is neither a string nor a decimal",
            }),
            ranked => Ok(Self::Ranked(ranked?)),
        }
    }

    pub(super) fn distinct(&self) -> u64 {
        match self {
            Self::Coded(_, space) => space.distinct_estimate().saturating_add(space.has_null().into()),
            Self::Ranked(ranked) => ranked.distinct + u64::from(ranked.has_null),
        }
    }

    fn max_code(&self) -> u64 {
        match self {
            Self::Coded(_, space) => space.max_code(),
            Self::Ranked(_) => self.distinct().saturating_sub(1),
        }
    }
}

/// A segment's dimensions, in the order of the tree. Reading can fail, which [`Rows`] cannot report: the
/// first error is stored.
pub(super) struct SegmentRows<'a> {
    rows: usize,
    sources: Vec<&'a DimensionSource<'a>>,
    cancel: &'a CancellationToken<'a>,
    failed: OnceLock<ColumnsError>,
}

thread_local! {
    static CODES: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl<'a> SegmentRows<'a> {
    pub(super) fn new(
        rows: usize,
        sources: Vec<&'a DimensionSource<'a>>,
        cancel: &'a CancellationToken<'a>,
    ) -> Self {
        Self {
            rows,
            sources,
            cancel,
            failed: OnceLock::new(),
        }
    }

    /// Returns the first error that reading met.
    pub(super) fn failed(self) -> Result<()> {
        self.failed.into_inner().map_or(Ok(()), |error| Err(error.into()))
    }
}

impl Rows for SegmentRows<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn dims(&self) -> usize {
        self.sources.len()
    }

    fn max_code(&self, dim: usize) -> u64 {
        self.sources[dim].max_code()
    }

    fn read(&self, dim: usize, start: usize, out: &mut [u64]) {
        if self.cancel.is_heard() {
            // The build is cancelled and its result is discarded, so any codes will do.
            out.fill(0);
            return;
        }
        match self.sources[dim] {
            DimensionSource::Ranked(ranked) => ranked.read(start, out),
            DimensionSource::Coded(column, _) => CODES.with_borrow_mut(|codes| {
                codes.clear();
                match column.read_codes(start..start + out.len(), codes) {
                    Ok(()) if codes.len() == out.len() => out.copy_from_slice(codes),
                    Ok(()) => out.fill(0),
                    Err(error) => {
                        out.fill(0);
                        // Only the first error is kept.
                        let _ = self.failed.set(error);
                    }
                }
            }),
        }
    }
}
