//! Memory mapping and durability.
//!
//! A [`Medium`] is a growable range of bytes in one kind of memory: anonymous DRAM ([`Dram`]), or a file on
//! a DAX file system or in the page cache ([`FileMedium`]). A crate above adds a kind by a [`MediumBackend`]:
//! `explore` one that records every store for crash tests, `emulator` one that is slower. This is the only
//! crate of the workspace that maps memory or issues a flush; crates above it work with offsets.
//!
//! A [`Profile`] holds the measured performance of a medium. The crate `calibrate` measures it.
//!
//! # Rules for every medium
//! - A mapping never moves: the address space is reserved up front, and growth maps further bytes after it.
//! - An 8-byte store to an aligned offset is atomic, also across a crash. Stores to one line ([`LINE`] bytes)
//!   arrive in order; lines arrive in any order, flushed or not, until a fence.
//! - A flush covers all lines that the range overlaps, regardless of its alignment.
//! - The first I/O error latches: every later fence, growth and sync fails with [`MediaError::Poisoned`].
//! - An offset out of range panics; it never accesses other memory.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", target_endian = "little")))]
compile_error!(
    "halocline-media maps files of many GiB and keeps little-endian words in them: 64-bit little-endian Linux only"
);

mod ahead;
mod annexed;
mod arena;
mod backend;
mod blocks;
mod boot;
mod bus_error;
mod bytes;
mod copy;
mod counting;
mod dirty;
mod dram;
mod error;
mod error_latch;
mod file;
mod file_map;
mod flush;
mod forward;
pub mod huge;
mod kind;
mod mapped;
mod medium;
mod observer;
mod profile;
mod ram;
mod region;
mod residency;
#[cfg(test)]
mod testing;
mod trim;
mod words;

pub use ahead::{read_ahead, read_ranges_ahead};
pub use annexed::Annexed;
pub use arena::HugeArena;
pub use backend::{MediumAccess, MediumBackend};
pub use boot::boot_id;
pub use bus_error::exit_on_bus_error;
pub use bytes::{BlockDamage, Bytes, VERIFIED_BLOCK, prefetch, prefetch_value};
pub use counting::{Counting, FlushCounts};
pub use dram::Dram;
pub use error::MediaError;
pub use file::{FileMedium, FileOptions};
pub use file_map::FileMap;
pub use flush::{FlushInstruction, flush_instruction};
pub use huge::HugeVec;
pub use kind::{HOLE, LINE, MediumKind, PAGE};
pub use mapped::Mapped;
pub use medium::Medium;
pub use observer::AccessObserver;
pub use profile::{
    AccessFigures, ProbeFigures, Profile, ProfileError, ProfileInconsistency, ProfiledMedium, Rate,
    StrideFigures,
};
pub use ram::{address_space_left, ram_bytes};
pub use residency::{Residency, sample_residency};
pub use trim::{keep_little_heap, map_allocations_from, trim_heap};
pub use words::Words;
