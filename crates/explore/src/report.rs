//! Results of an exploration.

use std::fmt;
use std::sync::Arc;

use crate::{Mutation, Tracked};

/// The point of a workload at which the power fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CrashPoint {
    /// Before the n-th fence (counted from 0) takes effect.
    Fence(usize),
    /// During the n-th growth.
    Grow(usize),
    /// Before the n-th sync takes effect.
    Sync(usize),
    /// After the last call.
    End,
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CrashPoint::Fence(number) => write!(f, "at fence {number}"),
            CrashPoint::Grow(number) => write!(f, "in growth {number}"),
            CrashPoint::Sync(number) => write!(f, "at sync {number}"),
            CrashPoint::End => f.write_str("after the last call"),
        }
    }
}

/// The crash whose image a check opens.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Crash<'a> {
    /// The point of the crash.
    pub point: CrashPoint,
    /// Operations acknowledged before the crash, in order, all of which must be present.
    pub acknowledged: &'a [u64],
    /// The operation that had begun and was not acknowledged, which must be present wholly or not at all.
    pub in_flight: Option<u64>,
}

impl Crash<'_> {
    /// Returns the least and the greatest number of operations that may be present, if `before` operations
    /// were done before the workload.
    pub fn completed(&self, before: usize) -> (usize, usize) {
        let least = before + self.acknowledged.len();
        (least, least + usize::from(self.in_flight.is_some()))
    }
}

/// The extent of an exploration in which every image passed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Crash points: fences, growths, syncs, and the end.
    pub points: usize,
    /// Points with too many combinations to try all.
    pub sampled_points: usize,
    /// Fences recorded.
    pub fences: usize,
    /// Flushes recorded.
    pub flushes: usize,
    /// Growths recorded.
    pub growths: usize,
    /// Syncs recorded.
    pub syncs: usize,
    /// Images opened and checked.
    pub images: usize,
    /// Images that were skipped because an identical one had passed with the same operations acknowledged.
    pub repeated: usize,
    /// Combinations that the crash model allows, over all points (saturating).
    pub possible: u128,
}

impl Report {
    /// Returns true if every allowed image was checked.
    pub fn exhaustive(&self) -> bool {
        self.sampled_points == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            points,
            images,
            repeated,
            possible,
            flushes,
            fences,
            ..
        } = self;
        write!(
            f,
            "{images} crash images ({repeated} repeated) of {possible} at {points} points, "
        )?;
        write!(f, "{flushes} flushes, {fences} fences, ")?;
        match self.sampled_points {
            0 => f.write_str("exhaustive"),
            sampled => write!(f, "{sampled} points sampled"),
        }
    }
}

/// A line of an image that differs from its durable contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrivedLine {
    /// The offset of the line, in bytes.
    pub offset: u64,
    /// The number of its distinct later states that had arrived.
    pub arrived: u32,
    /// The number of its distinct later states.
    pub of: u32,
}

/// A crash image that the check rejected. `Display` describes it; [`image`](Violation::image) and
/// [`replay`](Violation::replay) help to debug it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", self.story())]
#[non_exhaustive]
pub struct Violation {
    /// The message of the check.
    pub message: String,
    /// The point of the crash.
    pub point: CrashPoint,
    /// Operations acknowledged before the crash.
    pub acknowledged: Vec<u64>,
    /// The operation in flight.
    pub in_flight: Option<u64>,
    /// Lines that had arrived at least in part without being durable.
    pub arrived: Vec<ArrivedLine>,
    /// Offsets of pending lines that had not arrived at all.
    pub missing: Vec<u64>,
    /// The seed of the exploration, which reproduces the failure with the same workload.
    pub seed: u64,
    /// The fault that was put in, if any.
    pub mutation: Option<Mutation>,
    /// The whole image.
    pub image: Vec<u8>,
}

impl Violation {
    /// Opens the image once more.
    ///
    /// # Errors
    /// The error of the check.
    ///
    /// # Panics
    /// If there is no memory for the image.
    pub fn replay<E>(&self, check: impl FnOnce(Arc<Tracked>, &Crash<'_>) -> Result<(), E>) -> Result<(), E> {
        let medium = Tracked::from_image(&self.image).unwrap_or_else(|error| panic!("{error}"));
        let crash = Crash {
            point: self.point,
            acknowledged: &self.acknowledged,
            in_flight: self.in_flight,
        };
        check(Arc::new(medium), &crash)
    }

    fn story(&self) -> String {
        let mut story = format!("crash {}", self.point);
        if let Some(mutation) = self.mutation {
            story += &format!(" with {mutation}");
        }
        story += &format!(": {}\n  seed {}", self.message, self.seed);
        let acknowledged = &self.acknowledged[self.acknowledged.len().saturating_sub(8)..];
        story += &format!(
            "\n  {} operations acknowledged, the last {acknowledged:?}",
            self.acknowledged.len()
        );
        match self.in_flight {
            Some(operation) => story += &format!("; {operation} in flight"),
            None => story += "; none in flight",
        }
        for line in self.arrived.iter().take(32) {
            story += &format!(
                "\n  line at {} arrived ({} of {})",
                line.offset, line.arrived, line.of
            );
        }
        for offset in self.missing.iter().take(32) {
            story += &format!("\n  line at {offset} missing");
        }
        let more = self.arrived.len().saturating_sub(32) + self.missing.len().saturating_sub(32);
        if more > 0 {
            story += &format!("\n  and {more} more lines");
        }
        story
    }
}

/// The results of a workload with each flush and each fence left out in turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MutantReport {
    /// The report of the unchanged workload.
    pub unchanged: Report,
    /// Images opened and checked for the unchanged workload and its mutants, each counted once.
    pub images: usize,
    /// Mutants that the check rejected.
    pub caught: usize,
    /// Mutants that the check accepted, with a description of the call: either the flush or fence is not
    /// needed, or the check is too weak.
    pub missed: Vec<(Mutation, String)>,
    /// Flushes of lines without new stores and fences without a flush before them. They have no effect in
    /// this workload, so leaving them out cannot be detected.
    pub idle: Vec<(Mutation, String)>,
}

impl fmt::Display for MutantReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {} mutants caught, ", self.unchanged, self.caught)?;
        write!(f, "{} images in all", self.images)?;
        for (list, name) in [(&self.missed, "missed"), (&self.idle, "idle")] {
            for (_, call) in list {
                write!(f, "\n  {name}: {call}")?;
            }
        }
        Ok(())
    }
}
