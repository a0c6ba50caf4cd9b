//! A walk through a trace that tries the images of each crash point.

use std::collections::HashSet;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::choices;
use super::images::Images;
use super::model::{CrashModel, ImageHash, Line, LineStates};
use super::{ArrivedLine, Crash, CrashPoint, Explorer, Mutation, Report, Violation};
use crate::trace::{Event, Trace};
use crate::{LINE, Tracked};

/// Images that passed: their hash, length, the number of operations acknowledged, the one in flight.
type Passed = HashSet<(ImageHash, u64, usize, Option<u64>)>;

/// What is durable, pending and acknowledged at an event of a trace.
#[derive(Debug, Clone)]
struct State {
    model: CrashModel,
    /// Of the durable bytes.
    hash: ImageHash,
    acknowledged: Vec<u64>,
    in_flight: Option<u64>,
    report: Report,
}

impl State {
    fn new(start: Vec<u8>) -> State {
        State {
            hash: ImageHash::of(&start),
            model: CrashModel::new(start),
            acknowledged: Vec::new(),
            in_flight: None,
            report: Report::default(),
        }
    }
}

/// Of two states with equal signatures at the same event all crash points from there on are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Signature {
    durable: ImageHash,
    pending: u64,
}

/// A line that a crash leaves open.
struct Open {
    states: LineStates,
    /// What each content adds to the hash of the image.
    differences: Vec<ImageHash>,
}

pub(super) struct Walk<'a, C> {
    explorer: &'a Explorer,
    mutation: Option<Mutation>,
    state: State,
    images: Images,
    passed: Passed,
    check: &'a mut C,
}

impl<'a, C, E: Display> Walk<'a, C>
where
    C: FnMut(Arc<Tracked>, &Crash<'_>) -> Result<(), E>,
{
    pub(super) fn new(explorer: &'a Explorer, trace: &Trace, check: &'a mut C) -> Walk<'a, C> {
        Walk {
            explorer,
            mutation: explorer.mutation,
            state: State::new(trace.start.clone()),
            images: Images::default(),
            passed: Passed::default(),
            check,
        }
    }

    pub(super) fn signature(&self) -> Signature {
        Signature {
            durable: self.state.hash,
            pending: self.state.model.pending_hash(),
        }
    }

    /// Goes on to the next event, and tries the crash at it if it is a point of one.
    pub(super) fn step(&mut self, event: &Event) -> Result<(), Box<Violation>> {
        let report = &self.state.report;
        match event {
            Event::Fence => self.crash(CrashPoint::Fence(report.fences), None)?,
            Event::Resize { len } => self.crash(CrashPoint::Grow(report.growths), Some(*len))?,
            Event::Sync => self.crash(CrashPoint::Sync(report.syncs), None)?,
            _ => {}
        }
        self.skip(event);
        Ok(())
    }

    /// Goes on to the next event without a crash.
    pub(super) fn skip(&mut self, event: &Event) {
        let State {
            model,
            hash,
            acknowledged,
            in_flight,
            report,
        } = &mut self.state;
        match event {
            Event::Fence => report.fences += 1,
            Event::Resize { .. } => report.growths += 1,
            Event::Sync => report.syncs += 1,
            Event::Flush { .. } => report.flushes += 1,
            Event::Begin { operation } => *in_flight = Some(*operation),
            Event::Acknowledge { operation } => {
                acknowledged.push(*operation);
                *in_flight = None;
            }
            Event::Store { .. } => {}
        }
        let changed = model.apply(event);
        for (line, old) in &changed {
            hash.replace(*line, old, &model.line(*line));
        }
        self.images
            .durable_changed(changed.into_iter().map(|(line, _)| line));
    }

    /// Tries the crash after the last event.
    pub(super) fn end(&mut self) -> Result<Report, Box<Violation>> {
        self.crash(CrashPoint::End, None)?;
        Ok(self.state.report.clone())
    }

    /// Goes back to the first event. What has passed is remembered.
    pub(super) fn rewind(&mut self, trace: &Trace) {
        self.go_to(State::new(trace.start.clone()));
    }

    /// Walks on with the next event of `events` left out, until the end or until what is durable and pending at a fence is `known`,
    /// that is what it is there if nothing is left out; then goes back to where it was. Also returns how many images were opened.
    pub(super) fn fork(
        &mut self,
        left_out: Mutation,
        events: &[Event],
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

    fn walk_without_first(&mut self, events: &[Event], known: &[Signature]) -> Result<(), Box<Violation>> {
        let mut known = known[self.state.report.fences..].iter();
        for (number, event) in events.iter().enumerate() {
            let known = match event {
                Event::Fence => known.next(),
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

    fn go_to(&mut self, state: State) {
        let lines = state.model.durable_differs(&self.state.model);
        self.images.durable_changed(lines);
        self.state = state;
    }

    /// Tries the images of a crash here; `resized` is another length that it may have or not.
    fn crash(&mut self, point: CrashPoint, resized: Option<u64>) -> Result<(), Box<Violation>> {
        let model = &self.state.model;
        let lens: Vec<u64> = std::iter::once(model.durable().len() as u64)
            .chain(resized)
            .collect();
        // Lines that may be cut off are not needed: it must not matter what they hold.
        let least = lens.iter().copied().min().unwrap_or(0);
        let lines = model.open_lines().into_iter();
        let lines = lines.filter(|states| states.line * LINE < least);
        let lines: Vec<Open> = lines.map(Open::from).collect();
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

    /// Tries one image: of `lines`, those contents that `arrived` picks.
    fn image(
        &mut self,
        point: CrashPoint,
        len: u64,
        lines: &[Open],
        arrived: &[u32],
    ) -> Result<(), Box<Violation>> {
        let State {
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
        // A mutant may fail with an image that the unchanged workload never leaves: it has not passed.
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
        lines: &[Open],
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

impl From<LineStates> for Open {
    fn from(states: LineStates) -> Open {
        let durable: &Line = &states.contents[0];
        let difference = |contents| ImageHash::difference(states.line, durable, contents);
        Open {
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
