//! A medium that remembers every store, flush and fence, for crash tests.
//!
//! Loads and stores work on plain memory, as on any medium. While it records, each call is also noted in
//! order; the [`explore::Explorer`](crate::explore::Explorer) derives from the notes what a crash may leave.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::trace::{Event, Trace};
use crate::{Dram, MediaError, Medium, MediumKind};

/// Memory that records what is done to it. It behaves as DAX: a fence is durable.
#[derive(Debug)]
pub struct Tracked {
    memory: Dram,
    trace: Mutex<Option<Trace>>,
}

impl Tracked {
    /// `len` zeroed bytes, rounded up to [`PAGE`](crate::PAGE), not recording.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`].
    pub fn new(len: u64) -> Result<Tracked, MediaError> {
        Ok(Tracked {
            memory: Dram::new(len)?,
            trace: Mutex::new(None),
        })
    }

    /// A medium that holds `image`, all of it durable; not recording.
    ///
    /// # Errors
    /// [`MediaError::OutOfMemory`].
    pub fn from_image(image: &[u8]) -> Result<Tracked, MediaError> {
        let tracked = Tracked::new(image.len() as u64)?;
        tracked.memory.store(0, image);
        Ok(tracked)
    }

    /// A copy of the visible contents.
    pub fn image(&self) -> Vec<u8> {
        let mut image = vec![0; self.len() as usize];
        self.memory.load(0, &mut image);
        image
    }

    /// Notes that the workload begins an operation, a number of its choice: until it is acknowledged (or the
    /// next one begins) a crash may leave it done or undone.
    pub fn begin(&self, operation: u64) {
        self.note(&mut self.lock(), || Event::Begin { operation });
    }

    /// Notes that the workload has told its caller that the operation is durable: no crash from now on may
    /// undo it.
    pub fn acknowledge(&self, operation: u64) {
        self.note(&mut self.lock(), || Event::Acknowledge { operation });
    }

    /// Starts recording; the present contents count as durable.
    pub(crate) fn start_recording(&self) {
        let mut trace = self.lock();
        *trace = Some(Trace {
            start: self.image(),
            events: Vec::new(),
        });
    }

    /// As [`start_recording`](Tracked::start_recording), for one who knows the present contents.
    pub(crate) fn start_recording_events(&self) {
        *self.lock() = Some(Trace::default());
    }

    /// Stops recording and hands out what was recorded.
    pub(crate) fn stop_recording(&self) -> Trace {
        self.lock().take().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Trace>> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, trace: &mut Option<Trace>, event: impl FnOnce() -> Event) {
        if let Some(trace) = trace {
            trace.events.push(event());
        }
    }
}

impl Medium for Tracked {
    fn kind(&self) -> MediumKind {
        MediumKind::Tracked
    }

    fn len(&self) -> u64 {
        self.memory.len()
    }

    fn grow(&self, new_len: u64) -> Result<(), MediaError> {
        let mut trace = self.lock();
        let old_len = self.len();
        self.memory.grow(new_len)?;
        let len = self.len();
        if len > old_len {
            self.note(&mut trace, || Event::Grow { len });
        }
        Ok(())
    }

    /// A store of zeros, of which a crash may leave any part.
    fn discard(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        self.store(offset, &vec![0; len as usize]);
        Ok(())
    }

    fn refresh(&self) -> Result<u64, MediaError> {
        Ok(self.len())
    }

    fn load(&self, offset: u64, into: &mut [u8]) {
        self.memory.load(offset, into);
    }

    fn load_u64(&self, offset: u64) -> u64 {
        self.memory.load_u64(offset)
    }

    #[allow(unsafe_code, reason = "hands the caller's promise on")]
    unsafe fn slice(&self, offset: u64, len: usize) -> &[u8] {
        // SAFETY: the caller's promise is the memory's.
        unsafe { self.memory.slice(offset, len) }
    }

    fn prefetch(&self, offset: u64) {
        self.memory.prefetch(offset);
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        let mut trace = self.lock();
        self.memory.store(offset, bytes);
        self.note(&mut trace, || Event::Store {
            offset,
            bytes: bytes.into(),
        });
    }

    fn store_u64(&self, offset: u64, value: u64) {
        let mut trace = self.lock();
        self.memory.store_u64(offset, value);
        self.note(&mut trace, || Event::Store {
            offset,
            bytes: value.to_le_bytes().into(),
        });
    }

    fn flush(&self, offset: u64, len: u64) {
        self.memory.flush(offset, len);
        self.note(&mut self.lock(), || Event::Flush { offset, len });
    }

    fn fence(&self) -> Result<(), MediaError> {
        self.note(&mut self.lock(), || Event::Fence);
        Ok(())
    }

    fn sync(&self) -> Result<(), MediaError> {
        self.note(&mut self.lock(), || Event::Sync);
        Ok(())
    }

    fn fence_is_durable(&self) -> bool {
        true
    }
}
