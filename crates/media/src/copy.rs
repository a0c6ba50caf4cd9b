//! Copies between private memory and bytes that other threads or processes may access at the same time.
//!
//! Shared bytes are only ever accessed as aligned atomic words, so a race is never undefined: a partial word
//! is loaded whole and cut, or replaced by compare-and-swap. Long copies move whole lines by vector
//! instructions, for which the argument is with their assembly: it is not bound by the rules for plain
//! accesses and does what a run of relaxed atomic accesses does.
//!
//! Stores of 16 KiB or more bypass the caches (streaming stores). Within one line, the words of a shorter
//! store arrive in ascending order.
#![allow(unsafe_code, reason = "copies to and from addresses the region has checked")]

use std::sync::atomic::{AtomicU64, Ordering};

const WORD: usize = 8;

/// Size in bytes from which a load proceeds line by line.
const LINES_FROM: usize = 2 << 10;

/// Size in bytes from which a store bypasses the caches. That doubles the speed if the bytes are not cached
/// and halves it if they are, which is rare for long stores to a medium.
const STREAM_FROM: usize = 16 << 10;

/// Copies `into.len()` bytes from `from`.
///
/// # Safety
/// All words that overlap the range are mapped and readable, and are only changed atomically.
#[inline]
pub(crate) unsafe fn load(from: *const u8, into: &mut [u8]) {
    if into.len() >= LINES_FROM && bulk::AVAILABLE {
        // SAFETY: the caller's promise is the callee's.
        return unsafe { bulk::load(from, into) };
    }
    // SAFETY: as above.
    unsafe { load_words(from, into) }
}

#[inline]
unsafe fn load_words(from: *const u8, into: &mut [u8]) {
    let skip = from.addr() % WORD;
    let mut word = from.wrapping_sub(skip).cast::<u64>();
    let (head, body) = into.split_at_mut(if skip == 0 {
        0
    } else {
        (WORD - skip).min(into.len())
    });
    if !head.is_empty() {
        // SAFETY: this word overlaps the range.
        let value = unsafe { load_word(word) };
        head.copy_from_slice(&value[skip..skip + head.len()]);
        word = word.wrapping_add(1);
    }
    let mut chunks = body.chunks_exact_mut(WORD);
    for chunk in &mut chunks {
        // SAFETY: this word is inside the range.
        chunk.copy_from_slice(&unsafe { load_word(word) });
        word = word.wrapping_add(1);
    }
    let tail = chunks.into_remainder();
    if !tail.is_empty() {
        // SAFETY: this word overlaps the range.
        let value = unsafe { load_word(word) };
        tail.copy_from_slice(&value[..tail.len()]);
    }
}

/// Copies `bytes` to `to`.
///
/// # Safety
/// All words that overlap the range are mapped and writable, and are only accessed atomically.
#[inline]
pub(crate) unsafe fn store(to: *mut u8, bytes: &[u8]) {
    if bytes.len() >= STREAM_FROM && bulk::AVAILABLE {
        // SAFETY: the caller's promise is the callee's.
        return unsafe { bulk::store(to, bytes) };
    }
    // SAFETY: as above.
    unsafe { store_words(to, bytes) }
}

#[inline]
unsafe fn store_words(to: *mut u8, bytes: &[u8]) {
    let skip = to.addr() % WORD;
    let mut word = to.wrapping_sub(skip).cast::<u64>();
    let (head, body) = bytes.split_at(if skip == 0 {
        0
    } else {
        (WORD - skip).min(bytes.len())
    });
    if !head.is_empty() {
        // SAFETY: this word overlaps the range.
        unsafe { store_part(word, skip, head) };
        word = word.wrapping_add(1);
    }
    let (words, tail) = body.as_chunks::<WORD>();
    for value in words {
        // SAFETY: this word is inside the range, mapped and aligned.
        unsafe { AtomicU64::from_ptr(word) }.store(u64::from_le_bytes(*value), Ordering::Relaxed);
        word = word.wrapping_add(1);
    }
    if !tail.is_empty() {
        // SAFETY: this word overlaps the range.
        unsafe { store_part(word, 0, tail) };
    }
}

/// Loads the bytes of a word atomically.
///
/// # Safety
/// The word is mapped, readable and aligned.
#[inline]
unsafe fn load_word(word: *const u64) -> [u8; WORD] {
    // SAFETY: the caller's promise; a relaxed load does not write, so a read-only mapping will do.
    unsafe { AtomicU64::from_ptr(word.cast_mut()) }
        .load(Ordering::Relaxed)
        .to_le_bytes()
}

/// Replaces some bytes of a word and keeps the others, even if another thread changes those concurrently.
///
/// # Safety
/// The word is mapped, writable and aligned.
#[inline]
unsafe fn store_part(word: *mut u64, skip: usize, bytes: &[u8]) {
    // SAFETY: the caller's promise.
    let word = unsafe { AtomicU64::from_ptr(word) };
    let mut old = word.load(Ordering::Relaxed);
    loop {
        let mut new = old.to_le_bytes();
        new[skip..skip + bytes.len()].copy_from_slice(bytes);
        match word.compare_exchange_weak(old, u64::from_le_bytes(new), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => old = now,
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod bulk {
    use std::arch::asm;

    pub(super) const AVAILABLE: bool = true;

    /// Copies line by line, which reaches the bandwidth of the memory, unlike a loop over words.
    ///
    /// # Safety
    /// As [`super::load`].
    pub(super) unsafe fn load(from: *const u8, into: &mut [u8]) {
        let head = from.align_offset(64).min(into.len());
        let (head, rest) = into.split_at_mut(head);
        // SAFETY: the head is part of the range the caller vouches for.
        unsafe { super::load_words(from, head) };
        let (lines, tail) = rest.as_chunks_mut::<64>();
        let mut from = from.wrapping_add(head.len());
        for line in lines {
            // SAFETY: the line is in the range the caller vouches for and aligned to 64 bytes; aligned loads
            // of 16 bytes are atomic in each of their words, so this does what eight relaxed
            // atomic loads do.
            unsafe {
                asm!(
                    "movdqa {a}, [{from}]",
                    "movdqa {b}, [{from} + 16]",
                    "movdqa {c}, [{from} + 32]",
                    "movdqa {d}, [{from} + 48]",
                    "movdqu [{to}], {a}",
                    "movdqu [{to} + 16], {b}",
                    "movdqu [{to} + 32], {c}",
                    "movdqu [{to} + 48], {d}",
                    from = in(reg) from,
                    to = in(reg) line.as_mut_ptr(),
                    a = out(xmm_reg) _,
                    b = out(xmm_reg) _,
                    c = out(xmm_reg) _,
                    d = out(xmm_reg) _,
                    options(nostack, preserves_flags)
                );
            }
            from = from.wrapping_add(64);
        }
        // SAFETY: the tail is part of the range the caller vouches for.
        unsafe { super::load_words(from, tail) };
    }

    /// Streams past the caches: bulk data is not read again soon, and fetching each line before overwriting
    /// it would cost a third of the bandwidth.
    ///
    /// # Safety
    /// As [`super::store`].
    pub(super) unsafe fn store(to: *mut u8, bytes: &[u8]) {
        let head = to.align_offset(64).min(bytes.len());
        let (head, rest) = bytes.split_at(head);
        // SAFETY: the head is part of the range the caller vouches for.
        unsafe { super::store_words(to, head) };
        let (lines, tail) = rest.as_chunks::<64>();
        let mut to = to.wrapping_add(head.len());
        for line in lines {
            // SAFETY: the line is in the range the caller vouches for and aligned to 64 bytes; streaming
            // stores of 16 bytes are atomic in each of their words, so this does what eight relaxed atomic
            // stores do. The fence below orders them with all that follows.
            unsafe {
                asm!(
                    "movdqu {a}, [{from}]",
                    "movdqu {b}, [{from} + 16]",
                    "movdqu {c}, [{from} + 32]",
                    "movdqu {d}, [{from} + 48]",
                    "movntdq [{to}], {a}",
                    "movntdq [{to} + 16], {b}",
                    "movntdq [{to} + 32], {c}",
                    "movntdq [{to} + 48], {d}",
                    from = in(reg) line.as_ptr(),
                    to = in(reg) to,
                    a = out(xmm_reg) _,
                    b = out(xmm_reg) _,
                    c = out(xmm_reg) _,
                    d = out(xmm_reg) _,
                    options(nostack, preserves_flags)
                );
            }
            to = to.wrapping_add(64);
        }
        crate::flush::store_fence();
        // SAFETY: the tail is part of the range the caller vouches for.
        unsafe { super::store_words(to, tail) };
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod bulk {
    pub(super) const AVAILABLE: bool = false;

    /// Does nothing; never called because `AVAILABLE` is false.
    pub(super) unsafe fn load(_from: *const u8, _into: &mut [u8]) {}

    /// Does nothing; never called because `AVAILABLE` is false.
    pub(super) unsafe fn store(_to: *mut u8, _bytes: &[u8]) {}
}
