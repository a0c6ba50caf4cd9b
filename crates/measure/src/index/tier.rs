//! An index on one tier of memory, with or without copies in DRAM.
//!
//! Invariants: blocks are verified when the index is opened, so that no search computes checksums; a tier has
//! a device of its own, so that none finds in the modelled cache what the search of another one has read.

use std::path::Path;
use std::sync::Arc;

use halocline_elf::{Elf, Matches, PlaceOptions, Result, TableIndex, Tid};
use halocline_emulator::{Device, EmulatedSpec, Watch};
use halocline_pool::{ExtentBytes, Pool, PoolOptions};

use super::searches::{IndexSearches, SEARCH_BATCH, SegmentSearches};

/// An index on an emulated device.
#[derive(Debug)]
pub struct TierIndex {
    device: Arc<Device>,
    /// The tree of each segment of the table.
    trees: Vec<Elf<ExtentBytes>>,
}

/// The number of rows found, and a sum that depends on which search found which row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FoundRows {
    /// The number of rows.
    pub rows: u64,
    sum: u64,
}

impl FoundRows {
    fn add(&mut self, search: usize, row: Tid) {
        let weight = search as u64 + 1;
        self.rows += 1;
        self.sum = self.sum.wrapping_add(weight.wrapping_mul(u64::from(row) + 1));
    }
}

/// The result of some searches, and the time that they took together.
#[derive(Debug, Clone, Copy)]
pub struct SearchTime {
    /// The rows found.
    pub found: FoundRows,
    /// Seconds, without those in which the emulation computed.
    pub seconds: f64,
}

impl TierIndex {
    /// Opens an index on a new device. Of each segment's tree, copies that take up to `percent` % of its size
    /// are kept in DRAM; what they serve is not charged to the device. The placement that is stored with
    /// the index does not matter.
    ///
    /// # Errors
    /// The pool or the index cannot be opened, or is damaged; there is no memory for the device or the
    /// copies.
    pub fn open(
        pool: &Path,
        index: &str,
        spec: &EmulatedSpec,
        copies: PlaceOptions,
        percent: u64,
    ) -> Result<Self> {
        let device = Device::new(spec)?;
        let options = PoolOptions::default().with_read_only(true);
        let pool = Pool::open_wrapped(pool, &options, |medium| device.emulate(medium))?;
        let index = TableIndex::open(&pool.snapshot()?, index)?;
        let mut trees = vec![];
        for segment in index.segments() {
            let elf = segment.elf();
            elf.bytes().verify_range(0..elf.size() as usize)?;
            let dram = elf.size() * percent / 100;
            trees.push(elf.place(&copies.with_dram(Some(dram)))?);
        }
        Ok(Self { device, trees })
    }

    /// Returns the bytes of the copies in DRAM.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.trees.iter().map(|tree| tree.placed().dram_bytes).sum()
    }

    /// Runs searches on this thread.
    ///
    /// # Errors
    /// The index is damaged, or the searches were drawn for another one.
    pub fn search(&self, searches: &IndexSearches) -> Result<SearchTime> {
        let mut found = FoundRows::default();
        let mut matches = Matches::new();
        let mut rows: Vec<Tid> = vec![];
        let watch = Watch::start_alone(Some(&self.device));
        for (tree, searches) in self.trees.iter().zip(&searches.by_segment) {
            match searches {
                SegmentSearches::Points(points) => {
                    for (search, point) in points.chunks_exact(tree.dims()).enumerate() {
                        for row in tree.exact(point)? {
                            found.add(search, row);
                        }
                    }
                }
                SegmentSearches::Batches(points) => {
                    for (batch, points) in points.chunks(SEARCH_BATCH * tree.dims()).enumerate() {
                        tree.exact_batch(points, &mut matches)?;
                        for point in 0..matches.len() {
                            for &row in matches.get(point) {
                                found.add(batch * SEARCH_BATCH + point, row);
                            }
                        }
                    }
                }
                SegmentSearches::Ranges(ranges) => {
                    for (search, range) in ranges.iter().enumerate() {
                        rows.clear();
                        tree.select(range)?.tids_into(&mut rows)?;
                        for &row in &rows {
                            found.add(search, row);
                        }
                    }
                }
            }
        }
        Ok(SearchTime {
            found,
            seconds: watch.elapsed().as_secs_f64(),
        })
    }
}

#[cfg(test)]
mod tests {
    use halocline_cache::{Placement, StaticLists};
    use halocline_engine::{Database, DatabaseOptions};

    use super::*;
    use crate::index::{SearchKind, SearchSource};

    const COUNT: usize = 500;

    #[test]
    fn each_tier_finds_the_rows_that_the_searches_were_drawn_from() {
        let directory = tempfile::tempdir().unwrap();
        let pool = directory.path().join("searches.pool");
        let database = Database::create(&pool, &DatabaseOptions::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        for text in [
            "CREATE TABLE t AS SELECT i % 7 AS a, i * 31 % 1009 AS b, i AS c FROM generate_series(1, 50000) AS s(i)",
            "CREATE INDEX e ON t USING elf (a, b, c)",
        ] {
            runtime
                .block_on(async { database.sql(text).await.unwrap().collect().await })
                .unwrap();
        }
        drop(database);

        let slow: EmulatedSpec = "emulated:optane:virtual:absolute:cache=1".parse().unwrap();
        let copies = PlaceOptions::default().with_placement(Placement::Static(StaticLists::Probable));
        let open = |spec: &EmulatedSpec, percent| TierIndex::open(&pool, "e", spec, copies, percent).unwrap();
        let tiers = [open(&slow.dram_beside(), 0), open(&slow, 50), open(&slow, 0)];
        assert_eq!(tiers[0].copied_bytes(), 0);
        assert!(tiers[1].copied_bytes() > 0);
        assert_eq!(tiers[2].copied_bytes(), 0);

        let mut source = SearchSource::open(&pool, "e").unwrap();
        for kind in SearchKind::ALL {
            let searches = source.draw(kind, COUNT).unwrap();
            assert_eq!(searches.count(), COUNT, "the table has one segment");
            let found = tiers.each_ref().map(|tier| tier.search(&searches).unwrap().found);
            assert!(found[0].rows >= COUNT as u64, "{kind:?}: {found:?}");
            assert!(
                found.iter().all(|other| *other == found[0]),
                "{kind:?}: {found:?}"
            );
        }
    }
}
