//! A quick measurement of a medium's performance.
//!
//! It takes about a second, which suffices for a status line and a rough choice of plan, not for a
//! publication: figures vary by about ten percent from run to run, more on a busy machine.
#![allow(unsafe_code, reason = "reads the scratch medium without a copy")]

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{FileMedium, FileOptions, LINE, MediaError, MediumBackend, MediumKind};

/// The performance of a medium. Bandwidths are in bytes per second; the one for `n` threads is at index `n -
/// 1`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// The kind of the medium.
    pub kind: MediumKind,
    /// Bytes that the measurement ranged over. If that is not much more than the caches, the figures include
    /// their effect.
    pub bytes: u64,
    /// Nanoseconds of a read at a random offset that depends on the word read before.
    pub random_read_ns: f64,
    /// Bandwidth of sequential reads.
    pub read_bandwidth: Vec<f64>,
    /// Bandwidth of sequential stores of 1 MiB, flushed.
    pub write_bandwidth: Vec<f64>,
    /// Nanoseconds to store, flush and fence a word, at the next line each time.
    pub persist_ns: f64,
    /// Bytes of the medium's own unit of access, which is known for the kind and not measured.
    pub unit: u64,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gigabytes = |bandwidth: &[f64]| {
            let each: Vec<String> = bandwidth
                .iter()
                .map(|bytes| format!("{:.1}", bytes / 1e9))
                .collect();
            each.join(", ")
        };
        write!(
            f,
            "{}: random read {:.0} ns, persist {:.0} ns, ",
            self.kind, self.random_read_ns, self.persist_ns
        )?;
        write!(f, "read {} GB/s, ", gigabytes(&self.read_bandwidth))?;
        write!(f, "write {} GB/s ", gigabytes(&self.write_bandwidth))?;
        write!(
            f,
            "(1 to {} threads), unit {} B",
            self.read_bandwidth.len(),
            self.unit
        )
    }
}

/// Options of a measurement. By default it ranges over 256 MiB with one thread up to one per CPU, for about a
/// second.
#[derive(Debug, Clone)]
pub struct CalibrateOptions {
    /// Bytes to range over, at least 1 MiB per thread.
    pub bytes: u64,
    /// The largest number of threads.
    pub threads: usize,
    /// Total time of the measurements, not including the first write of the bytes.
    pub time: Duration,
}

impl Default for CalibrateOptions {
    fn default() -> CalibrateOptions {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        CalibrateOptions {
            bytes: 256 << 20,
            threads,
            time: Duration::from_millis(600),
        }
    }
}

const CHUNK: u64 = 1 << 20;

/// Measures a medium without valuable contents: grows it to the bytes to range over and overwrites them.
///
/// # Errors
/// Those of [`Medium::grow`](crate::Medium::grow) and [`Medium::fence`](crate::Medium::fence).
pub fn calibrate(medium: &mut impl MediumBackend, options: &CalibrateOptions) -> Result<Profile, MediaError> {
    let threads = options.threads.max(1);
    let bytes = options.bytes.max(CHUNK * threads as u64) / CHUNK * CHUNK;
    medium.grow(bytes)?;
    let medium = &*medium;
    let chunk: Vec<u8> = (0..CHUNK).map(|at| (at % 251) as u8).collect();
    for at in (0..bytes).step_by(CHUNK as usize) {
        medium.store(at, &chunk);
    }
    let time = options.time / (2 * threads as u32 + 2);
    let read = |at| {
        // SAFETY: the medium is borrowed exclusively by `calibrate`, and no measurement stores while this one
        // reads.
        let words = unsafe { medium.slice(at, CHUNK as usize) }.as_chunks::<8>().0;
        std::hint::black_box(
            words
                .iter()
                .fold(0, |sum: u64, word| sum.wrapping_add(u64::from_le_bytes(*word))),
        );
        Ok(())
    };
    let write = |at| {
        medium.store(at, &chunk);
        medium.flush(at, CHUNK);
        Ok(())
    };
    let mut profile = Profile {
        kind: medium.kind(),
        bytes,
        random_read_ns: random_read(medium, bytes, time),
        read_bandwidth: Vec::new(),
        write_bandwidth: Vec::new(),
        persist_ns: persist(medium, bytes, time)?,
        unit: medium.kind().unit(),
    };
    for count in 1..=threads {
        profile.read_bandwidth.push(bandwidth(bytes, count, time, &read)?);
        profile
            .write_bandwidth
            .push(bandwidth(bytes, count, time, &write)?);
        medium.fence()?;
    }
    Ok(profile)
}

/// Measures the kind of medium that a file next to `path` would get, using a temporary file that leaves no
/// trace.
///
/// # Errors
/// Those of [`FileMedium::open`] and [`calibrate`].
pub fn calibrate_beside(
    path: &Path,
    file: &FileOptions,
    options: &CalibrateOptions,
) -> Result<Profile, MediaError> {
    let name = format!(
        ".halocline-calibrate-{}-{:016x}",
        std::process::id(),
        crate::boot::random_word()
    );
    let path = path.with_file_name(name);
    let opened = FileMedium::open(
        &path,
        &FileOptions {
            create: true,
            read_only: false,
            ..file.clone()
        },
    );
    // An unlinked file stays usable and disappears however this process ends.
    let removed = std::fs::remove_file(&path);
    let mut medium = opened?;
    removed.map_err(|source| MediaError::Io {
        action: "remove",
        path,
        source,
    })?;
    calibrate(&mut medium, options)
}

/// Measures random reads. Each offset depends on the word read before; a 64-bit state, of which an offset
/// uses a part, keeps the walk from entering a short cycle that fits the caches.
fn random_read(medium: &impl MediumBackend, bytes: u64, time: Duration) -> f64 {
    let lines = bytes / LINE;
    let (mut state, mut reads) = (1_u64, 0_u32);
    let start = Instant::now();
    while reads == 0 || start.elapsed() < time {
        for _ in 0..1000 {
            let word = medium.load_u64((state >> 8) % lines * LINE);
            state = (state ^ word)
                .wrapping_add(1)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_right(29);
        }
        reads += 1000;
    }
    std::hint::black_box(state);
    nanoseconds(start.elapsed(), reads)
}

fn persist(medium: &impl MediumBackend, bytes: u64, time: Duration) -> Result<f64, MediaError> {
    let mut count = 0_u32;
    let start = Instant::now();
    while count == 0 || start.elapsed() < time {
        for _ in 0..4 {
            let offset = u64::from(count) * LINE % bytes;
            medium.store_u64(offset, u64::from(count));
            medium.persist(offset, 8)?;
            count += 1;
        }
    }
    Ok(nanoseconds(start.elapsed(), count))
}

/// Returns the bytes per second of `threads` threads that cyclically call `each` for the chunks of disjoint
/// parts.
fn bandwidth(
    bytes: u64,
    threads: usize,
    time: Duration,
    each: &(impl Fn(u64) -> Result<(), MediaError> + Sync),
) -> Result<f64, MediaError> {
    let part = bytes / CHUNK / threads as u64;
    let start = Instant::now();
    let work = |thread: u64| -> Result<u64, MediaError> {
        let mut chunks = 0;
        while chunks == 0 || start.elapsed() < time {
            each((thread * part + chunks % part) * CHUNK)?;
            chunks += 1;
        }
        Ok(chunks)
    };
    let chunks = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads as u64)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
            handle
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        handles.into_iter().map(join).sum::<Result<u64, MediaError>>()
    })?;
    Ok((chunks * CHUNK) as f64 / start.elapsed().as_secs_f64())
}

fn nanoseconds(time: Duration, count: u32) -> f64 {
    time.as_secs_f64() * 1e9 / f64::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dram;

    #[test]
    fn it_measures_something_and_leaves_nothing() {
        let options = CalibrateOptions {
            bytes: 4 << 20,
            threads: 2,
            time: Duration::from_millis(30),
        };
        let folder = tempfile::tempdir().unwrap();
        let dram = calibrate(&mut Dram::new(0).unwrap(), &options).unwrap();
        let file = calibrate_beside(&folder.path().join("pool"), &FileOptions::default(), &options).unwrap();
        for profile in [&dram, &file] {
            assert!(
                profile.random_read_ns > 0.0 && profile.persist_ns > 0.0,
                "{profile}"
            );
            assert_eq!(
                (profile.read_bandwidth.len(), profile.write_bandwidth.len()),
                (2, 2)
            );
            assert!(
                profile
                    .read_bandwidth
                    .iter()
                    .chain(&profile.write_bandwidth)
                    .all(|bytes| *bytes > 0.0),
                "{profile}"
            );
        }
        assert_eq!((dram.unit, file.kind.unit() == file.unit), (64, true));
        assert!(dram.to_string().starts_with("DRAM: random read "), "{dram}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
