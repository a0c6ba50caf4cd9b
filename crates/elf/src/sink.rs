//! Receivers of selected rows.

use crate::{ElfError, Result, Tid};
use std::ops::Range;

/// Rows buffered before a visitor sees them.
const BUFFER: usize = 8192;

/// Receives the rows of a selection.
pub(crate) trait MatchSink {
    /// True if only the number of rows matters.
    const COUNTS: bool;

    /// Adds `count` matching rows (counting sinks only).
    fn add(&mut self, count: u64);

    /// Returns the buffer to which TIDs may be appended (all other sinks), followed by a call of
    /// [`MatchSink::appended`].
    fn buffer(&mut self) -> &mut Vec<Tid>;

    /// Notifies the sink that TIDs have been appended to its buffer.
    fn appended(&mut self) -> Result<()>;

    /// Adds the `count` rows from `first` on (all sinks; clustered indexes call this method alone).
    fn rows(&mut self, first: u64, count: u64) -> Result<()>;
}

/// Counts rows.
#[derive(Debug, Default)]
pub(crate) struct CountSink {
    pub(crate) rows: u64,
    unused: Vec<Tid>,
}

impl MatchSink for CountSink {
    const COUNTS: bool = true;

    #[inline(always)]
    fn add(&mut self, count: u64) {
        self.rows = self.rows.saturating_add(count);
    }

    fn buffer(&mut self) -> &mut Vec<Tid> {
        &mut self.unused
    }

    fn appended(&mut self) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn rows(&mut self, _first: u64, count: u64) -> Result<()> {
        self.add(count);
        Ok(())
    }
}

/// Collects ranges of rows.
#[derive(Debug)]
pub(crate) struct RangeSink {
    ranges: Vec<Range<Tid>>,
    guard: TidGuard,
    unused: Vec<Tid>,
}

impl RangeSink {
    pub(crate) fn new(rows: u64) -> Self {
        Self {
            ranges: vec![],
            guard: TidGuard { rows, given: 0 },
            unused: vec![],
        }
    }

    /// Returns the ranges in ascending order, with adjacent ones merged.
    pub(crate) fn finish(mut self) -> Vec<Range<Tid>> {
        // The stable sort is fast on ranges that ascend already.
        self.ranges.sort_by_key(|range| range.start);
        self.ranges.dedup_by(|next, range| {
            let touches = next.start <= range.end;
            if touches {
                range.end = range.end.max(next.end);
            }
            touches
        });
        self.ranges
    }
}

impl MatchSink for RangeSink {
    const COUNTS: bool = false;

    fn add(&mut self, _count: u64) {}

    fn buffer(&mut self) -> &mut Vec<Tid> {
        &mut self.unused
    }

    fn appended(&mut self) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn rows(&mut self, first: u64, count: u64) -> Result<()> {
        let rows = self.guard.pass_rows(first, count)?;
        match self.ranges.last_mut() {
            Some(last) if last.end == rows.start => last.end = rows.end,
            _ if rows.is_empty() => {}
            _ => self.ranges.push(rows),
        }
        Ok(())
    }
}

/// Validation of the TIDs found: a sound index has at most `rows` TIDs, all below `rows`. Those of a damaged
/// one must not reach the caller, who may index arrays with them.
#[derive(Debug)]
struct TidGuard {
    rows: u64,
    given: u64,
}

impl TidGuard {
    fn pass(&mut self, tids: &[Tid]) -> Result<()> {
        self.given += tids.len() as u64;
        let highest = tids.iter().fold(0, |highest, &tid| highest.max(tid));
        if self.given > self.rows || u64::from(highest) >= self.rows.max(1) {
            return Err(ElfError::damaged(0, "a list holds a TID that no row has"));
        }
        Ok(())
    }

    /// Validates consecutive rows like [`pass`](Self::pass), and returns them as a range.
    #[inline(always)]
    fn pass_rows(&mut self, first: u64, count: u64) -> Result<Range<Tid>> {
        self.given += count;
        let end = first + count;
        if self.given > self.rows || end > self.rows {
            return Err(ElfError::damaged(0, "a list holds a row that is not there"));
        }
        Ok(first as Tid..end as Tid)
    }
}

/// Appends TIDs to a vector.
#[derive(Debug)]
pub(crate) struct CollectSink<'a> {
    tids: &'a mut Vec<Tid>,
    checked: usize,
    guard: TidGuard,
}

impl<'a> CollectSink<'a> {
    pub(crate) fn new(tids: &'a mut Vec<Tid>, rows: u64) -> Self {
        Self {
            checked: tids.len(),
            tids,
            guard: TidGuard { rows, given: 0 },
        }
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.guard.pass(&self.tids[self.checked..])
    }
}

impl MatchSink for CollectSink<'_> {
    const COUNTS: bool = false;

    fn add(&mut self, _count: u64) {}

    #[inline(always)]
    fn buffer(&mut self) -> &mut Vec<Tid> {
        self.tids
    }

    #[inline(always)]
    fn appended(&mut self) -> Result<()> {
        if self.tids.len() - self.checked > BUFFER {
            let unchecked = &self.tids[self.checked..];
            self.guard.pass(unchecked)?;
            self.checked = self.tids.len();
        }
        Ok(())
    }

    #[inline(always)]
    fn rows(&mut self, first: u64, count: u64) -> Result<()> {
        self.tids.extend(self.guard.pass_rows(first, count)?);
        self.checked = self.tids.len();
        Ok(())
    }
}

/// Passes TIDs to a visitor, thousands at a time.
#[derive(Debug)]
pub(crate) struct VisitSink<F> {
    buffer: Vec<Tid>,
    guard: TidGuard,
    visit: F,
}

impl<F: FnMut(&[Tid])> VisitSink<F> {
    pub(crate) fn new(visit: F, rows: u64) -> Self {
        Self {
            buffer: vec![],
            guard: TidGuard { rows, given: 0 },
            visit,
        }
    }

    /// Visits the rest of the buffer. That of a clustered index has been validated already.
    pub(crate) fn finish(mut self, clustered: bool) -> Result<()> {
        if clustered {
            self.hand_over();
            Ok(())
        } else {
            self.pass()
        }
    }

    fn pass(&mut self) -> Result<()> {
        self.guard.pass(&self.buffer)?;
        self.hand_over();
        Ok(())
    }

    fn hand_over(&mut self) {
        (self.visit)(&self.buffer);
        self.buffer.clear();
    }
}

impl<F: FnMut(&[Tid])> MatchSink for VisitSink<F> {
    const COUNTS: bool = false;

    fn add(&mut self, _count: u64) {}

    #[inline(always)]
    fn buffer(&mut self) -> &mut Vec<Tid> {
        &mut self.buffer
    }

    #[inline(always)]
    fn appended(&mut self) -> Result<()> {
        if self.buffer.len() > BUFFER {
            self.pass()
        } else {
            Ok(())
        }
    }

    #[inline(always)]
    fn rows(&mut self, first: u64, count: u64) -> Result<()> {
        let mut rows = self.guard.pass_rows(first, count)?;
        while !rows.is_empty() {
            self.buffer.extend(rows.by_ref().take(BUFFER));
            if self.buffer.len() > BUFFER {
                self.hand_over();
            }
        }
        Ok(())
    }
}
