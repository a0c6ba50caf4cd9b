//! Sorted runs that did not fit the memory, and their merge.

use crate::build::output::{Spill, SpillArea};
use crate::build::record::{RecordEncoder, SortRecord, compare};
use crate::build::sort::sort;
use crate::{ElfError, Result, Rows};
use halocline_media::huge::HugeVec;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Records merged before they are written.
const BATCH: usize = 4096;

/// Returns the records in a spill area.
pub(crate) fn records<'a, const W: usize>(area: &'a (dyn SpillArea + '_)) -> Result<&'a [SortRecord<W>]> {
    Ok(area.words().map_err(ElfError::Write)?.as_chunks().0)
}

/// Allocates zeroed records in huge pages.
pub(crate) fn memory<const W: usize>(records: usize) -> Result<HugeVec<SortRecord<W>>> {
    HugeVec::zeroed(records).map_err(|error| ElfError::Write(error.into()))
}

/// Sorts all rows in runs of `run_rows` and merges these into one area.
pub(crate) fn sort_spilling<'s, R: Rows + ?Sized, const W: usize>(
    encoder: &RecordEncoder<'_, R>,
    run_rows: usize,
    spill: &'s dyn Spill,
) -> Result<Box<dyn SpillArea + 's>> {
    let rows = encoder.geometry.rows as usize;
    let mut runs = vec![];
    let mut buffer = memory(run_rows.min(rows))?;
    for start in (0..rows).step_by(run_rows) {
        let run = start..(start + run_rows).min(rows);
        let buffer = &mut buffer[..run.len()];
        sort::<R, W>(encoder, run, buffer)?;
        let mut area = spill.area(buffer.len() * W).map_err(ElfError::Write)?;
        area.append(buffer.as_flattened()).map_err(ElfError::Write)?;
        area.freeze();
        runs.push(area);
    }
    drop(buffer);
    let mut merged = spill.area(rows * W).map_err(ElfError::Write)?;
    let slices = runs
        .iter()
        .map(|run| records::<W>(&**run))
        .collect::<Result<Vec<_>>>()?;
    merge(&slices, &mut *merged)?;
    merged.freeze();
    Ok(merged)
}

/// The next record of a run and those after it.
struct RunHead<'a, const W: usize>(&'a SortRecord<W>, &'a [SortRecord<W>]);

impl<const W: usize> PartialEq for RunHead<'_, W> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<const W: usize> Eq for RunHead<'_, W> {}

impl<const W: usize> PartialOrd for RunHead<'_, W> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<const W: usize> Ord for RunHead<'_, W> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.0, other.0)
    }
}

fn merge<const W: usize>(runs: &[&[SortRecord<W>]], out: &mut dyn SpillArea) -> Result<()> {
    let mut heads: BinaryHeap<Reverse<RunHead<'_, W>>> = runs
        .iter()
        .filter_map(|run| {
            run.split_first()
                .map(|(first, rest)| Reverse(RunHead(first, rest)))
        })
        .collect();
    let mut batch: Vec<SortRecord<W>> = Vec::with_capacity(BATCH);
    while let Some(mut smallest) = heads.peek_mut() {
        batch.push(*smallest.0.0);
        match smallest.0.1.split_first() {
            Some((first, rest)) => smallest.0 = RunHead(first, rest),
            None => drop(PeekMut::pop(smallest)),
        }
        if batch.len() == BATCH {
            out.append(batch.as_flattened()).map_err(ElfError::Write)?;
            batch.clear();
        }
    }
    out.append(batch.as_flattened()).map_err(ElfError::Write)
}
