//! The hook that reads of slices are reported to: [`AccessObserver`].
//!
//! Reading a slice is not a call, so a model of a slower device could not see it. Code that reads durable
//! bytes reports its reads through [`Bytes`](crate::Bytes); without an observer each report is one
//! predictable branch.

use std::fmt::Debug;
use std::time::Duration;

/// An observer of reads through a medium's slices. It has its own address space: the address of a byte is
/// that of offset 0 (see [`Medium::observer`](crate::Medium::observer)) plus its offset.
pub trait AccessObserver: Debug + Send + Sync + 'static {
    /// Reports that `bytes`, which lie at `address`, are about to be read.
    fn touch(&self, address: u64, bytes: &[u8]);

    /// Reports that a few bytes at each of the addresses are about to be read, independently of each other.
    fn touch_each(&self, addresses: &mut dyn Iterator<Item = u64>);

    /// Reports that `len` bytes from `address` on are about to be read sequentially while they are processed.
    fn scan(&self, address: u64, len: usize);

    /// Reports that the CPU was asked to fetch `len` bytes from `address` on, which a [`scan`](Self::scan)
    /// will read.
    fn scan_ahead(&self, address: u64, len: usize);

    /// Reports that the CPU was asked to fetch the line at `address`.
    fn prefetch(&self, address: u64);

    /// Waits for all reads that this thread has reported, and returns the time that this thread has spent on
    /// the modelled device, without the model's own overhead. Only differences between two calls of one
    /// thread are meaningful.
    fn thread_time(&self) -> Duration;
}
