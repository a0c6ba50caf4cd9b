//! Index bytes whose reads are charged to two emulated devices, the slow tier and DRAM, with the CPU's work
//! between the reads. The bytes are type-erased, so that the searches are compiled only once more.

use crate::Result;
use halocline_emulator::{ClockMode, Counts, Device, DeviceProfile, EmulatedSpec};
use halocline_media::{Bytes, LINE};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Bytes of any kind.
trait AnyBytes: Send + Sync {
    fn slice(&self) -> &[u8];
}

impl<B: Bytes> AnyBytes for B {
    fn slice(&self) -> &[u8] {
        self.as_slice()
    }
}

/// Bytes of an index, without the costs that their own medium would charge.
#[derive(Clone)]
pub(super) struct Watched {
    bytes: Arc<dyn AnyBytes>,
    meter: Option<(Arc<Meter>, u64)>,
}

impl Watched {
    /// Wraps the bytes without a meter: as if they were in DRAM.
    pub(super) fn new(bytes: impl Bytes) -> Self {
        Self {
            bytes: Arc::new(bytes),
            meter: None,
        }
    }

    /// Returns the same bytes, charged to the meter at addresses of their own.
    pub(super) fn with_meter(&self, meter: &Arc<Meter>) -> Self {
        let base = meter.reserve(self.bytes.slice().len() as u64);
        Self {
            bytes: Arc::clone(&self.bytes),
            meter: Some((Arc::clone(meter), base)),
        }
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl Bytes for Watched {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        self.bytes.slice()
    }

    #[inline]
    fn touch(&self, offset: usize, len: usize) {
        if let Some((meter, base)) = &self.meter {
            meter.touch(*base, self.bytes.slice(), offset, len);
        }
    }

    #[inline]
    fn prefetch(&self, offset: usize) {
        let bytes = self.bytes.slice();
        halocline_media::prefetch(bytes, offset);
        if let Some((meter, base)) = &self.meter
            && offset < bytes.len()
        {
            meter.prefetch(base + offset as u64);
        }
    }
}

/// Two devices with clocks of their own, which receive the same accesses.
#[derive(Debug)]
struct Devices {
    slow: Arc<Device>,
    dram: Arc<Device>,
}

/// The meter that reads are charged to. For one thread.
#[derive(Debug)]
pub(super) struct Meter {
    /// `None`: reads are only counted.
    devices: Option<Devices>,
    touches: AtomicU64,
    /// Picoseconds of work before each touch, and the rest below a nanosecond that is not on the clocks yet.
    work: AtomicU64,
    owed: AtomicU64,
    /// Picoseconds of work of the query so far.
    done: AtomicU64,
}

/// Clocks and counters of a meter.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reading {
    pub(super) slow: Duration,
    pub(super) dram: Duration,
    pub(super) counts: Counts,
}

impl Meter {
    /// Creates a meter that only counts reads.
    pub(super) fn counting() -> Arc<Self> {
        Arc::new(Self::with(None))
    }

    /// Creates a meter with the device and the DRAM of its profile.
    pub(super) fn new(spec: &EmulatedSpec) -> Result<Arc<Self>> {
        let slow = EmulatedSpec {
            clock: ClockMode::Virtual,
            ..spec.clone()
        };
        let figures = &spec.profile.dram;
        let dram = EmulatedSpec {
            profile: DeviceProfile {
                device: figures.clone(),
                dram: figures.clone(),
                ..DeviceProfile::dram()
            },
            ..slow.clone()
        };
        Ok(Arc::new(Self::with(Some(Devices {
            slow: Device::new(&slow)?,
            dram: Device::new(&dram)?,
        }))))
    }

    fn with(devices: Option<Devices>) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            devices,
            touches: zero(),
            work: zero(),
            owed: zero(),
            done: zero(),
        }
    }

    /// Reserves addresses. Both devices receive the same requests, so they return the same addresses.
    fn reserve(&self, len: u64) -> u64 {
        self.devices.as_ref().map_or(0, |devices| {
            devices.dram.reserve(len);
            devices.slow.reserve(len)
        })
    }

    #[inline]
    fn touch(&self, base: u64, bytes: &[u8], offset: usize, len: usize) {
        match &self.devices {
            None => {
                self.touches.store(self.touches.load(Relaxed) + 1, Relaxed);
            }
            Some(Devices { slow, dram }) => {
                self.add_work(self.work.load(Relaxed));
                slow.touch_bytes(base, bytes, offset, len);
                dram.touch_bytes(base, bytes, offset, len);
            }
        }
    }

    fn prefetch(&self, at: u64) {
        if let Some(Devices { slow, dram }) = &self.devices {
            slow.prefetch(at);
            dram.prefetch(at);
        }
    }

    fn add_work(&self, picoseconds: u64) {
        self.done.store(self.done.load(Relaxed) + picoseconds, Relaxed);
        let owed = self.owed.load(Relaxed) + picoseconds;
        let whole = owed / 1000;
        self.owed.store(owed % 1000, Relaxed);
        if whole > 0
            && let Some(Devices { slow, dram }) = &self.devices
        {
            slow.work(Duration::from_nanos(whole));
            dram.work(Duration::from_nanos(whole));
        }
    }

    /// Begins a query that works `work` picoseconds before each touch.
    pub(super) fn begin(&self, work: u64) {
        self.work.store(work, Relaxed);
        self.done.store(0, Relaxed);
    }

    /// Ends the query, whose work is `all` picoseconds in total: adds the part that belongs to reads of
    /// copies.
    pub(super) fn end(&self, all: u64) {
        self.add_work(all.saturating_sub(self.done.load(Relaxed)));
    }

    /// Returns the number of touches.
    pub(super) fn touches(&self) -> u64 {
        self.touches.load(Relaxed)
    }

    /// Fills the device's buffer and the modelled caches as other queries would have: with all units and
    /// lines of these bytes, or with as many as there is room for, spread evenly.
    pub(super) fn fill<'a>(&self, parts: impl Iterator<Item = &'a Watched> + Clone) {
        let Some(Devices { slow, dram }) = &self.devices else {
            return;
        };
        let blocks = |size: u64| {
            let (mut ends, mut blocks) = (vec![], 0);
            for part in parts.clone() {
                let base = part.meter.as_ref().map_or(0, |(_, base)| *base);
                let before = blocks;
                blocks += (part.bytes.slice().len() as u64).div_ceil(size);
                ends.push((blocks, before, base));
            }
            Blocks { size, ends }
        };
        let profile = slow.profile();
        blocks(profile.unit).touch_some(slow, u64::from(profile.buffer_units));
        let lines = blocks(LINE);
        for device in [slow, dram] {
            lines.touch_some(device, slow.spec().cache.bytes() / LINE);
        }
    }

    /// Returns the clocks and counters after all accesses have completed.
    pub(super) fn read(&self) -> Reading {
        self.devices
            .as_ref()
            .map_or_else(Reading::default, |Devices { slow, dram }| {
                slow.settle();
                dram.settle();
                Reading {
                    slow: slow.elapsed(),
                    dram: dram.elapsed(),
                    counts: slow.counts(),
                }
            })
    }
}

/// Blocks of one size in several ranges of addresses.
struct Blocks {
    size: u64,
    /// Per range, the number of blocks up to its end, that up to its start, and its first address.
    ends: Vec<(u64, u64, u64)>,
}

impl Blocks {
    /// Touches as many of them as there is `room` for.
    fn touch_some(&self, device: &Device, room: u64) {
        let blocks = self.ends.last().map_or(0, |(end, _, _)| *end);
        let touch = |block: u64| {
            let range = self.ends.partition_point(|(end, _, _)| *end <= block);
            if let Some((_, start, base)) = self.ends.get(range) {
                device.touch(base + (block - start) * self.size, 1);
            }
        };
        if blocks <= room {
            (0..blocks).for_each(touch);
        } else {
            // Spread evenly without a pattern: multiples of the golden ratio.
            let spread = |step: u64| step.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let block = |step| ((u128::from(spread(step)) * u128::from(blocks)) >> 64) as u64;
            (1..=room).map(block).for_each(touch);
        }
    }
}
