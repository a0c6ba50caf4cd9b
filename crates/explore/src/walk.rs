//! A traversal of a trace that tries the images of each crash point.

use std::collections::HashSet;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use halocline_media::LINE;

use crate::images::Images;
use crate::model::{CrashModel, ImageHash, LineBytes, LineStates};
use crate::trace::{Trace, TraceEvent};
use crate::{ArrivedLine, Crash, CrashPoint, Explorer, Mutation, Report, Tracked, Violation, choices};

/// Images that passed: hash, length, number of acknowledged operations, and the operation in flight.
type PassedImages = HashSet<(ImageHash, u64, usize, Option<u64>)>;

/// The durable, pending and acknowledged state at an event of a trace.
#[derive(Debug, Clone)]
struct WalkState {
    model: CrashModel,
    /// Hash of the durable bytes.
    hash: ImageHash,
    acknowledged: Vec<u64>,
    in_flight: Option<u64>,
    report: Report,
}

impl WalkState {
    fn new(start: Vec<u8>) -> WalkState {
        WalkState {
            hash: ImageHash::new(&start),
            model: CrashModel::new(start),
            acknowledged: Vec::new(),
            in_flight: None,
            report: Report::default(),
        }
    }
}

/// A summary of a state. Two states with equal signatures at the same event have the same crash points from
/// there on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signature {
    durable: ImageHash,
    pending: u64,
}

/// A line whose contents are undetermined after a crash.
struct OpenLine {
    states: LineStates,
    /// The change of the image's hash for each possible content.
    differences: Vec<ImageHash>,
}

pub(crate) struct TraceWalk<'a, C> {
    explorer: &'a Explorer,
    mutation: Option<Mutation>,
    state: WalkState,
    images: Images,
    passed: PassedImages,
    check: &'a mut C,
}

impl<'a, C, E: Display> TraceWalk<'a, C>
where
    C: FnMut(Arc<Tracked>, &Crash<'_>) -> Result<(), E>,
{
    pub(crate) fn new(explorer: &'a Explorer, trace: &Trace, check: &'a mut C) -> TraceWalk<'a, C> {
        TraceWalk {
            explorer,
            mutation: explorer.mutation,
            state: WalkState::new(trace.start.clone()),
            images: Images::default(),
            passed: PassedImages::default(),
            check,
        }
    }

    pub(crate) fn signature(&self) -> Signature {
        Signature {
            durable: self.state.hash,
            pending: self.state.model.pending_hash(),
        }
    }

    /// Advances by one event, after trying a crash at it if it is a crash point.
    pub(crate) fn step(&mut self, event: &TraceEvent) -> Result<(), Box<Violation>> {
        let report = &self.state.report;
        match event {
            TraceEvent::Fence => self.crash(CrashPoint::Fence(report.fences), None)?,
            TraceEvent::Resize { len } => self.crash(CrashPoint::Grow(report.growths), Some(*len))?,
            TraceEvent::Sync => self.crash(CrashPoint::Sync(report.syncs), None)?,
            _ => {}
        }
        self.skip(event);
        Ok(())
    }

    /// Advances by one event without a crash.
    pub(crate) fn skip(&mut self, event: &TraceEvent) {
        let WalkState {
            model,
            hash,
            acknowledged,
            in_flight,
            report,
        } = &mut self.state;
        match event {
            TraceEvent::Fence => report.fences += 1,
            TraceEvent::Resize { .. } => report.growths += 1,
            TraceEvent::Sync => report.syncs += 1,
            TraceEvent::Flush { .. } => report.flushes += 1,
            TraceEvent::Begin { operation } => *in_flight = Some(*operation),
            TraceEvent::Acknowledge { operation } => {
                acknowledged.push(*operation);
                *in_flight = None;
            }
            TraceEvent::Store { .. } => {}
        }
        let changed = model.apply(event);
        for (line, old) in &changed {
            hash.replace(*line, old, &model.line(*line));
        }
        self.images
            .durable_changed(changed.into_iter().map(|(line, _)| line));
    }

    /// Tries the crash after the last event.
    pub(crate) fn end(&mut self) -> Result<Report, Box<Violation>> {
        self.crash(CrashPoint::End, None)?;
        Ok(self.state.report.clone())
    }

    /// Returns to the first event. The set of images that passed is kept.
    pub(crate) fn rewind(&mut self, trace: &Trace) {
        self.go_to(WalkState::new(trace.start.clone()));
    }

    /// Continues with the first of `events` left out, until the end or until the signature at a fence equals
    /// the `known` one of the unchanged workload; then returns to the present state. Also returns the
    /// number of images opened.
    pub(crate) fn fork(
        &mut self,
        left_out: Mutation,
        events: &[TraceEvent],
        known: &[Signature],
    ) -> (usize, Result<(), Box<Violation>>) {
        let before = self.state.clone();
        self.mutation = Some(left_out);
        let result = self.walk_without_first(events, known);
        let images = self.state.report.images - before.report.images;
        self.mutation = None;
        self.go_to(before);
        (images, result)
    }

    fn walk_without_first(
        &mut self,
        events: &[TraceEvent],
        known: &[Signature],
    ) -> Result<(), Box<Violation>> {
        let mut known = known[self.state.report.fences..].iter();
        for (number, event) in events.iter().enumerate() {
            let known = match event {
                TraceEvent::Fence => known.next(),
                _ => None,
            };
            if number == 0 {
                continue;
            }
            if known.is_some_and(|known| *known == self.signature()) {
                return Ok(());
            }
            self.step(event)?;
        }
        self.end().map(drop)
    }

    fn go_to(&mut self, state: WalkState) {
        let lines = state.model.durable_differs(&self.state.model);
        self.images.durable_changed(lines);
        self.state = state;
    }

    /// Tries the images of a crash at this point. If `resized` is given, the image may have that length
    /// instead.
    fn crash(&mut self, point: CrashPoint, resized: Option<u64>) -> Result<(), Box<Violation>> {
        let model = &self.state.model;
        let lens: Vec<u64> = std::iter::once(model.durable().len() as u64)
            .chain(resized)
            .collect();
        // Lines that may be cut off are skipped: their contents must not matter.
        let least = lens.iter().copied().min().unwrap_or(0);
        let lines = model.open_lines().into_iter();
        let lines = lines.filter(|states| states.line * LINE < least);
        let lines: Vec<OpenLine> = lines.map(OpenLine::from).collect();
        let mut states = vec![lens.len() as u32];
        states.extend(lines.iter().map(|line| line.differences.len() as u32));
        let report = &mut self.state.report;
        let points = report.fences + report.growths + report.syncs;
        let seed = self.explorer.seed.wrapping_add(points as u64);
        let choices = choices::choose(&states, self.explorer.limit, seed);
        report.points += 1;
        report.sampled_points += usize::from(!choices.exhaustive);
        report.possible = report.possible.saturating_add(choices.possible);
        for choice in &choices.list {
            if let Some((len, arrived)) = choice.split_first() {
                self.image(point, lens[*len as usize], &lines, arrived)?;
            }
        }
        Ok(())
    }

    /// Tries one image, in which each of `lines` has the content that `arrived` selects.
    fn image(
        &mut self,
        point: CrashPoint,
        len: u64,
        lines: &[OpenLine],
        arrived: &[u32],
    ) -> Result<(), Box<Violation>> {
        let WalkState {
            model,
            acknowledged,
            in_flight,
            report,
            hash,
        } = &mut self.state;
        let differences = lines.iter().zip(arrived);
        let hash = differences.fold(*hash, |hash, (line, arrived)| {
            hash.with(line.differences[*arrived as usize])
        });
        let image = (hash, len, acknowledged.len(), *in_flight);
        if !self.passed.insert(image) {
            report.repeated += 1;
            return Ok(());
        }
        report.images += 1;
        let changed = || {
            let chosen = lines.iter().zip(arrived).filter(|(_, arrived)| **arrived > 0);
            chosen.map(|(line, arrived)| (line.states.line, &line.states.contents[*arrived as usize]))
        };
        let medium = self
            .images
            .open(model, changed(), len)
            .unwrap_or_else(|error| panic!("{error}"));
        let crash = Crash {
            point,
            acknowledged,
            in_flight: *in_flight,
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
        // A mutant may fail with an image that the unchanged workload never leaves, so do not remember it as
        // passed.
        self.passed.remove(&image);
        let mut image = model.durable().to_vec();
        image.resize(len as usize, 0);
        for (line, contents) in changed() {
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
        lines: &[OpenLine],
        arrived: &[u32],
    ) -> Violation {
        let mut violation = Violation {
            message,
            point,
            acknowledged: self.state.acknowledged.clone(),
            in_flight: self.state.in_flight,
            arrived: Vec::new(),
            missing: Vec::new(),
            seed: self.explorer.seed,
            mutation: self.mutation,
            image,
        };
        for (line, arrived) in lines.iter().zip(arrived) {
            let offset = line.states.line * LINE;
            match arrived {
                0 => violation.missing.push(offset),
                _ => violation.arrived.push(ArrivedLine {
                    offset,
                    arrived: *arrived,
                    of: line.differences.len() as u32 - 1,
                }),
            }
        }
        violation
    }
}

impl From<LineStates> for OpenLine {
    fn from(states: LineStates) -> OpenLine {
        let durable: &LineBytes = &states.contents[0];
        let difference = |contents| ImageHash::difference(states.line, durable, contents);
        OpenLine {
            differences: states.contents.iter().map(difference).collect(),
            states,
        }
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
