//! The CPU instructions of durability: write a line back, wait until it has left the CPU, prefetch a line.
//!
//! The instruction is chosen at run time: `clwb` keeps the line in the cache, `clflushopt` drops it, and
//! `clflush` drops it and is slow because executions are serialised. Without any of them
//! ([`FlushInstruction::None`]) a file is never treated as DAX.
#![allow(unsafe_code, reason = "flush, fence and prefetch instructions")]

use std::fmt;
use std::sync::OnceLock;

use crate::LINE;

/// An instruction that writes a line back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushInstruction {
    /// `clwb`: writes back and keeps the line cached.
    Clwb,
    /// `clflushopt`: writes back and drops the line.
    Clflushopt,
    /// `clflush`: writes back and drops the line, serialised.
    Clflush,
    /// No flush instruction on this CPU or in this build.
    None,
}

impl fmt::Display for FlushInstruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FlushInstruction::Clwb => "clwb",
            FlushInstruction::Clflushopt => "clflushopt",
            FlushInstruction::Clflush => "clflush",
            FlushInstruction::None => "none",
        })
    }
}

/// Returns the best flush instruction of this CPU.
pub fn flush_instruction() -> FlushInstruction {
    static CHOSEN: OnceLock<FlushInstruction> = OnceLock::new();
    *CHOSEN.get_or_init(imp::detect)
}

/// Returns the number of lines that a range overlaps.
#[inline]
pub(crate) fn lines(offset: u64, len: u64) -> u64 {
    if len == 0 {
        return 0;
    }
    (offset + len).div_ceil(LINE) - offset / LINE
}

/// Flushes `count` lines from `start` on.
///
/// # Safety
/// The lines are mapped, and `start` is at the start of one.
pub(crate) unsafe fn flush_lines(start: *const u8, count: u64) {
    let instruction = flush_instruction();
    for line in 0..count {
        let line = start.wrapping_add((line * LINE) as usize);
        // SAFETY: it is this CPU's instruction, and the caller vouches for the lines.
        unsafe { flush_by(instruction, line) };
    }
}

/// Flushes one line.
///
/// # Safety
/// The instruction is that of [`flush_instruction`], or none, and the line is mapped.
#[inline(always)]
pub(crate) unsafe fn flush_by(instruction: FlushInstruction, line: *const u8) {
    match instruction {
        // SAFETY: the CPU has the instruction, and the caller vouches for the line.
        FlushInstruction::Clwb => unsafe { imp::clwb(line) },
        FlushInstruction::None => {}
        // SAFETY: as the caller's.
        _ => unsafe { flush_and_drop(instruction, line) },
    }
}

/// Flushes one line by an instruction that drops it. Separate from [`flush_by`], so that the usual
/// instruction is selected by a comparison instead of a jump table.
///
/// # Safety
/// As for [`flush_by`].
#[cold]
unsafe fn flush_and_drop(instruction: FlushInstruction, line: *const u8) {
    if instruction == FlushInstruction::Clflushopt {
        // SAFETY: the CPU has the instruction, and the caller vouches for the line.
        unsafe { imp::clflushopt(line) }
    } else {
        // SAFETY: as above.
        unsafe { imp::clflush(line) }
    }
}

pub(crate) use imp::{prefetch, store_fence};

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count, _MM_HINT_T0, _mm_prefetch};

    use super::FlushInstruction;

    pub(super) fn detect() -> FlushInstruction {
        const CLFLUSHOPT: u32 = 1 << 23;
        const CLWB: u32 = 1 << 24;
        let extended = if __cpuid(0).eax >= 7 {
            __cpuid_count(7, 0).ebx
        } else {
            0
        };
        if extended & CLWB != 0 {
            FlushInstruction::Clwb
        } else if extended & CLFLUSHOPT != 0 {
            FlushInstruction::Clflushopt
        } else {
            FlushInstruction::Clflush
        }
    }

    /// Writes a cache line back with `clwb`.
    ///
    /// # Safety
    /// The CPU has `clwb`, and the line is mapped.
    #[inline]
    pub(super) unsafe fn clwb(line: *const u8) {
        // SAFETY: writes a mapped line back; memory keeps its contents. Not `nomem`: earlier stores must stay
        // before it.
        unsafe { asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)) };
    }

    /// Flushes a cache line with `clflushopt`.
    ///
    /// # Safety
    /// The CPU has `clflushopt`, and the line is mapped.
    #[inline]
    pub(super) unsafe fn clflushopt(line: *const u8) {
        // SAFETY: as for clwb.
        unsafe { asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)) };
    }

    /// Flushes a cache line with `clflush`.
    ///
    /// # Safety
    /// The line is mapped.
    #[inline]
    pub(super) unsafe fn clflush(line: *const u8) {
        // SAFETY: as for clwb.
        unsafe { asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags)) };
    }

    /// Waits for flushes and streaming stores of this thread.
    #[inline]
    pub(crate) fn store_fence() {
        // SAFETY: orders stores, touches nothing. Not `nomem`: no access may be moved across it.
        unsafe { asm!("sfence", options(nostack, preserves_flags)) };
    }

    /// Prefetches the line at `address`, which may be invalid.
    #[inline]
    pub(crate) fn prefetch(address: *const u8) {
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod imp {
    use std::sync::atomic::{Ordering, fence};

    use super::FlushInstruction;

    pub(super) fn detect() -> FlushInstruction {
        FlushInstruction::None
    }

    /// Does nothing; never called because `detect` does not return this instruction.
    pub(super) unsafe fn clwb(_line: *const u8) {}

    /// Does nothing; never called because `detect` does not return this instruction.
    pub(super) unsafe fn clflushopt(_line: *const u8) {}

    /// Does nothing; never called because `detect` does not return this instruction.
    pub(super) unsafe fn clflush(_line: *const u8) {}

    /// Orders stores.
    #[inline]
    pub(crate) fn store_fence() {
        fence(Ordering::SeqCst);
    }

    /// Does nothing.
    #[inline]
    pub(crate) fn prefetch(_address: *const u8) {}
}
