//! Where selected rows go.

use crate::{ElfError, Result, Tid};

/// Rows buffered before a visitor sees them.
const BUFFER: usize = 8192;

/// Receives the rows of a selection.
pub(crate) trait Sink {
    /// Only the number of rows is wanted.
    const COUNTS: bool;

    /// `count` more rows match (counting sinks only).
    fn add(&mut self, count: u64);

    /// TIDs may be appended here (all other sinks), followed by a call of [`Sink::appended`].
    fn buffer(&mut self) -> &mut Vec<Tid>;

    /// TIDs were appended.
    fn appended(&mut self) -> Result<()>;
}

/// Counts rows.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) rows: u64,
    unused: Vec<Tid>,
}

impl Sink for Count {
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
}

/// A sound index gives at most `rows` TIDs, all below `rows`; a damaged one may give others, which must not get out.
#[derive(Debug)]
struct Guard {
    rows: u64,
    given: u64,
}

impl Guard {
    fn pass(&mut self, tids: &[Tid]) -> Result<()> {
        self.given += tids.len() as u64;
        let highest = tids.iter().fold(0, |highest, &tid| highest.max(tid));
        if self.given > self.rows || u64::from(highest) >= self.rows.max(1) {
            return Err(ElfError::damaged(0, "a list holds a TID that no row has"));
        }
        Ok(())
    }
}

/// Appends TIDs to a vector.
#[derive(Debug)]
pub(crate) struct Collect<'a> {
    tids: &'a mut Vec<Tid>,
    checked: usize,
    guard: Guard,
}

impl<'a> Collect<'a> {
    pub(crate) fn new(tids: &'a mut Vec<Tid>, rows: u64) -> Self {
        Self {
            checked: tids.len(),
            tids,
            guard: Guard { rows, given: 0 },
        }
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.guard.pass(&self.tids[self.checked..])
    }
}

impl Sink for Collect<'_> {
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
}

/// Hands TIDs to a visitor, thousands at a time.
#[derive(Debug)]
pub(crate) struct Visit<F> {
    buffer: Vec<Tid>,
    guard: Guard,
    visit: F,
}

impl<F: FnMut(&[Tid])> Visit<F> {
    pub(crate) fn new(visit: F, rows: u64) -> Self {
        Self {
            buffer: vec![],
            guard: Guard { rows, given: 0 },
            visit,
        }
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.pass()
    }

    fn pass(&mut self) -> Result<()> {
        self.guard.pass(&self.buffer)?;
        (self.visit)(&self.buffer);
        self.buffer.clear();
        Ok(())
    }
}

impl<F: FnMut(&[Tid])> Sink for Visit<F> {
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
}
