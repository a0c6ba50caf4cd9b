//! Advice on an index of a table: one placement for all of its segments.

use crate::advise::{IndexShare, advise};
use crate::table::TableIndex;
use crate::{Advice, AdviseOptions, ElfError, Query, Result};

impl TableIndex {
    /// Predicts what each placement would cost for queries like these, and picks one. `sample` has the same
    /// queries for each of the [segments](Self::segments), in its codes; the DRAM is shared among them as
    /// [`place`](Self::place) does. See [`Elf::advise`](crate::Elf::advise).
    ///
    /// # Errors
    /// As [`Elf::advise`](crate::Elf::advise); [`ElfError::NoQueries`] also if a segment has none.
    pub fn advise(&self, sample: &[Vec<Query>], options: &AdviseOptions) -> Result<Advice> {
        let segments = self.segments();
        if sample.len() < segments.len() {
            return Err(ElfError::NoQueries);
        }
        let all: u64 = segments.iter().map(|segment| segment.elf().size()).sum();
        let share = |size: u64| (u128::from(options.dram) * u128::from(size) / u128::from(all.max(1))) as u64;
        let parts = segments.iter().zip(sample).map(|(segment, queries)| {
            let elf = segment.elf();
            IndexShare::new(elf, queries, share(elf.size()))
        });
        // Dictionaries made for the index would also be in DRAM.
        let with_dictionaries = match self.is_volatile() {
            true => segments
                .iter()
                .map(|segment| segment.elf().placed().dram_bytes)
                .sum(),
            false => self.stored_bytes(),
        };
        let beside = with_dictionaries.saturating_sub(all);
        advise(parts.collect::<Result<_>>()?, beside, options)
    }
}
