//! Writing layout `published` from sorted records.

use crate::build::output::Buffered;
use crate::build::record::{Differ, SortRecord, code};
use crate::geometry::RecordGeometry;
use crate::published::{ENTRY, LAST, MONO};
use crate::{ElfError, Result};
use rayon::prelude::*;

/// Writes all lists. Returns the position of the root and, for each dimension that holds ranks, its sorted
/// codes.
pub(crate) fn write<const W: usize>(
    geometry: &RecordGeometry,
    records: &[SortRecord<W>],
    out: &mut Buffered<'_>,
) -> Result<(u64, Vec<Vec<u64>>)> {
    let ranks: Vec<Vec<u64>> = (0..geometry.dims())
        .map(|dim| ranks(geometry, records, dim))
        .collect();
    let root = out.position();
    let mut writer = PublishedWriter {
        geometry,
        differ: Differ::new(geometry),
        records,
        ranks: &ranks,
        out,
    };
    writer.root()?;
    Ok((root, ranks))
}

/// Returns the number of slots of the first dimension's array.
pub(crate) fn places(geometry: &RecordGeometry, ranks: u64) -> usize {
    if ranks > 0 {
        ranks as usize
    } else {
        geometry.max_codes[0] as usize + 1
    }
}

fn ranks<const W: usize>(geometry: &RecordGeometry, records: &[SortRecord<W>], dim: usize) -> Vec<u64> {
    let max = geometry.max_codes[dim];
    let sparse = dim == 0 && max > geometry.rows.saturating_mul(4).saturating_add(1024);
    if max < u64::from(LAST) && !sparse {
        return vec![];
    }
    let mut codes: Vec<u64> = records
        .par_iter()
        .map(|record| code(record, geometry.fields[dim]))
        .collect();
    codes.par_sort_unstable();
    codes.dedup();
    codes
}

struct PublishedWriter<'a, 'o, const W: usize> {
    geometry: &'a RecordGeometry,
    differ: Differ,
    records: &'a [SortRecord<W>],
    ranks: &'a [Vec<u64>],
    out: &'a mut Buffered<'o>,
}

impl<const W: usize> PublishedWriter<'_, '_, W> {
    fn value(&self, row: usize, dim: usize) -> u32 {
        let code = code(&self.records[row], self.geometry.fields[dim]);
        let ranks = &self.ranks[dim];
        if ranks.is_empty() {
            code as u32
        } else {
            ranks.partition_point(|&other| other < code) as u32
        }
    }

    /// Returns the first row after `start` that differs from the one before it in `depth` or an earlier
    /// dimension.
    fn group_end(&self, start: usize, end: usize, depth: usize) -> usize {
        let differs = |pair: &[SortRecord<W>]| self.differ.first(&pair[0], &pair[1]) <= depth;
        self.records[start..end]
            .windows(2)
            .position(differs)
            .map_or(end, |at| start + at + 1)
    }

    fn root(&mut self) -> Result<()> {
        let at = self.out.position();
        let places = places(self.geometry, self.ranks[0].len() as u64);
        self.out.skip(places * 8).map_err(ElfError::Write)?;
        let mut row = 0;
        while row < self.records.len() {
            let end = self.group_end(row, self.records.len(), 0);
            let place = at + u64::from(self.value(row, 0)) * 8;
            let link = self.child(row, end, 1)?;
            self.out
                .write_at(place, &link.to_le_bytes())
                .map_err(ElfError::Write)?;
            row = end;
        }
        Ok(())
    }

    /// Writes the subtree of an entry whose rows share all dimensions before `depth`, and returns the link to
    /// it.
    fn child(&mut self, start: usize, end: usize, depth: usize) -> Result<u64> {
        let dims = self.geometry.dims();
        // The rows are sorted: if the first and the last are equal, all are.
        if end - start == 1 || self.differ.first(&self.records[start], &self.records[end - 1]) == dims {
            return self.mono_list(start, end, depth);
        }
        let at = self.out.position();
        let mut groups = vec![];
        let mut row = start;
        while row < end {
            row = self.group_end(row, end, depth);
            groups.push(row);
        }
        let mut list = vec![0; groups.len() * ENTRY];
        self.out.append(&list).map_err(ElfError::Write)?;
        row = start;
        for (entry, &group) in list.chunks_exact_mut(ENTRY).zip(&groups) {
            let last = if group == end { LAST } else { 0 };
            entry[..4].copy_from_slice(&(self.value(row, depth) | last).to_le_bytes());
            let link = self.child(row, group, depth + 1)?;
            entry[4..].copy_from_slice(&link.to_le_bytes());
            row = group;
        }
        self.out.write_at(at, &list).map_err(ElfError::Write)?;
        Ok(at)
    }

    fn mono_list(&mut self, start: usize, end: usize, depth: usize) -> Result<u64> {
        let at = self.out.position();
        let mut list = Vec::with_capacity((self.geometry.dims() - depth + end - start) * 4);
        for dim in depth..self.geometry.dims() {
            list.extend_from_slice(&self.value(start, dim).to_le_bytes());
        }
        for row in start..end {
            let tid = self.records[row][0] as u32 & self.geometry.tid_mask;
            let last = if row + 1 == end { LAST } else { 0 };
            list.extend_from_slice(&(tid | last).to_le_bytes());
        }
        self.out.append(&list).map_err(ElfError::Write)?;
        Ok(at | MONO)
    }
}
