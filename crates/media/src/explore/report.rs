//! What an exploration found.

use std::fmt;

use super::Mutation;

/// Where in a workload the power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CrashPoint {
    /// Before the n-th fence, counted from 0, has done its work.
    Fence(usize),
    /// In the n-th growth.
    Grow(usize),
    /// Before the n-th sync has done its work.
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

/// What a check is told about the crash whose image it opens.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Crash<'a> {
    /// Where it happened.
    pub point: CrashPoint,
    /// Operations acknowledged before, in order: all of them must be there.
    pub acknowledged: &'a [u64],
    /// The operation begun and not acknowledged: it must be there wholly or not at all.
    pub in_flight: Option<u64>,
}

/// What was tried; every image passed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Crash points: fences, growths, syncs, and the end.
    pub points: usize,
    /// Points at which there were too many combinations to try all.
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
    /// Images that were not opened as an identical one had passed with the same operations acknowledged.
    pub repeated: usize,
    /// Combinations the crash model allows, over all points (saturating).
    pub possible: u128,
}

impl Report {
    /// Whether every allowed image was checked.
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

/// A line of an image that is not as it was durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrivedLine {
    /// Its offset in bytes.
    pub offset: u64,
    /// How many of its different later states had come about.
    pub arrived: u32,
    /// How many there were.
    pub of: u32,
}

/// A crash image that the check did not accept. `Display` tells the whole story; [`image`](Violation::image)
/// and [`replay`](Violation::replay) help to debug it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", self.story())]
#[non_exhaustive]
pub struct Violation {
    /// What the check said.
    pub message: String,
    /// Where the power went.
    pub point: CrashPoint,
    /// Operations acknowledged before.
    pub acknowledged: Vec<u64>,
    /// The operation in flight.
    pub in_flight: Option<u64>,
    /// Lines that had arrived at least in part without being durable.
    pub arrived: Vec<ArrivedLine>,
    /// Offsets of lines that were pending and had not arrived at all.
    pub missing: Vec<u64>,
    /// The seed of the exploration: with it, the same workload fails in the same place.
    pub seed: u64,
    /// The mistake that was put in, if any.
    pub mutation: Option<Mutation>,
    /// The whole image.
    pub image: Vec<u8>,
}

impl Violation {
    /// Opens the image once more.
    ///
    /// # Errors
    /// What the check says about it.
    ///
    /// # Panics
    /// If there is no memory for the image.
    pub fn replay<E>(
        &self,
        check: impl FnOnce(std::sync::Arc<crate::Tracked>, &Crash<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let medium = crate::Tracked::from_image(&self.image).unwrap_or_else(|error| panic!("{error}"));
        let crash = Crash {
            point: self.point,
            acknowledged: &self.acknowledged,
            in_flight: self.in_flight,
        };
        check(std::sync::Arc::new(medium), &crash)
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

/// What became of a workload with each flush and each fence left out in turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MutantReport {
    /// The report of the workload as it is.
    pub unchanged: Report,
    /// Images opened and checked, of the workload as it is and of its mutants, each counted once.
    pub images: usize,
    /// Mutants the check noticed.
    pub caught: usize,
    /// Mutants it did not notice: either the flush or fence is not needed, or the check is too weak. With the
    /// call's description.
    pub missed: Vec<(Mutation, String)>,
    /// Flushes of lines with nothing new in them and fences with nothing flushed before: they do nothing in
    /// this workload, so leaving them out cannot be noticed.
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
