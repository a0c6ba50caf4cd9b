//! Sorted runs of pairs in a temporary file: [`PairRuns`].
//!
//! All runs are in one file. When there are too many to be merged at once, they are merged into one, in a
//! file of its own.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::pair_merge::{PairMerge, PairSource};
use crate::pair_window::{NumberedPair, PairWindow};

/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes of a run that are read at once, at least and at most.
const MIN_READ: usize = 32 << 10;
const MAX_READ: usize = 1 << 20;

/// Creates the temporary files of a load. A file that has no name is gone with the process.
pub type SpillFactory = Arc<dyn Fn() -> io::Result<File> + Send + Sync>;

/// Sorted runs.
pub(crate) struct PairRuns {
    spill: SpillFactory,
    file: Option<Arc<File>>,
    /// Bytes written to the file.
    end: u64,
    /// The bytes of each run.
    runs: Vec<(u64, u64)>,
    /// Bytes of DRAM for reading runs.
    memory: usize,
}

impl PairRuns {
    pub(crate) fn new(spill: SpillFactory, memory: usize) -> Self {
        Self {
            spill,
            file: None,
            end: 0,
            runs: Vec::new(),
            memory,
        }
    }

    /// Returns the number of runs that can be merged at once.
    fn most(&self) -> usize {
        (self.memory / MIN_READ).max(2)
    }

    /// Writes the pairs of a sorted window from a position on as a run.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn spill(&mut self, window: &PairWindow, from: usize) -> io::Result<()> {
        if self.runs.len() >= self.most() {
            self.merge_all()?;
        }
        let mut run = self.begin()?;
        for at in from..window.len() {
            run.push(&window.get(at))?;
        }
        self.end_run(run)
    }

    fn begin(&mut self) -> io::Result<NewRun> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::clone(self.file.insert(Arc::new((self.spill)()?))),
        };
        Ok(NewRun {
            file,
            start: self.end,
            end: self.end,
            bytes: Vec::with_capacity(WRITE_BYTES),
        })
    }

    fn end_run(&mut self, mut run: NewRun) -> io::Result<()> {
        run.write()?;
        self.end = run.end;
        self.runs.push((run.start, run.end));
        Ok(())
    }

    /// Merges all runs into one.
    fn merge_all(&mut self) -> io::Result<()> {
        let mut merge = PairMerge::new(self.take_sources());
        let mut run = self.begin()?;
        while let Some(pair) = merge.next()? {
            run.push(&pair)?;
        }
        self.end_run(run)
    }

    /// Returns the runs as sources of a merge. There are none afterwards.
    pub(crate) fn take_sources(&mut self) -> Vec<PairSource<'static>> {
        let runs = std::mem::take(&mut self.runs);
        let Some(file) = self.file.take() else {
            return Vec::new();
        };
        self.end = 0;
        let read = (self.memory / runs.len().max(1)).clamp(MIN_READ, MAX_READ);
        let sources = runs.into_iter().map(|(at, end)| {
            PairSource::Run(RunReader {
                file: Arc::clone(&file),
                at,
                end,
                bytes: Vec::new(),
                from: 0,
                read,
            })
        });
        sources.collect()
    }
}

/// A run that is being written.
struct NewRun {
    file: Arc<File>,
    start: u64,
    /// The end of what was written.
    end: u64,
    bytes: Vec<u8>,
}

impl NewRun {
    fn push(&mut self, pair: &NumberedPair<'_>) -> io::Result<()> {
        if !self.bytes.is_empty() && self.bytes.len() + pair.encoded_len() > WRITE_BYTES {
            self.write()?;
        }
        pair.encode(&mut self.bytes);
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.bytes, self.end)?;
        self.end += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }
}

/// Reads the pairs of a run.
pub(crate) struct RunReader {
    file: Arc<File>,
    /// The rest of the file.
    at: u64,
    end: u64,
    bytes: Vec<u8>,
    /// The place of the present pair.
    from: usize,
    /// Bytes that are read at once.
    read: usize,
}

impl RunReader {
    /// Returns the present pair; `None` at the end.
    pub(crate) fn get(&self) -> Option<NumberedPair<'_>> {
        NumberedPair::decode(&self.bytes[self.from..])
    }

    /// Goes to the next pair, or to the first one.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn advance(&mut self) -> io::Result<()> {
        self.from += self.get().map_or(0, |pair| pair.encoded_len());
        let mut read = self.read;
        while self.get().is_none() && self.at < self.end {
            self.bytes.drain(..self.from);
            self.from = 0;
            let start = self.bytes.len();
            let len = (read as u64).min(self.end - self.at) as usize;
            self.bytes.resize(start + len, 0);
            self.file.read_exact_at(&mut self.bytes[start..], self.at)?;
            self.at += len as u64;
            // A pair that is longer takes several reads.
            read = MAX_READ;
        }
        Ok(())
    }
}
