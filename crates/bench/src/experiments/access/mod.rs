//! The access patterns that tell a slow tier from DRAM: sequential, selective and random reads, as in the
//! study of Shanbhag, Tatbul, Cohen and Madden (DaMoN 2020), by the kernels that `halocline calibrate` runs.
//!
//! All media hold the same bytes, so that the sums over them agree. An emulated medium is measured beside
//! DRAM that is emulated with the same modelled cache and clock: ratios to the host's own DRAM would compare
//! its cache with the modelled one.

mod medium;
pub(super) mod model;
pub(super) mod random;
pub(super) mod selective;
pub(super) mod sequential;

use std::time::Duration;

use halocline_emulator::Watch;

use crate::{Backing, BenchError, Reporter, Settings};

use medium::AccessMedium;

/// Options of the experiments on access patterns.
pub(super) const OPTIONS: &[&str] = &[
    "--rows",
    "--on",
    "--threads",
    "--repeat",
    "--dir",
    "--medium",
    "--cache-model",
    "--plot",
];

/// Bytes of a thread's share of a pass before it takes the next one.
const MORSEL: u64 = 1 << 20;

/// Makes the media asked for, with the given number of bytes, and says what they are.
fn media(
    settings: &Settings,
    bytes: u64,
    report: &mut Reporter<'_>,
) -> Result<Vec<AccessMedium>, BenchError> {
    let mut media = Vec::new();
    for backing in settings.backings(&Backing::ALL) {
        media.extend(AccessMedium::make(*backing, bytes, settings)?);
    }
    for medium in &media {
        medium.label.announce(report)?;
    }
    report.set("seed", settings.seed);
    Ok(media)
}

/// Returns the numbers of threads to measure: 1, 2, 4, … and all.
fn thread_counts(settings: &Settings) -> Vec<usize> {
    let most = settings.threads();
    let doubled = std::iter::successors(Some(1), |threads| Some(threads * 2));
    let mut counts: Vec<usize> = doubled.take_while(|threads| *threads < most).collect();
    counts.push(most);
    counts
}

/// Has `work` done for 0, 1, … `parts` - 1 by `threads` threads, each of which takes every n-th part. Returns
/// the wrapping sum of the answers, and the time on the medium.
fn in_parallel(
    medium: &AccessMedium,
    threads: usize,
    parts: u64,
    work: &(impl Fn(u64) -> u64 + Sync),
) -> (u64, Duration) {
    let watch = Watch::start(medium.label.device.as_ref());
    let of_thread = |thread: usize| {
        let parts = (thread as u64..parts).step_by(threads);
        let sum = parts.fold(0, |sum: u64, part| sum.wrapping_add(work(part)));
        if let Some(device) = &medium.label.device {
            device.settle();
        }
        sum
    };
    // A new thread begins with the state of the modelled core that some other thread has left.
    if threads == 1 {
        return (of_thread(0), watch.elapsed());
    }
    let sum = std::thread::scope(|scope| {
        let of_thread = &of_thread;
        let handles: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || of_thread(thread)))
            .collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, u64>| {
            handle
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        handles.into_iter().map(join).fold(0, u64::wrapping_add)
    });
    (sum, watch.elapsed())
}

/// Fails unless the answers of all media are the same.
fn ensure_same(what: &str, media: &[AccessMedium], answers: &[u64]) -> Result<(), BenchError> {
    for (medium, answer) in media.iter().zip(answers) {
        super::ordered::ensure_same(
            what,
            (&media[0].label.name, answers[0]),
            (&medium.label.name, *answer),
        )?;
    }
    Ok(())
}
