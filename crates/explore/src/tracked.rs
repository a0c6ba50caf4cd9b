//! A medium that records every store, flush and fence, for crash tests.
//!
//! Loads and stores work on plain memory, as on any medium. While recording, each call is also appended to a
//! trace, from which the [`Explorer`](crate::Explorer) derives what a crash may leave.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use halocline_media::{Dram, MediaError, Medium, MediumAccess, MediumBackend, MediumKind, forward_medium};

use crate::trace::{Trace, TraceEvent, lines_of};

/// Memory that records its calls. Behaves like DAX: a fence is durable.
#[derive(Debug)]
pub struct Tracked {
    memory: Dram,
    notes: Mutex<Recording>,
    /// The length beyond which it does not grow.
    limit: AtomicU64,
}

/// The active recording.
#[derive(Debug, Default)]
enum Recording {
    #[default]
    Nothing,
    Trace(Trace),
    /// Lines that are stored to, possibly with duplicates.
    Lines(Vec<u64>),
}

impl Tracked {
    /// Creates a medium of `len` zeroed bytes, rounded up to [`PAGE`](halocline_media::PAGE), that is not recording.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`].
    pub fn new(len: u64) -> Result<Tracked, MediaError> {
        Ok(Tracked {
            memory: Dram::new(len)?,
            notes: Mutex::default(),
            limit: AtomicU64::new(u64::MAX),
        })
    }

    /// Creates a medium that holds `image`, all of it durable, and is not recording.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`].
    pub fn from_image(image: &[u8]) -> Result<Tracked, MediaError> {
        let tracked = Tracked::new(image.len() as u64)?;
        tracked.memory.store(0, image);
        Ok(tracked)
    }

    /// Lets it grow to `len` bytes at most, as on a disk of that size.
    pub fn limit(&self, len: u64) {
        self.limit.store(len, Ordering::Relaxed);
    }

    /// Returns a copy of the visible contents.
    pub fn image(&self) -> Vec<u8> {
        let mut image = vec![0; self.len() as usize];
        self.memory.load(0, &mut image);
        image
    }

    /// Records that the workload begins an operation with a number of its choice. Until it is acknowledged
    /// (or the next one begins) a crash may leave it done or undone.
    pub fn begin(&self, operation: u64) {
        self.note(&mut self.lock(), || TraceEvent::Begin { operation });
    }

    /// Records that the workload has acknowledged the operation as durable: no crash from now on may undo it.
    pub fn acknowledge(&self, operation: u64) {
        self.note(&mut self.lock(), || TraceEvent::Acknowledge { operation });
    }

    /// Starts recording; the present contents count as durable.
    pub(crate) fn start_recording(&self) {
        let mut notes = self.lock();
        *notes = Recording::Trace(Trace {
            start: self.image(),
            events: Vec::new(),
        });
    }

    /// Stops recording and returns the trace.
    pub(crate) fn stop_recording(&self) -> Trace {
        match std::mem::take(&mut *self.lock()) {
            Recording::Trace(trace) => trace,
            Recording::Nothing | Recording::Lines(_) => Trace::default(),
        }
    }

    /// Starts to record only the lines that are stored to.
    pub(crate) fn start_noting_lines(&self) {
        *self.lock() = Recording::Lines(Vec::new());
    }

    /// Stops recording lines and returns them, possibly with duplicates.
    pub(crate) fn stop_noting_lines(&self) -> Vec<u64> {
        match std::mem::take(&mut *self.lock()) {
            Recording::Lines(lines) => lines,
            Recording::Nothing | Recording::Trace(_) => Vec::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, notes: &mut Recording, event: impl FnOnce() -> TraceEvent) {
        if let Recording::Trace(trace) = notes {
            trace.events.push(event());
        }
    }

    fn note_store(&self, notes: &mut Recording, offset: u64, bytes: &[u8]) {
        match notes {
            Recording::Nothing => {}
            Recording::Trace(trace) => trace.events.push(TraceEvent::Store {
                offset,
                bytes: bytes.into(),
            }),
            Recording::Lines(noted) => {
                let last = noted.last().copied();
                let lines = lines_of(offset, bytes.len() as u64);
                noted.extend(lines.skip_while(|line| last == Some(*line)));
            }
        }
    }
}

impl MediumAccess for Tracked {
    forward_medium!(memory: len, load, load_u64, slice, prefetch);

    fn store(&self, offset: u64, bytes: &[u8]) {
        let mut notes = self.lock();
        self.memory.store(offset, bytes);
        self.note_store(&mut notes, offset, bytes);
    }

    fn store_u64(&self, offset: u64, value: u64) {
        let mut notes = self.lock();
        self.memory.store_u64(offset, value);
        self.note_store(&mut notes, offset, &value.to_le_bytes());
    }

    fn flush(&self, offset: u64, len: u64) {
        self.memory.flush(offset, len);
        self.note(&mut self.lock(), || TraceEvent::Flush { offset, len });
    }

    fn fence(&self) -> Result<(), MediaError> {
        self.note(&mut self.lock(), || TraceEvent::Fence);
        Ok(())
    }
}

impl MediumBackend for Tracked {
    fn kind(&self) -> MediumKind {
        MediumKind::Tracked
    }

    fn grow(&self, new_len: u64) -> Result<(), MediaError> {
        if new_len > self.limit.load(Ordering::Relaxed) {
            return Err(MediaError::DiskFull {
                path: PathBuf::from("tracked memory"),
                wanted: new_len.saturating_sub(self.len()),
            });
        }
        let mut notes = self.lock();
        let old_len = self.len();
        self.memory.grow(new_len)?;
        let len = self.len();
        if len > old_len {
            self.note(&mut notes, || TraceEvent::Resize { len });
        }
        Ok(())
    }

    /// Records the discard as a store of zeros, any part of which a crash may leave.
    fn discard(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        self.store(offset, &vec![0; len as usize]);
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<u64, MediaError> {
        let mut notes = self.lock();
        let before = self.len();
        let len = self.memory.truncate(len)?;
        if len < before {
            self.note(&mut notes, || TraceEvent::Resize { len });
        }
        Ok(len)
    }

    fn refresh(&self) -> Result<u64, MediaError> {
        Ok(self.len())
    }

    fn sync(&self) -> Result<(), MediaError> {
        self.note(&mut self.lock(), || TraceEvent::Sync);
        Ok(())
    }

    fn fence_is_durable(&self) -> bool {
        true
    }
}

impl From<Tracked> for Medium {
    fn from(memory: Tracked) -> Medium {
        Medium::over(Arc::new(memory))
    }
}
