//! Builds, into DRAM and onto the slow tier in turn.

use std::sync::Arc;
use std::time::Instant;

use halocline_elf::{BuildOptions, Layout, Output, WriteError, build as build_into};
use halocline_emulator::Device;
use halocline_media::HugeVec;

use super::{CodeTable, Tier};
use crate::timing::Run;
use crate::{BenchError, Samples, interleaved};

/// DRAM for a build's sort.
const MEMORY: usize = 4 << 30;

/// An index and what it took.
pub(in crate::experiments) struct Built {
    pub(in crate::experiments) bytes: Arc<HugeVec<u8>>,
    /// Seconds into DRAM.
    pub(in crate::experiments) volatile: Samples,
    /// Seconds onto the slow tier; none where its time is not real, or was not asked for.
    pub(in crate::experiments) slow: Samples,
}

/// Builds `rounds` times into DRAM and onto `slow`, after once to warm up; without rounds once, and nothing
/// is timed.
pub(in crate::experiments) fn build(
    table: &CodeTable,
    layout: Layout,
    threads: usize,
    slow: Option<&Tier>,
    rounds: usize,
) -> Result<Built, BenchError> {
    let options = BuildOptions {
        layout,
        threads,
        memory: MEMORY,
        ..BuildOptions::default()
    };
    let mut bytes = HugeVec::new();
    let mut samples = if rounds == 0 {
        build_into(table, &options, None, &mut bytes)?;
        vec![]
    } else {
        let device = match slow.filter(|tier| tier.is_delayed()) {
            Some(tier) => tier.device()?,
            None => None,
        };
        // Both build into the same place: two indexes at once need not fit.
        let place = std::cell::RefCell::new(&mut bytes);
        let timed = |device: Option<Arc<Device>>| -> Result<f64, BenchError> {
            let mut bytes = place.borrow_mut();
            **bytes = HugeVec::new();
            let start = Instant::now();
            match device {
                None => build_into(table, &options, None, &mut **bytes)?,
                Some(device) => {
                    let base = device.reserve(1 << 40);
                    let mut written = Written {
                        bytes: &mut bytes,
                        device,
                        base,
                    };
                    build_into(table, &options, None, &mut written)?
                }
            };
            Ok(start.elapsed().as_secs_f64())
        };
        let mut runs: Vec<Run<'_>> = vec![Box::new(|| timed(None))];
        if let Some(device) = &device {
            runs.push(Box::new(|| timed(Some(Arc::clone(device)))));
        }
        interleaved(rounds, &mut runs)?
    };
    let slow = if samples.len() > 1 { samples.pop() } else { None };
    Ok(Built {
        bytes: Arc::new(bytes),
        volatile: samples.pop().unwrap_or_default(),
        slow: slow.unwrap_or_default(),
    })
}

/// Bytes that are durable on a device as soon as they are appended.
struct Written<'a> {
    bytes: &'a mut HugeVec<u8>,
    device: Arc<Device>,
    base: u64,
}

impl Written<'_> {
    fn persist(&self, at: u64, len: usize) {
        self.device.wrote(self.base + at, len);
        self.device.flush(self.base + at, len as u64);
        self.device.fence();
    }
}

impl Output for Written<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let at = self.bytes.len() as u64;
        self.bytes.append(bytes)?;
        self.persist(at, bytes.len());
        Ok(())
    }

    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.bytes.write_at(at, bytes)?;
        self.persist(at, bytes.len());
        Ok(())
    }
}
