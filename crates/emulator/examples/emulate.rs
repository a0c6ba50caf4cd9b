//! Measures an emulated medium in real time, beside this host's DRAM: `cargo run --release -p
//! halocline-emulator --example emulate -- emulated:optane:cache=14`
//!
//! Each figure is the lower quartile of short rounds that alternate between plain and emulated, to tolerate
//! other load.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use halocline_emulator::ClockMode;
use halocline_emulator::{Device, EmulatedBytes, EmulatedSpec};
use halocline_media::{Bytes, HugeVec};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const LINES: usize = (512 << 20) / 64;
const ROUNDS: usize = 400;
const STEPS: usize = 2048;

/// Links the lines into one cycle: the first word of each holds the next.
#[derive(Clone)]
struct Lines(Arc<HugeVec<u8>>);

impl Bytes for Lines {
    fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

fn word(bytes: &[u8], line: usize) -> usize {
    let at = line * 64;
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}

fn circle() -> Result<Lines, Box<dyn Error>> {
    let mut bytes = HugeVec::<u8>::zeroed(LINES * 64)?;
    let mut next: Vec<u32> = (0..LINES as u32).collect();
    let mut random = SmallRng::seed_from_u64(7);
    for line in (1..LINES).rev() {
        next.swap(line, random.random_range(0..line));
    }
    for (line, next) in next.iter().enumerate() {
        bytes[line * 64..line * 64 + 4].copy_from_slice(&next.to_le_bytes());
    }
    Ok(Lines(Arc::new(bytes)))
}

fn chase(bytes: &impl Bytes, at: &mut usize) {
    let slice = bytes.as_slice();
    for _ in 0..STEPS {
        bytes.touch(*at * 64, 4);
        *at = word(slice, *at);
    }
}

/// Reads random lines independently, without a prefetch.
fn scattered(bytes: &impl Bytes, state: &mut usize) {
    let (slice, mut sum) = (bytes.as_slice(), 0);
    for _ in 0..STEPS {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let line = (*state >> 20) % LINES;
        bytes.touch(line * 64, 4);
        sum += word(slice, line);
    }
    black_box(sum);
}

/// Reads random lines in prefetched groups of 16.
fn prefetched(bytes: &impl Bytes, state: &mut usize) {
    let (slice, mut sum) = (bytes.as_slice(), 0);
    for _ in 0..STEPS / 16 {
        let lines = [(); 16].map(|()| {
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (*state >> 20) % LINES
        });
        lines.iter().for_each(|line| bytes.prefetch(line * 64));
        for line in lines {
            bytes.touch(line * 64, 4);
            sum += word(slice, line);
        }
    }
    black_box(sum);
}

/// Reads lines in sequence, touched one by one.
fn sequential(bytes: &impl Bytes, line: &mut usize) {
    strided::<1>(bytes, line);
}

fn strided<const BY: usize>(bytes: &impl Bytes, line: &mut usize) {
    let (slice, mut sum) = (bytes.as_slice(), 0);
    for _ in 0..STEPS {
        *line = (*line + BY) % LINES;
        bytes.touch(*line * 64, 64);
        sum += slice[*line * 64..][..64]
            .iter()
            .map(|byte| usize::from(*byte))
            .sum::<usize>();
    }
    black_box(sum);
}

/// Reads in sequence, 64 KiB at a time.
fn blocks(bytes: &impl Bytes, line: &mut usize) {
    let (slice, mut sum) = (bytes.as_slice(), 0);
    for _ in 0..STEPS / 1024 {
        *line = (*line + 1024) % LINES;
        bytes.touch(*line * 64, 65536);
        let words = slice[*line * 64..][..65536].as_chunks::<8>().0;
        sum = words
            .iter()
            .fold(sum, |sum: u64, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    }
    black_box(sum);
}

/// Reads a few lines, all cached.
fn cached(bytes: &impl Bytes, line: &mut usize) {
    let (slice, mut sum) = (bytes.as_slice(), 0);
    for _ in 0..STEPS {
        *line = (*line + 7) % 256;
        bytes.touch(*line * 64, 4);
        sum += word(slice, *line);
    }
    black_box(sum);
}

fn nanoseconds<B: Bytes>(bytes: &B, state: &mut usize, act: fn(&B, &mut usize)) -> f64 {
    let start = Instant::now();
    act(bytes, state);
    start.elapsed().as_secs_f64() * 1e9 / STEPS as f64
}

type Row<B> = (&'static str, fn(&Lines, &mut usize), fn(&B, &mut usize));

fn main() -> Result<(), Box<dyn Error>> {
    let text = std::env::args().nth(1);
    let mut spec: EmulatedSpec = text.as_deref().unwrap_or("emulated:optane:cache=14").parse()?;
    spec.clock = ClockMode::Delay;
    let device = Device::new(&spec)?;
    println!(
        "{device}; host {:?}; {:.1?}",
        device.host(),
        device.model_overhead()
    );
    let plain = circle()?;
    let emulated = EmulatedBytes::new(plain.clone(), device.clone());
    let rows: [Row<EmulatedBytes<Lines>>; 8] = [
        ("pointer chase", chase, chase),
        ("scattered, no prefetch", scattered, scattered),
        ("scattered, 16 prefetched", prefetched, prefetched),
        ("line by line", sequential, sequential),
        ("stride 128", strided::<2>, strided::<2>),
        ("stride 320", strided::<5>, strided::<5>),
        ("64 KiB blocks", blocks, blocks),
        ("cached lines", cached, cached),
    ];
    println!(
        "{:26} {:>9} {:>9} {:>7} {:>9} {:>9}",
        "", "plain ns", "emul. ns", "ratio", "lines", "units"
    );
    for (name, bare, charged) in rows {
        let (mut one, mut two) = (1, 1);
        let (mut times, mut slow) = (Vec::new(), Vec::new());
        let before = device.counts();
        for _ in 0..ROUNDS {
            // Once unmeasured, so that what the other left in the caches (of page tables, above all) does not
            // count.
            nanoseconds(&plain, &mut one, bare);
            times.push(nanoseconds(&plain, &mut one, bare));
            slow.push(nanoseconds(&emulated, &mut two, charged));
        }
        let counts = device.counts() - before;
        times.sort_by(f64::total_cmp);
        slow.sort_by(f64::total_cmp);
        let (plain, emulated) = (times[ROUNDS / 4], slow[ROUNDS / 4]);
        let each = |count: u64| count as f64 / (ROUNDS * STEPS) as f64;
        println!(
            "{name:26} {plain:9.1} {emulated:9.1} {:7.2} {:9.2} {:9.2}",
            emulated / plain,
            each(counts.lines),
            each(counts.units)
        );
    }
    Ok(())
}
