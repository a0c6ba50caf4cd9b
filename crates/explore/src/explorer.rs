//! The exploration of a workload, with and without faults: [`Explorer`].

use std::fmt::Display;
use std::sync::Arc;

use crate::trace::{Trace, TraceEvent};
use crate::walk::TraceWalk;
use crate::{Crash, MutantReport, Mutation, Report, Tracked, Violation, mutation};

/// Options of an exploration. By default up to 4096 images are tried at each crash point.
#[derive(Debug, Clone)]
pub struct Explorer {
    /// Number of images at one crash point up to which all are tried. Beyond it, a sample of about this size
    /// is drawn that always includes the extremes: nothing pending arrived, all arrived, each line alone
    /// arrived, each line alone missing.
    pub limit: usize,
    /// The seed of the sample.
    pub seed: u64,
    /// A fault to put into the workload before it is explored.
    pub mutation: Option<Mutation>,
}

impl Default for Explorer {
    fn default() -> Explorer {
        Explorer {
            limit: 4096,
            seed: 0x5EED,
            mutation: None,
        }
    }
}

impl Explorer {
    /// Prepares an empty medium with `setup`, runs `workload` on it, and calls `check` with every image (or a
    /// sample, see [`limit`](Explorer::limit)) that a crash may leave at any moment of the workload.
    ///
    /// The result of `setup` counts as durable. The workload marks its operations with [`Tracked::begin`] and
    /// [`Tracked::acknowledge`]. The check gets a fresh medium that it may change, as recovery does, and
    /// fails by an error or by a panic. Workloads of several threads are explored in the recorded order
    /// of their calls.
    ///
    /// # Errors
    /// The first image that the check rejects.
    ///
    /// # Panics
    /// If there is no memory for an image.
    pub fn run<E: Display>(
        &self,
        setup: impl FnOnce(&Arc<Tracked>),
        workload: impl FnOnce(&Arc<Tracked>),
        mut check: impl FnMut(Arc<Tracked>, &Crash<'_>) -> Result<(), E>,
    ) -> Result<Report, Box<Violation>> {
        let trace = record(setup, workload);
        let events = match self.mutation {
            Some(mutation) => mutation.apply(&trace.events),
            None => trace.events.iter().collect(),
        };
        let mut walk = TraceWalk::new(self, &trace, &mut check);
        for event in events {
            walk.step(event)?;
        }
        walk.end()
    }

    /// Explores the workload like [`run`](Explorer::run), and then once more for each of its flushes and
    /// fences with that one left out. For an adequate crash test, none is
    /// [`missed`](MutantReport::missed).
    ///
    /// # Errors
    /// The first image of the unchanged workload that the check rejects.
    ///
    /// # Panics
    /// If there is no memory for an image.
    pub fn mutants<E: Display>(
        &self,
        setup: impl FnOnce(&Arc<Tracked>),
        workload: impl FnOnce(&Arc<Tracked>),
        mut check: impl FnMut(Arc<Tracked>, &Crash<'_>) -> Result<(), E>,
    ) -> Result<MutantReport, Box<Violation>> {
        let trace = record(setup, workload);
        let explorer = Explorer {
            mutation: None,
            ..self.clone()
        };
        let mut walk = TraceWalk::new(&explorer, &trace, &mut check);
        // Signatures at each fence: a mutant that reaches the same state as the original has nothing new to
        // show.
        let mut known = Vec::new();
        for event in &trace.events {
            if matches!(event, TraceEvent::Fence) {
                known.push(walk.signature());
            }
            walk.step(event)?;
        }
        let mut report = MutantReport {
            unchanged: walk.end()?,
            ..MutantReport::default()
        };
        report.images = report.unchanged.images;
        walk.rewind(&trace);
        let mut position = 0;
        for call in mutation::calls(&trace) {
            trace.events[position..call.position]
                .iter()
                .for_each(|event| walk.skip(event));
            position = call.position;
            let listed = (call.left_out, call.text);
            if !call.matters {
                report.idle.push(listed);
                continue;
            }
            match walk.fork(call.left_out, &trace.events[call.position..], &known) {
                (images, Ok(())) => {
                    report.images += images;
                    report.missed.push(listed);
                }
                (images, Err(_)) => {
                    report.images += images;
                    report.caught += 1;
                }
            }
        }
        Ok(report)
    }
}

fn record(setup: impl FnOnce(&Arc<Tracked>), workload: impl FnOnce(&Arc<Tracked>)) -> Trace {
    let medium = Arc::new(Tracked::new(0).unwrap_or_else(|error| panic!("{error}")));
    setup(&medium);
    medium.start_recording();
    workload(&medium);
    medium.stop_recording()
}
