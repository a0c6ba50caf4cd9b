//! Sorting of pairs that may be more than DRAM holds: [`PairSorter`].

use std::sync::Arc;

use crate::error::Result;
use crate::layout::MAX_KEY;
use crate::pair_merge::{PairMerge, PairSource};
use crate::pair_runs::PairRuns;
use crate::pair_window::{NumberedPair, PairWindow};
use crate::sorting_loader::{LoadOptions, spill_error};

/// Part of the memory, as its inverse, for reading runs.
const READING_DIVISOR: usize = 4;

/// Sorts pairs by their keys, and those with the same key by their numbers. Pairs that do not fit in the
/// memory of the options are in a temporary file until then.
///
/// ```
/// # use std::sync::Arc;
/// # use halocline_store::{LoadOptions, PairSorter};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = LoadOptions::new(1 << 20, Arc::new(tempfile::tempfile));
/// let mut sorter = PairSorter::new(&options);
/// for (number, key) in (1..).zip(["lynx", "boar", "lynx"]) {
///     sorter.push(number, key.as_bytes(), b"seen")?;
/// }
/// let (mut sorted, mut found) = (sorter.sorted(), Vec::new());
/// while let Some(pair) = sorted.next()? {
///     found.push((pair.key.to_vec(), pair.number));
/// }
/// assert_eq!(found, [(b"boar".to_vec(), 2), (b"lynx".to_vec(), 1), (b"lynx".to_vec(), 3)]);
/// # Ok(())
/// # }
/// ```
pub struct PairSorter {
    pub(crate) window: PairWindow,
    runs: PairRuns,
}

impl std::fmt::Debug for PairSorter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PairSorter")
            .field("in_window", &self.window.len())
            .finish_non_exhaustive()
    }
}

impl PairSorter {
    /// Creates a sorter.
    pub fn new(options: &LoadOptions) -> Self {
        let reading = options.memory / READING_DIVISOR;
        Self {
            window: PairWindow::new(options.memory - reading),
            runs: PairRuns::new(Arc::clone(&options.spill), reading),
        }
    }

    /// Adds a pair. Pairs with the same key come in the order of their numbers if these do not descend as the
    /// pairs are added, otherwise in any order.
    ///
    /// # Errors
    /// [`StoreError::Spill`](crate::StoreError::Spill).
    ///
    /// # Panics
    /// If the key has more than [`MAX_KEY`] bytes, or the value 4 GiB or more.
    pub fn push(&mut self, number: u64, key: &[u8], value: &[u8]) -> Result<()> {
        assert!(
            key.len() <= MAX_KEY && u32::try_from(value.len()).is_ok(),
            "the pair is too long"
        );
        let pair = NumberedPair { number, key, value };
        if self.window.is_full_for(&pair) {
            self.spill_window()?;
        }
        self.window.push(&pair);
        Ok(())
    }

    /// Spills the pairs of the window, which is empty afterwards.
    pub(crate) fn spill_window(&mut self) -> Result<()> {
        self.window.sort();
        self.runs.spill(&self.window, 0).map_err(spill_error)?;
        self.window.clear();
        Ok(())
    }

    /// Spills the pairs of another sorted window from a position on.
    pub(crate) fn spill(&mut self, window: &PairWindow, from: usize) -> Result<()> {
        self.runs.spill(window, from).map_err(spill_error)
    }

    /// Returns the pairs in order. The sorter has none afterwards that were spilled.
    pub fn sorted(&mut self) -> SortedPairs<'_> {
        self.sorted_with(None)
    }

    /// Returns the pairs in order, with those of another source.
    pub(crate) fn sorted_with<'a>(&'a mut self, other: Option<PairSource<'a>>) -> SortedPairs<'a> {
        self.window.sort();
        let mut sources: Vec<PairSource<'a>> = self.runs.take_sources();
        sources.push(PairSource::window(&self.window, 0));
        sources.extend(other);
        SortedPairs(PairMerge::new(sources))
    }
}

/// The pairs of a [`PairSorter`] in order.
pub struct SortedPairs<'a>(PairMerge<'a>);

impl std::fmt::Debug for SortedPairs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SortedPairs").finish_non_exhaustive()
    }
}

impl SortedPairs<'_> {
    /// Returns the next pair; none after the last one.
    ///
    /// # Errors
    /// [`StoreError::Spill`](crate::StoreError::Spill).
    #[expect(
        clippy::should_implement_trait,
        reason = "the pair is borrowed from the reader of a file"
    )]
    pub fn next(&mut self) -> Result<Option<NumberedPair<'_>>> {
        self.0.next().map_err(spill_error)
    }
}
