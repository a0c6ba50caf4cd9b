//! The crash explorer: runs a workload on a [`Tracked`] medium and opens every state a crash may leave.
//!
//! ```
//! use halocline_media::explore::Explorer;
//! use halocline_media::Medium;
//!
//! // Two words, published by a third: the pointer must not be durable before what it points to.
//! let report = Explorer::default().mutants(
//!     |medium| medium.grow(4096).unwrap(),
//!     |medium| {
//!         medium.begin(1);
//!         medium.store_u64(0, 7);
//!         medium.persist(0, 8).unwrap();
//!         medium.store_u64(64, 1);
//!         medium.persist(64, 8).unwrap();
//!         medium.acknowledge(1);
//!     },
//!     |medium, crash| match (medium.load_u64(64), medium.load_u64(0)) {
//!         (1, 7) => Ok(()),
//!         (0, _) if crash.acknowledged.is_empty() => Ok(()),
//!         other => Err(format!("found {other:?}")),
//!     },
//! )?;
//! assert!(report.unchanged.exhaustive());
//! assert_eq!((report.caught, report.missed.len()), (4, 0), "{report}");
//! # Ok::<(), Box<halocline_media::explore::Violation>>(())
//! ```
//!
//! The workload runs once and is recorded; images are then derived from the record, so a flush or fence can
//! be left out of it without running it again. The states at a fence include those of every moment since the
//! fence before, as each is a state in which less has arrived.

mod choices;
mod images;
mod model;
mod moment;
mod mutation;
mod report;

use std::collections::HashSet;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use images::Images;
use model::{CrashModel, ImageHash, Line, LineStates};

pub use moment::{CrashImage, Recorder};
pub use mutation::Mutation;
pub use report::{ArrivedLine, Crash, CrashPoint, MutantReport, Report, Violation};

use crate::trace::{Event, Trace};
use crate::{LINE, Tracked};

/// How to explore. The default tries up to 4096 images at each crash point.
#[derive(Debug, Clone)]
pub struct Explorer {
    /// Images at one crash point up to which all are tried; beyond it a sample of about this size, which
    /// always has the extremes: nothing pending arrived, all arrived, each line alone arrived, each line
    /// alone missing.
    pub limit: usize,
    /// Draws the sample.
    pub seed: u64,
    /// A mistake to put into the workload before it is explored.
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

/// Images that passed: their hash, length, the number of operations acknowledged, the one in flight.
type Passed = HashSet<(ImageHash, u64, usize, Option<u64>)>;

impl Explorer {
    /// Prepares an empty medium with `setup`, runs `workload` on it and calls `check` with every image (or a
    /// sample, see [`limit`](Explorer::limit)) that a crash may leave at any moment of the workload.
    ///
    /// What `setup` leaves counts as durable. The workload marks its operations with [`Tracked::begin`] and
    /// [`Tracked::acknowledge`]. The check gets a fresh medium that it may change (recovery does), and fails
    /// by an error or by a panic. Workloads of several threads are explored in the order their calls happened
    /// to have.
    ///
    /// # Errors
    /// The first image that the check did not accept.
    ///
    /// # Panics
    /// If there is no memory for an image.
    pub fn run<E: Display>(
        &self,
        setup: impl FnOnce(&Arc<Tracked>),
        workload: impl FnOnce(&Arc<Tracked>),
        mut check: impl FnMut(Arc<Tracked>, &Crash<'_>) -> Result<(), E>,
    ) -> Result<Report, Box<Violation>> {
        self.explore(&record(setup, workload), &mut Passed::default(), &mut check)
    }

    /// As [`run`](Explorer::run), and then once more for each flush and each fence of the workload with that
    /// one left out. A crash test that is worth its name has none [`missed`](MutantReport::missed).
    ///
    /// # Errors
    /// The first image that the check did not accept of the unchanged workload.
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
        let mut passed = Passed::default();
        let unchanged = Explorer {
            mutation: None,
            ..self.clone()
        }
        .explore(&trace, &mut passed, &mut check)?;
        let mut report = MutantReport {
            unchanged,
            ..MutantReport::default()
        };
        for (mutation, matters, call) in mutation::each_left_out(&trace) {
            let mutated = Explorer {
                mutation: Some(mutation),
                ..self.clone()
            };
            if !matters {
                report.idle.push((mutation, call));
            } else if mutated.explore(&trace, &mut passed, &mut check).is_ok() {
                report.missed.push((mutation, call));
            } else {
                report.caught += 1;
            }
        }
        Ok(report)
    }

    fn explore<E: Display>(
        &self,
        trace: &Trace,
        passed: &mut Passed,
        check: &mut impl FnMut(Arc<Tracked>, &Crash<'_>) -> Result<(), E>,
    ) -> Result<Report, Box<Violation>> {
        let events = match self.mutation {
            Some(mutation) => mutation.apply(&trace.events),
            None => trace.events.iter().collect(),
        };
        let mut walk = Walk {
            explorer: self,
            hash: ImageHash::of(&trace.start),
            model: CrashModel::new(trace.start.clone()),
            images: Images::default(),
            acknowledged: Vec::new(),
            in_flight: None,
            report: Report::default(),
            passed,
            check,
        };
        for event in events {
            walk.step(event)?;
        }
        walk.crash(CrashPoint::End, None)?;
        Ok(walk.report)
    }
}

fn record(setup: impl FnOnce(&Arc<Tracked>), workload: impl FnOnce(&Arc<Tracked>)) -> Trace {
    let medium = Arc::new(Tracked::new(0).unwrap_or_else(|error| panic!("{error}")));
    setup(&medium);
    medium.start_recording();
    workload(&medium);
    medium.stop_recording()
}

/// A walk through a trace, with what is durable, pending and acknowledged at the present event.
struct Walk<'a, C> {
    explorer: &'a Explorer,
    model: CrashModel,
    /// Of the durable bytes.
    hash: ImageHash,
    images: Images,
    acknowledged: Vec<u64>,
    in_flight: Option<u64>,
    report: Report,
    passed: &'a mut Passed,
    check: &'a mut C,
}

impl<C, E: Display> Walk<'_, C>
where
    C: FnMut(Arc<Tracked>, &Crash<'_>) -> Result<(), E>,
{
    fn step(&mut self, event: &Event) -> Result<(), Box<Violation>> {
        match event {
            Event::Fence => {
                self.crash(CrashPoint::Fence(self.report.fences), None)?;
                self.report.fences += 1;
            }
            Event::Grow { len } => {
                self.crash(CrashPoint::Grow(self.report.growths), Some(*len))?;
                self.report.growths += 1;
            }
            Event::Sync => {
                self.crash(CrashPoint::Sync(self.report.syncs), None)?;
                self.report.syncs += 1;
            }
            Event::Flush { .. } => self.report.flushes += 1,
            Event::Begin { operation } => self.in_flight = Some(*operation),
            Event::Acknowledge { operation } => {
                self.acknowledged.push(*operation);
                self.in_flight = None;
            }
            Event::Store { .. } => {}
        }
        let changed = self.model.apply(event);
        for (line, old) in &changed {
            self.hash.replace(*line, old, &self.model.line(*line));
        }
        self.images
            .durable_changed(changed.into_iter().map(|(line, _)| line));
        Ok(())
    }

    /// Tries the images of a crash here; `grown` is the length after a growth that may have happened or not.
    fn crash(&mut self, point: CrashPoint, grown: Option<u64>) -> Result<(), Box<Violation>> {
        let lines = self.model.open_lines();
        let lens: Vec<u64> = std::iter::once(self.model.durable().len() as u64)
            .chain(grown)
            .collect();
        let mut states = vec![lens.len() as u32];
        states.extend(lines.iter().map(|line| line.contents.len() as u32));
        let seed = self.explorer.seed.wrapping_add(self.report.points as u64);
        let choices = choices::choose(&states, self.explorer.limit, seed);
        self.report.points += 1;
        self.report.sampled_points += usize::from(!choices.exhaustive);
        self.report.possible = self.report.possible.saturating_add(choices.possible);
        for choice in &choices.list {
            if let Some((len, arrived)) = choice.split_first() {
                self.image(point, lens[*len as usize], &lines, arrived)?;
            }
        }
        Ok(())
    }

    /// Tries one image: of `lines`, those contents that `arrived` picks.
    fn image(
        &mut self,
        point: CrashPoint,
        len: u64,
        lines: &[LineStates],
        arrived: &[u32],
    ) -> Result<(), Box<Violation>> {
        let mut hash = self.hash;
        let mut changed: Vec<(u64, Line)> = Vec::new();
        for (line, arrived) in lines.iter().zip(arrived).filter(|(_, arrived)| **arrived > 0) {
            let contents = line.contents[*arrived as usize];
            hash.replace(line.line, &line.contents[0], &contents);
            changed.push((line.line, contents));
        }
        if !self
            .passed
            .insert((hash, len, self.acknowledged.len(), self.in_flight))
        {
            self.report.repeated += 1;
            return Ok(());
        }
        self.report.images += 1;
        let medium = self
            .images
            .open(&self.model, &changed, len)
            .unwrap_or_else(|error| panic!("{error}"));
        let crash = Crash {
            point,
            acknowledged: &self.acknowledged,
            in_flight: self.in_flight,
        };
        let result = catch_unwind(AssertUnwindSafe(|| (self.check)(Arc::clone(&medium), &crash)));
        let message = match result {
            Ok(Ok(())) => {
                self.images.give_back(medium);
                return Ok(());
            }
            Ok(Err(error)) => error.to_string(),
            Err(panic) => panic_message(panic.as_ref()),
        };
        // A mutant may fail with an image that the unchanged workload never leaves: it has not passed.
        self.passed
            .remove(&(hash, len, self.acknowledged.len(), self.in_flight));
        let mut image = self.model.durable().to_vec();
        image.resize(len as usize, 0);
        for (line, contents) in &changed {
            let from = (line * LINE) as usize;
            image[from..from + contents.len()].copy_from_slice(contents);
        }
        Err(Box::new(self.violation(message, point, image, lines, arrived)))
    }

    fn violation(
        &self,
        message: String,
        point: CrashPoint,
        image: Vec<u8>,
        lines: &[LineStates],
        arrived: &[u32],
    ) -> Violation {
        let mut violation = Violation {
            message,
            point,
            acknowledged: self.acknowledged.clone(),
            in_flight: self.in_flight,
            arrived: Vec::new(),
            missing: Vec::new(),
            seed: self.explorer.seed,
            mutation: self.explorer.mutation,
            image,
        };
        for (line, arrived) in lines.iter().zip(arrived) {
            let offset = line.line * LINE;
            match arrived {
                0 => violation.missing.push(offset),
                _ => {
                    let of = line.contents.len() as u32 - 1;
                    violation.arrived.push(ArrivedLine {
                        offset,
                        arrived: *arrived,
                        of,
                    });
                }
            }
        }
        violation
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!(
        "panic: {}",
        text.unwrap_or_else(|| "without a message".to_string())
    )
}
