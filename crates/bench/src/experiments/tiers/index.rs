//! An index over any bytes, asked many queries at a time.

use std::hint::black_box;

use halocline_elf::{Elf, Layout, Matches, PlaceOptions, PlacementStatus, Tid};
use halocline_media::Bytes;

use super::{Queries, QueryType, SelectionMode};
use crate::BenchError;

/// Exact matches that are given to the index together.
const BATCH: usize = 4096;

/// The number of TIDs in all answers, and a sum over them that depends on which query found which TID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::experiments) struct Checksum {
    pub(in crate::experiments) tids: u64,
    sum: u64,
}

impl Checksum {
    #[inline]
    fn add(&mut self, query: usize, tids: &[Tid]) {
        self.tids += tids.len() as u64;
        let sum: u64 = tids.iter().map(|&tid| u64::from(tid) + 1).sum();
        self.sum = self.sum.wrapping_add(sum.wrapping_mul(query as u64 + 1));
    }
}

/// An index over some bytes.
pub(in crate::experiments) trait Index {
    /// Asks the first `count` queries; selections that way.
    fn ask(&self, queries: &Queries, count: usize, way: &SelectionMode) -> Result<Checksum, BenchError>;

    /// Returns the same index with another part of it in DRAM.
    fn place(&self, options: &PlaceOptions) -> Result<Box<dyn Index>, BenchError>;

    /// Opens the index again from its bytes and places it.
    fn reopen(&self, options: &PlaceOptions) -> Result<Box<dyn Index>, BenchError>;

    /// Calls [`Elf::copy_alone`].
    fn copy_alone(&self);

    /// Calls [`Elf::wait_for_copies`].
    fn wait_for_copies(&self);

    /// Returns the placement in effect and its DRAM.
    fn placed(&self) -> PlacementStatus;

    /// Returns the size of the index in bytes.
    fn size(&self) -> u64;

    /// Returns the layout of the index.
    fn layout(&self) -> Layout;
}

impl<B: Bytes> Index for Elf<B> {
    fn ask(&self, queries: &Queries, count: usize, way: &SelectionMode) -> Result<Checksum, BenchError> {
        let mut sum = Checksum::default();
        match queries.question {
            QueryType::Exact => {
                let points = queries.points.chunks_exact(queries.dims).take(count);
                for (query, point) in points.enumerate() {
                    for tid in self.exact(point)? {
                        sum.add(query, &[tid]);
                    }
                }
            }
            QueryType::ExactBatch => {
                let points = &queries.points[..count * queries.dims];
                let mut matches = Matches::new();
                for (batch, points) in points.chunks(BATCH * queries.dims).enumerate() {
                    self.exact_batch(points, &mut matches)?;
                    for query in 0..matches.len() {
                        sum.add(batch * BATCH + query, matches.get(query));
                    }
                }
            }
            QueryType::Range(_) | QueryType::Partial(_) | QueryType::OneAndTwo(_) => {
                let mut tids: Vec<Tid> = Vec::new();
                for (query, window) in queries.windows[..count].iter().enumerate() {
                    tids.clear();
                    way.select(self, window, &mut tids)?;
                    sum.add(query, &tids);
                }
            }
        }
        Ok(black_box(sum))
    }

    fn place(&self, options: &PlaceOptions) -> Result<Box<dyn Index>, BenchError> {
        Ok(Box::new(Elf::place(self, options)?))
    }

    fn reopen(&self, options: &PlaceOptions) -> Result<Box<dyn Index>, BenchError> {
        Ok(Box::new(Elf::open(self.bytes().clone())?.place(options)?))
    }

    fn copy_alone(&self) {
        Elf::copy_alone(self);
    }

    fn wait_for_copies(&self) {
        Elf::wait_for_copies(self);
    }

    fn placed(&self) -> PlacementStatus {
        Elf::placed(self).clone()
    }

    fn size(&self) -> u64 {
        Elf::size(self)
    }

    fn layout(&self) -> Layout {
        Elf::layout(self)
    }
}
