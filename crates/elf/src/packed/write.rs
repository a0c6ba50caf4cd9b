//! Writing layout `packed` from sorted records.
//!
//! Lists are written after their children and link back to them by distance, so a subtree's bytes do not
//! depend on where they are put: threads write subtrees into buffers of their own, and these are appended in
//! order. The same records give the same bytes, whatever the number of threads.

use crate::build::output::Buffered;
use crate::build::record::{Differ, SortRecord, code};
use crate::geometry::RecordGeometry;
use crate::packed::entries::EntryStack;
use crate::packed::inner::{self, ListEntry, PendingList};
use crate::packed::node::{LARGE_LEAF, SMALL_LEAF};
use crate::packed::shortcut_builder::{PlaceContent, ShortcutBuilder, place};
use crate::packed::subranges::{IRREGULAR, SubrangeScheme};
use crate::{ElfError, Result};
use rayon::prelude::*;
use std::collections::VecDeque;
use std::convert::Infallible;

/// A subtree of up to this many rows is one leaf list: its values are found with one or two vectors.
pub(crate) const LEAF_ROWS: usize = 32;
/// A list in which no value has more rows than this is a leaf list, however long.
pub(crate) const LEAF_RUN: usize = 3;
/// Rows that one task writes.
const TASK_ROWS: usize = 1 << 16;

/// Writes all lists, in geometry `lists`, with up to `wave` tasks at a time, and sets the content of the
/// shortcuts. Returns the position of the root. `entries` is an empty stack.
pub(crate) fn write<const W: usize>(
    geometry: &RecordGeometry,
    lists: &RecordGeometry,
    records: &[SortRecord<W>],
    wave: usize,
    mut entries: EntryStack<'_>,
    places: &mut ShortcutBuilder,
    out: &mut Buffered<'_>,
) -> Result<u64> {
    let differ = Differ::new(geometry);
    let source = SubtreeSource {
        geometry,
        lists,
        differ: &differ,
        records,
        shortcut_dims: places.dims,
        quarters: places.quarters,
    };
    let mut plan = vec![];
    source.plan(0, records.len(), 0, &mut plan);
    let mut tasks = plan.iter().filter_map(|step| match step {
        WriteStep::Subtrees { start, end, depth } => Some((*start, *end, *depth)),
        _ => None,
    });
    let mut ready: VecDeque<WrittenSubtrees> = VecDeque::new();
    let mut last = out.position();
    for step in &plan {
        match *step {
            WriteStep::Subtrees { .. } => {
                if ready.is_empty() {
                    let next: Vec<_> = tasks.by_ref().take(wave).collect();
                    ready = next
                        .into_par_iter()
                        .map(|(s, e, depth)| source.subtrees(s, e, depth))
                        .collect::<Vec<_>>()
                        .into();
                }
                if let Some(subtrees) = ready.pop_front() {
                    let base = out.position();
                    out.append(&subtrees.bytes).map_err(ElfError::Write)?;
                    last = subtrees.entries.last().map_or(base, |child| base + child.at);
                    entries.extend(subtrees.entries.into_iter().map(|child| ListEntry {
                        at: base + child.at,
                        ..child
                    }))?;
                    for (place, content) in subtrees.shortcuts {
                        places.set(place, content.moved(base));
                    }
                }
            }
            WriteStep::Child { value } => entries.push(ListEntry { value, at: last })?,
            WriteStep::Leaf { start, end, depth } => {
                let mut bytes = vec![];
                source.base(start, &mut bytes);
                last = out.position() + bytes.len() as u64;
                source.shortcuts(start, end, depth, true, last, |place, content| {
                    places.set(place, content);
                });
                // Written in parts, so that a long leaf list needs little memory.
                source.leaf_head(end - start, &mut bytes);
                for part in (start..end).step_by(TASK_ROWS) {
                    source.leaf_values(part, end.min(part + TASK_ROWS), depth, &mut bytes);
                    out.append(&bytes).map_err(ElfError::Write)?;
                    bytes.clear();
                }
                for part in (start..end).step_by(TASK_ROWS) {
                    source.leaf_records(part, end.min(part + TASK_ROWS), depth, &mut bytes);
                    out.append(&bytes).map_err(ElfError::Write)?;
                    bytes.clear();
                }
            }
            WriteStep::Inner {
                start,
                end,
                depth,
                entries: count,
            } => {
                let mut bytes = vec![];
                source.base(start, &mut bytes);
                last = out.position() + bytes.len() as u64;
                source.shortcuts(start, end, depth, false, last, |place, content| {
                    places.set(place, content);
                });
                let children = entries.last(count)?;
                if let Some((first, last_child)) = children.ends() {
                    let list = PendingList {
                        depth,
                        rows: end - start,
                        count,
                        first,
                        last: last_child,
                        at: last,
                    };
                    inner::write(geometry, &list, children.iter(), &mut bytes, |part| {
                        out.append(part)?;
                        part.clear();
                        Ok(())
                    })
                    .map_err(ElfError::Write)?;
                }
                out.append(&bytes).map_err(ElfError::Write)?;
                entries.truncate(count)?;
            }
        }
    }
    Ok(last)
}

/// A step of the plan by which lists are written; entries and positions are passed on a stack.
#[derive(Debug)]
enum WriteStep {
    /// One child list for each value of dimension `depth` in these rows; adds their entries.
    Subtrees { start: usize, end: usize, depth: usize },
    /// Adds an entry for the list written last.
    Child { value: u64 },
    /// A leaf list of many rows.
    Leaf { start: usize, end: usize, depth: usize },
    /// A list of the last `entries` entries.
    Inner {
        start: usize,
        end: usize,
        depth: usize,
        entries: usize,
    },
}

#[derive(Clone, Copy)]
struct SubtreeSource<'a, const W: usize> {
    /// Geometry of the records.
    geometry: &'a RecordGeometry,
    /// Geometry of the lists.
    lists: &'a RecordGeometry,
    differ: &'a Differ,
    records: &'a [SortRecord<W>],
    /// Number of dimensions that the shortcuts cover.
    shortcut_dims: usize,
    /// The subranges, if they are quartered.
    quarters: Option<SubrangeScheme>,
}

/// Output of one task; positions count from the start of `bytes`.
struct WrittenSubtrees {
    bytes: Vec<u8>,
    /// The children of the list above.
    entries: Vec<ListEntry>,
    /// Slot indexes of the shortcuts and their contents.
    shortcuts: Vec<(usize, PlaceContent)>,
}

impl<const W: usize> SubtreeSource<'_, W> {
    /// Returns true if two rows have the same codes up to dimension `depth`.
    #[inline(always)]
    fn same(&self, a: usize, b: usize, depth: usize) -> bool {
        self.differ.first(&self.records[a], &self.records[b]) > depth
    }

    fn code(&self, row: usize, dim: usize) -> u64 {
        code(&self.records[row], self.geometry.fields[dim])
    }

    /// Calls `note` with the contents of the shortcuts that follow from a list of dimension `depth` at `at`
    /// with these rows.
    #[inline(always)]
    fn shortcuts(
        &self,
        start: usize,
        end: usize,
        depth: usize,
        leaf: bool,
        at: u64,
        mut note: impl FnMut(usize, PlaceContent),
    ) {
        let codes = |row: usize| (0..self.shortcut_dims).map(move |dim| self.code(row, dim));
        let place = |row: usize| place(self.geometry, codes(row));
        if depth == self.shortcut_dims && depth > 0 {
            let counts = match self.quarters {
                Some(quarters) if leaf && end - start <= SMALL_LEAF => {
                    quarters.counts((start..end).map(|row| self.code(row, depth)))
                }
                _ => IRREGULAR,
            };
            note(place(start), PlaceContent::List(at, counts));
        } else if depth < self.shortcut_dims && leaf {
            (start..end).for_each(|row| note(place(row), PlaceContent::Above));
        }
    }

    /// Returns the first row after `start` whose code in `depth` differs; rows `start..end` share all
    /// dimensions before it.
    fn group_end(&self, start: usize, end: usize, depth: usize) -> usize {
        let mut step = 1;
        while start + step < end && self.same(start, start + step, depth) {
            step *= 2;
        }
        let (mut from, mut to) = (start + step / 2, end.min(start + step));
        while from + 1 < to {
            let middle = from + (to - from) / 2;
            if self.same(start, middle, depth) {
                from = middle
            } else {
                to = middle
            }
        }
        to
    }

    /// Returns true if the rows become a leaf list: see [`LEAF_ROWS`] and [`LEAF_RUN`].
    fn is_leaf(&self, start: usize, end: usize, depth: usize) -> bool {
        if self.geometry.is_of_buckets(depth) {
            return false;
        }
        depth == self.geometry.dims()
            || end - start <= LEAF_ROWS
            || !(start..end - LEAF_RUN).any(|row| self.same(row, row + LEAF_RUN, depth))
    }

    /// Plans the lists above the tasks: those of more than `TASK_ROWS` rows.
    fn plan(&self, start: usize, end: usize, depth: usize, steps: &mut Vec<WriteStep>) {
        if self.is_leaf(start, end, depth) {
            steps.push(WriteStep::Leaf { start, end, depth });
            return;
        }
        let (mut entries, mut pending, mut group) = (0, start, start);
        while group < end {
            let next = self.group_end(group, end, depth);
            entries += 1;
            if next - group > TASK_ROWS {
                self.flush(pending, group, depth, steps);
                self.plan(group, next, depth + 1, steps);
                steps.push(WriteStep::Child {
                    value: self.code(group, depth),
                });
                pending = next;
            } else if next - pending > TASK_ROWS {
                self.flush(pending, group, depth, steps);
                pending = group;
            }
            group = next;
        }
        self.flush(pending, end, depth, steps);
        steps.push(WriteStep::Inner {
            start,
            end,
            depth,
            entries,
        });
    }

    fn flush(&self, start: usize, end: usize, depth: usize, steps: &mut Vec<WriteStep>) {
        if start < end {
            steps.push(WriteStep::Subtrees { start, end, depth });
        }
    }

    /// Writes the children that a list of dimension `depth` has in these rows; positions count from the
    /// buffer's start.
    fn subtrees(&self, start: usize, end: usize, depth: usize) -> WrittenSubtrees {
        let records = &self.records[start..end];
        let source = SubtreeSource { records, ..*self };
        // first[i]: the first dimension in which row i differs from row i - 1.
        let mut first = vec![0_u8; records.len()];
        for (first, pair) in first[1..].iter_mut().zip(records.windows(2)) {
            *first = self.differ.first(&pair[0], &pair[1]) as u8;
        }
        let mut task = SubtreeWriter {
            source,
            first,
            bytes: Vec::with_capacity(records.len() * 16),
            entries: vec![],
            shortcuts: vec![],
        };
        let mut row = 0;
        while row < records.len() {
            let next = task.group_end(row, records.len(), depth);
            let at = task.list(row, next, depth + 1);
            task.entries.push(ListEntry {
                value: source.code(row, depth),
                at,
            });
            row = next;
        }
        WrittenSubtrees {
            bytes: task.bytes,
            entries: task.entries,
            shortcuts: task.shortcuts,
        }
    }

    /// Writes the number of the first row before a list (clustered).
    fn base(&self, start: usize, bytes: &mut Vec<u8>) {
        let row = self.records[start][0] as u32 & self.geometry.tid_mask;
        bytes.extend_from_slice(&row.to_le_bytes()[..self.lists.base_len]);
    }

    fn leaf_head(&self, rows: usize, bytes: &mut Vec<u8>) {
        if rows <= SMALL_LEAF {
            bytes.push(rows as u8);
        } else {
            bytes.push(LARGE_LEAF);
            bytes.extend_from_slice(&(rows as u32).to_le_bytes());
        }
    }

    #[inline(always)]
    fn leaf_values(&self, start: usize, end: usize, depth: usize, bytes: &mut Vec<u8>) {
        let Some(&field) = self.geometry.fields.get(depth) else {
            return;
        };
        let records = &self.records[start..end];
        match self.geometry.levels[depth].value_len {
            1 => bytes.extend(records.iter().map(|record| code(record, field) as u8)),
            len => {
                for record in records {
                    bytes.extend_from_slice(&code(record, field).to_le_bytes()[..len]);
                }
            }
        }
    }

    #[inline(always)]
    fn leaf_records(&self, start: usize, end: usize, depth: usize, bytes: &mut Vec<u8>) {
        if self.lists.is_clustered() {
            self.records_without_tids(start, end, depth, bytes);
        } else {
            self.records_with_tids(start, end, depth, bytes);
        }
    }

    fn records_without_tids(&self, start: usize, end: usize, depth: usize, bytes: &mut Vec<u8>) {
        let len = self.lists.levels[depth].record_len;
        let mut at = bytes.len();
        // A field lies within eight bytes.
        bytes.resize(at + (end - start) * len + 8, 0);
        let fields = self
            .geometry
            .fields
            .iter()
            .zip(&self.lists.fields)
            .skip(depth + 1);
        let fields: Vec<_> = fields.filter(|(from, _)| from.width() > 0).collect();
        for record in &self.records[start..end] {
            for (from, to) in &fields {
                for (byte, bits) in bytes[at + to.byte..]
                    .iter_mut()
                    .zip((code(record, **from) << to.shift).to_le_bytes())
                {
                    *byte |= bits;
                }
            }
            at += len;
        }
        bytes.truncate(at);
    }

    /// Appends the low-order bytes of each full record, including the TID.
    #[inline(always)]
    fn records_with_tids(&self, start: usize, end: usize, depth: usize, bytes: &mut Vec<u8>) {
        let len = self.geometry.levels[depth].record_len;
        let below = match self.quarters {
            Some(quarters) if depth == self.shortcut_dims => quarters.record_bits(),
            _ => self.geometry.record_bits[depth],
        };
        let mask: SortRecord<W> = std::array::from_fn(|word| match below.saturating_sub(word * 64) {
            0 => 0,
            bits => u64::MAX >> (64 - bits.min(64)),
        });
        let mut at = bytes.len();
        bytes.resize(at + (end - start) * len + W * 8, 0);
        for record in &self.records[start..end] {
            // Whole words are stored; the next record overwrites what is too much.
            for word in 0..W {
                bytes[at + word * 8..at + word * 8 + 8]
                    .copy_from_slice(&(record[word] & mask[word]).to_le_bytes());
            }
            at += len;
        }
        bytes.truncate(at);
    }
}

/// A buffer in which one thread writes subtrees.
struct SubtreeWriter<'a, const W: usize> {
    source: SubtreeSource<'a, W>,
    first: Vec<u8>,
    bytes: Vec<u8>,
    entries: Vec<ListEntry>,
    shortcuts: Vec<(usize, PlaceContent)>,
}

impl<const W: usize> SubtreeWriter<'_, W> {
    #[inline(always)]
    fn group_end(&self, start: usize, end: usize, depth: usize) -> usize {
        let after = &self.first[start + 1..end];
        start
            + 1
            + after
                .iter()
                .position(|&dim| usize::from(dim) <= depth)
                .unwrap_or(after.len())
    }

    fn is_leaf(&self, start: usize, end: usize, depth: usize) -> bool {
        if self.source.geometry.is_of_buckets(depth) {
            return false;
        }
        depth == self.source.geometry.dims()
            || end - start <= LEAF_ROWS
            || !self.first[start + 1..end]
                .windows(LEAF_RUN)
                .any(|run| run.iter().all(|&dim| usize::from(dim) > depth))
    }

    /// Writes the list of dimension `depth` of these rows and returns its position.
    fn list(&mut self, start: usize, end: usize, depth: usize) -> u64 {
        let leaf = self.is_leaf(start, end, depth);
        let base = self.entries.len();
        let mut row = if leaf { end } else { start };
        while row < end {
            let next = self.group_end(row, end, depth);
            let at = self.list(row, next, depth + 1);
            self.entries.push(ListEntry {
                value: self.source.code(row, depth),
                at,
            });
            row = next;
        }
        self.source.base(start, &mut self.bytes);
        let at = self.bytes.len() as u64;
        let shortcuts = &mut self.shortcuts;
        self.source
            .shortcuts(start, end, depth, leaf, at, |place, content| {
                shortcuts.push((place, content))
            });
        if leaf {
            self.source.leaf_head(end - start, &mut self.bytes);
            self.source.leaf_values(start, end, depth, &mut self.bytes);
            self.source.leaf_records(start, end, depth, &mut self.bytes);
        } else {
            let children = &self.entries[base..];
            if let (Some(&first), Some(&last)) = (children.first(), children.last()) {
                let list = PendingList {
                    depth,
                    rows: end - start,
                    count: children.len(),
                    first,
                    last,
                    at,
                };
                let geometry = self.source.geometry;
                let Ok(()) = inner::write(geometry, &list, children.iter().copied(), &mut self.bytes, |_| {
                    Ok::<_, Infallible>(())
                });
            }
            self.entries.truncate(base);
        }
        at
    }
}
