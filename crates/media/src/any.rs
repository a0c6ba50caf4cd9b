//! A medium whose kind is known at run time only.

use std::sync::Arc;

use crate::{Device, Dram, Emulated, FileMedium, Mapped, MediaError, Medium, MediumKind, Tracked, Words};

/// Any of the backings, told apart by one predictable branch a call.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyMedium {
    /// Anonymous memory.
    Dram(Dram),
    /// A file, DAX or page cache.
    File(FileMedium),
    /// Memory that records what is done to it.
    Tracked(Arc<Tracked>),
    /// Any of the others, charged to an emulated device.
    Emulated(Box<Emulated<AnyMedium>>),
}

impl AnyMedium {
    /// The file, if it is one, emulated or not.
    pub fn as_file(&self) -> Option<&FileMedium> {
        match self {
            AnyMedium::File(file) => Some(file),
            AnyMedium::Emulated(emulated) => emulated.inner().as_file(),
            _ => None,
        }
    }

    /// The same medium, with what is done to it charged to a device.
    #[must_use]
    pub fn emulated(self, device: Arc<Device>) -> AnyMedium {
        AnyMedium::Emulated(Box::new(Emulated::new(self, device)))
    }
}

impl From<Dram> for AnyMedium {
    fn from(medium: Dram) -> AnyMedium {
        AnyMedium::Dram(medium)
    }
}

impl From<FileMedium> for AnyMedium {
    fn from(medium: FileMedium) -> AnyMedium {
        AnyMedium::File(medium)
    }
}

impl From<Tracked> for AnyMedium {
    fn from(medium: Tracked) -> AnyMedium {
        AnyMedium::Tracked(Arc::new(medium))
    }
}

impl From<Arc<Tracked>> for AnyMedium {
    fn from(medium: Arc<Tracked>) -> AnyMedium {
        AnyMedium::Tracked(medium)
    }
}

/// Calls that are made for every word: a file is reached without a call of its own, all else by one, as what an emulated medium
/// leads back to this type, which no compiler can inline.
macro_rules! forward_hot {
    ($self:ident, $medium:ident => $call:expr) => {{
        if let AnyMedium::File($medium) = $self {
            return $call;
        }
        #[cold]
        #[inline(never)]
        fn apart<T>(call: impl FnOnce() -> T) -> T {
            call()
        }
        apart(|| forward!($self, $medium => $call))
    }};
}

macro_rules! forward {
    ($self:ident, $medium:ident => $call:expr) => {
        match $self {
            AnyMedium::Dram($medium) => $call,
            AnyMedium::File($medium) => $call,
            AnyMedium::Tracked($medium) => $call,
            AnyMedium::Emulated($medium) => $call,
        }
    };
}

impl Medium for AnyMedium {
    fn kind(&self) -> MediumKind {
        forward!(self, medium => medium.kind())
    }

    #[inline]
    fn len(&self) -> u64 {
        forward!(self, medium => medium.len())
    }

    fn grow(&self, new_len: u64) -> Result<(), MediaError> {
        forward!(self, medium => medium.grow(new_len))
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        forward!(self, medium => medium.reserve(offset, len))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        forward!(self, medium => medium.discard(offset, len))
    }

    fn truncate(&self, len: u64) -> Result<u64, MediaError> {
        forward!(self, medium => medium.truncate(len))
    }

    fn can_gather(&self) -> bool {
        forward!(self, medium => medium.can_gather())
    }

    fn gather(&self, offset: u64, len: u64) {
        forward!(self, medium => medium.gather(offset, len));
    }

    fn allocated(&self) -> Result<u64, MediaError> {
        forward!(self, medium => medium.allocated())
    }

    fn refresh(&self) -> Result<u64, MediaError> {
        forward!(self, medium => medium.refresh())
    }

    #[inline]
    fn load(&self, offset: u64, into: &mut [u8]) {
        forward_hot!(self, medium => medium.load(offset, into));
    }

    #[inline]
    fn load_u64(&self, offset: u64) -> u64 {
        forward_hot!(self, medium => medium.load_u64(offset))
    }

    #[allow(unsafe_code, reason = "hands the caller's promise on")]
    #[inline]
    unsafe fn slice(&self, offset: u64, len: usize) -> &[u8] {
        // SAFETY: the caller's promise is the backing's.
        forward!(self, medium => unsafe { medium.slice(offset, len) })
    }

    #[inline]
    fn words(&self, offset: u64, words: usize) -> Option<Words<'_>> {
        forward_hot!(self, medium => medium.words(offset, words))
    }

    #[inline(always)]
    fn mapped(&self, offset: u64, words: usize) -> Option<Mapped<'_>> {
        match self {
            AnyMedium::File(medium) => medium.mapped(offset, words),
            _ => None,
        }
    }

    #[inline]
    fn prefetch(&self, offset: u64) {
        forward_hot!(self, medium => medium.prefetch(offset));
    }

    #[inline]
    fn prefetch_lines(&self, offset: u64, lines: u64) {
        forward_hot!(self, medium => medium.prefetch_lines(offset, lines));
    }

    #[inline]
    fn store(&self, offset: u64, bytes: &[u8]) {
        forward!(self, medium => medium.store(offset, bytes));
    }

    #[inline]
    fn store_u64(&self, offset: u64, value: u64) {
        forward_hot!(self, medium => medium.store_u64(offset, value));
    }

    #[inline]
    fn flush(&self, offset: u64, len: u64) {
        forward_hot!(self, medium => medium.flush(offset, len));
    }

    #[inline]
    fn fence(&self) -> Result<(), MediaError> {
        forward_hot!(self, medium => medium.fence())
    }

    fn sync(&self) -> Result<(), MediaError> {
        forward!(self, medium => medium.sync())
    }

    fn fence_is_durable(&self) -> bool {
        forward!(self, medium => medium.fence_is_durable())
    }

    fn device(&self) -> Option<(Arc<Device>, u64)> {
        forward!(self, medium => medium.device())
    }
}
