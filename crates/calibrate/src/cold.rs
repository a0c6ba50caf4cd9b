//! The device below the page cache: [`ColdFile`].
//!
//! Where the file system supports direct I/O, reads and writes go past the page cache. Elsewhere the file is
//! dropped from it before each measurement, which then reads every page once at most.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use halocline_media::{AccessFigures, HugeVec, MediaError, PAGE};
use rustix::fs::{Advice, FallocateFlags};

use crate::figures::MeasuredMedium;
use crate::kernels::successor;
use crate::steps::Steps;
use crate::threads::{in_threads, rates};
use crate::{CalibrateError, MediumMeter, scratch};

/// Bytes of a sequential request.
const CHUNK: u64 = 1 << 20;

/// Steps of [`ColdFile::measure`].
pub(crate) const STEPS_OF_DEVICE: usize = 5;

/// A file without a name whose device is measured.
pub(crate) struct ColdFile {
    pub(crate) file: File,
    path: PathBuf,
    bytes: u64,
    /// False if reads and writes go through the page cache.
    pub(crate) direct: bool,
}

impl ColdFile {
    /// Creates an empty file in the directory, to be `bytes` long: a power of two of at least 1 MiB.
    ///
    /// # Errors
    /// [`MediaError::Io`].
    pub(crate) fn create(directory: &Path, bytes: u64) -> Result<ColdFile, MediaError> {
        let (file, direct) = scratch::file(directory)?;
        Ok(ColdFile {
            file,
            path: directory.to_owned(),
            bytes,
            direct,
        })
    }

    /// Measures the device.
    ///
    /// # Errors
    /// [`MediaError::DiskFull`], [`MediaError::Io`], [`CalibrateError::Cancelled`].
    pub(crate) fn measure(
        &self,
        counts: &[u32],
        meter: &MediumMeter<'_>,
        steps: &mut Steps<'_>,
    ) -> Result<AccessFigures, CalibrateError> {
        steps.next("device: preparation")?;
        self.prepare(meter)?;
        steps.next("device: latency")?;
        let sequential_read_ns = self.read_latency(meter, |page, pages| (page + 1) % pages)?;
        let random_read_ns = self.read_latency(meter, successor)?;
        steps.next("device: persist")?;
        let persist_ns = self.persist(meter)?;
        steps.next("device: read bandwidth")?;
        let read = rates(counts, |threads| self.bandwidth(meter, threads, false))?;
        steps.next("device: write bandwidth")?;
        let write = rates(counts, |threads| self.bandwidth(meter, threads, true))?;
        let measured = MeasuredMedium {
            sequential_read_ns,
            random_read_ns,
            read,
            write,
            persist_ns,
        };
        Ok(measured.figures(PAGE))
    }

    fn io(&self, action: &'static str, source: impl Into<std::io::Error>) -> MediaError {
        MediaError::Io {
            action,
            path: self.path.clone(),
            source: source.into(),
        }
    }

    /// Writes the whole file: what was only allocated would be read without the device.
    fn prepare(&self, meter: &MediumMeter<'_>) -> Result<(), MediaError> {
        let allocated = rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, self.bytes);
        if let Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT | rustix::io::Errno::FBIG) = allocated
        {
            return Err(MediaError::DiskFull {
                path: self.path.clone(),
                wanted: self.bytes,
            });
        }
        let chunk = buffer(CHUNK)?;
        for at in (0..self.bytes).step_by(CHUNK as usize) {
            if meter.cancelled.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.write(&chunk, at)?;
        }
        self.sync()
    }

    /// Returns the nanoseconds per read of a page. `next(page, pages)` names the page after a page, of
    /// `pages` pages.
    fn read_latency(
        &self,
        meter: &MediumMeter<'_>,
        next: impl Fn(u64, u64) -> u64,
    ) -> Result<f64, MediaError> {
        self.drop_pages()?;
        let (mut page, pages) = (0, self.bytes / PAGE);
        let mut bytes = buffer(PAGE)?;
        self.average(meter, |number| {
            // Without direct I/O a second pass would read the page cache.
            if !self.direct && number >= pages {
                return Ok(0);
            }
            self.read(&mut bytes, page * PAGE)?;
            page = next(page, pages);
            Ok(1)
        })
    }

    /// Returns the nanoseconds to write a page and make it durable.
    fn persist(&self, meter: &MediumMeter<'_>) -> Result<f64, MediaError> {
        let bytes = buffer(PAGE)?;
        self.average(meter, |number| {
            self.write_synced(&bytes, number * PAGE % self.bytes)?;
            Ok(1)
        })
    }

    /// Returns the bytes per second that `threads` threads read or write in disjoint parts.
    fn bandwidth(&self, meter: &MediumMeter<'_>, threads: u32, write: bool) -> Result<f64, MediaError> {
        self.drop_pages()?;
        let part = (self.bytes / CHUNK / u64::from(threads)).max(1);
        in_threads(threads, |thread| {
            let mut chunk = buffer(CHUNK)?;
            let ns = self.average(meter, |number| {
                // Without direct I/O a second pass would read the page cache.
                if !self.direct && number >= part {
                    return Ok(0);
                }
                let at = (thread * part + number % part) * CHUNK % self.bytes;
                if write {
                    self.write(&chunk, at)?
                } else {
                    self.read(&mut chunk, at)?
                }
                Ok(CHUNK)
            })?;
            Ok(1e9 / ns)
        })
    }

    /// Calls `each` with 0, 1, 2, … until the time is over or it has done nothing. Returns the nanoseconds
    /// per operation, which `each` counts: the average, because a device works in bursts.
    fn average(
        &self,
        meter: &MediumMeter<'_>,
        mut each: impl FnMut(u64) -> Result<u64, MediaError>,
    ) -> Result<f64, MediaError> {
        let (start, mut operations) = (Instant::now(), 0);
        for number in 0.. {
            let done = each(number)?;
            operations += done;
            if done == 0 || start.elapsed() >= meter.time || meter.cancelled.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(start.elapsed().as_secs_f64() * 1e9 / operations.max(1) as f64)
    }

    fn read(&self, into: &mut [u8], at: u64) -> Result<(), MediaError> {
        let read = self.file.read_exact_at(into, at);
        read.map_err(|error| self.io("read a file in", error))
    }

    /// Writes to the device, whose own cache may hold the bytes.
    fn write(&self, bytes: &[u8], at: u64) -> Result<(), MediaError> {
        if self.direct {
            self.write_file(bytes, at)
        } else {
            self.write_synced(bytes, at)
        }
    }

    /// Writes durably.
    fn write_synced(&self, bytes: &[u8], at: u64) -> Result<(), MediaError> {
        self.write_file(bytes, at)?;
        self.sync()
    }

    fn write_file(&self, bytes: &[u8], at: u64) -> Result<(), MediaError> {
        let written = self.file.write_all_at(bytes, at);
        written.map_err(|error| self.io("write a file in", error))
    }

    fn sync(&self) -> Result<(), MediaError> {
        rustix::fs::fdatasync(&self.file).map_err(|error| self.io("sync a file in", error))
    }

    fn drop_pages(&self) -> Result<(), MediaError> {
        let dropped = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
        dropped.map_err(|error| self.io("drop from the page cache a file in", error))
    }
}

/// Returns a buffer aligned to a page, as direct I/O needs it, with contents that no device compresses away.
fn buffer(bytes: u64) -> Result<HugeVec<u8>, MediaError> {
    let mut buffer = HugeVec::zeroed(bytes as usize)?;
    let mut state = 1_u64;
    for word in buffer.as_chunks_mut::<8>().0 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *word = state.to_le_bytes();
    }
    Ok(buffer)
}
