//! Cost of the emulation to a tree, so that it is not taken for work of the modelled core.
//!
//! A look at the clock has to wait for what came before, so a call of the model costs its caller more than
//! the model computes. How much depends on the operation. So it is done part by part, each first by a tree in
//! a file in DRAM, whose flushes are executed, and by one on a device of the host's own figures, its cache
//! among them, which adds nothing else; the difference, by calls, is charged to the device before it does its
//! part. With the charge the second must take what the first does: how far it is off is a result too.

use std::sync::Arc;
use std::time::Duration;

use halocline_emulator::{Device, Watch};
use halocline_pool::Pool;

use super::super::ensure_same;
use super::super::medium::TreeMedium;
use super::store::Store;
use super::{Contender, Operation, TreeVariant, share};
use crate::BenchError;

/// Parts of an operation.
const PARTS: usize = 8;

/// The same tree twice: what the emulation costs shows between the two.
pub(super) struct Twins {
    plain: Box<dyn Store>,
    emulated: Box<dyn Store>,
    device: Arc<Device>,
}

/// Cost of a call of the emulation, for one operation of one tree.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Charge {
    /// Nanoseconds; `None` before the first part.
    pub(super) call_ns: Option<f64>,
    /// Seconds of the twins, of parts with the charge.
    plain: f64,
    emulated: f64,
}

impl Twins {
    /// Creates the twins of a tree, or returns `None` if there are no real delays.
    pub(super) fn new(system: TreeVariant, place: &TreeMedium) -> Result<Option<Self>, BenchError> {
        let Some((plain, (emulated, device))) = place.make_twins(system.kind.name())? else {
            return Ok(None);
        };
        Ok(Some(Twins {
            plain: Box::new(system.create(&Pool::create_on(plain)?, "tree")?),
            emulated: Box::new(system.create(&Pool::create_on(emulated)?, "tree")?),
            device,
        }))
    }

    /// Runs the operation on both twins, adjusts the charge to their times and returns the sum of what they
    /// found.
    fn learn(
        &self,
        operation: Operation,
        threads: usize,
        keys: &[u64],
        charge: &mut Charge,
    ) -> Result<u64, BenchError> {
        self.device.charge(charge.call());
        let run = |store: &dyn Store, device: Option<&Arc<Device>>| {
            let watch = Watch::start(device);
            let found = share(threads, keys, |keys| operation.run(store, keys))?;
            Ok::<_, BenchError>((found, watch.lap()))
        };
        let (found, plain) = run(&*self.plain, None)?;
        let (found_again, lap) = run(&*self.emulated, Some(&self.device))?;
        let calls = lap.counts.calls as f64 / threads as f64;
        charge.learn(plain.time.as_secs_f64(), lap.time.as_secs_f64(), calls);
        ensure_same(
            operation.name(),
            ("in DRAM", found),
            ("in emulated DRAM", found_again),
        )?;
        Ok(found)
    }
}

impl Charge {
    fn call(self) -> Duration {
        Duration::from_secs_f64(self.call_ns.unwrap_or(0.0) / 1e9)
    }

    fn learn(&mut self, plain: f64, emulated: f64, calls: f64) {
        let more_ns = (emulated - plain) * 1e9 / calls.max(1.0);
        self.call_ns = Some(match self.call_ns {
            None => more_ns.max(0.0),
            Some(before) => {
                self.plain += plain;
                self.emulated += emulated;
                // Half of what this part says: another is not quite the same.
                (before + more_ns / 2.0).max(0.0)
            }
        });
    }

    /// Returns how much longer an emulation of this host's DRAM, with the charge, takes than the DRAM itself,
    /// as a fraction of its time. Returns `None` if no part was timed with the charge.
    pub(super) fn off(self) -> Option<f64> {
        (self.plain > 0.0).then(|| self.emulated / self.plain - 1.0)
    }
}

/// Runs an operation of a contender on all keys and returns the sum of what was found and the millions of
/// operations per second. The first part is not timed if the charge is learned from it.
pub(super) fn timed(
    operation: Operation,
    threads: usize,
    contender: &Contender,
    keys: &[u64],
    charge: &mut Charge,
) -> Result<(u64, f64), BenchError> {
    let parts = if contender.twins.is_some() { PARTS } else { 1 };
    let (mut sum, mut done, mut seconds) = (0_u64, 0, 0.0);
    for part in keys.chunks(keys.len().div_ceil(parts).max(1)) {
        let counts = contender.twins.is_none() || charge.call_ns.is_some();
        let of_twins = match &contender.twins {
            Some(twins) => Some(twins.learn(operation, threads, part, charge)?),
            None => None,
        };
        if let Some(device) = &contender.device {
            device.charge(charge.call());
        }
        let watch = Watch::start(contender.device.as_ref());
        let found = share(threads, part, |keys| operation.run(&*contender.store, keys))?;
        if let Some(of_twins) = of_twins {
            ensure_same(
                operation.name(),
                (&contender.name, found),
                ("its twins", of_twins),
            )?;
        }
        if counts {
            seconds += watch.elapsed().as_secs_f64();
            done += part.len();
        }
        sum = sum.wrapping_add(found);
    }
    Ok((sum, done as f64 / seconds / 1e6))
}
