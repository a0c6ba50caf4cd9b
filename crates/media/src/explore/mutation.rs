//! Workloads with one flush or fence less, to prove that a crash test would notice.

use std::fmt;

use super::model::CrashModel;
use crate::trace::{Event, Trace};

/// A mistake put into a recorded workload. Flushes and fences are counted from 0, each on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// The n-th flush is left out.
    SkipFlush(usize),
    /// The n-th fence is left out.
    SkipFence(usize),
    /// The n-th fence comes only after the store that follows it.
    DelayFence(usize),
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mutation::SkipFlush(number) => write!(f, "flush {number} left out"),
            Mutation::SkipFence(number) => write!(f, "fence {number} left out"),
            Mutation::DelayFence(number) => write!(f, "fence {number} after the next store"),
        }
    }
}

impl Mutation {
    /// The events with the mistake in them.
    pub(crate) fn apply(self, events: &[Event]) -> Vec<&Event> {
        let mut mutated: Vec<&Event> = events.iter().collect();
        let nth = |number: usize, wanted: fn(&Event) -> bool| {
            let found = events.iter().enumerate().filter(|(_, event)| wanted(event));
            found.map(|(at, _)| at).nth(number)
        };
        match self {
            Mutation::SkipFlush(number) => nth(number, is_flush).map(|at| mutated.remove(at)),
            Mutation::SkipFence(number) => nth(number, is_fence).map(|at| mutated.remove(at)),
            Mutation::DelayFence(number) => nth(number, is_fence).map(|at| {
                let fence = mutated.remove(at);
                let store = mutated[at..]
                    .iter()
                    .position(|event| matches!(event, Event::Store { .. }));
                mutated.insert(store.map_or(at, |store| at + store + 1), fence);
                fence
            }),
        };
        mutated
    }
}

fn is_flush(event: &Event) -> bool {
    matches!(event, Event::Flush { .. })
}

fn is_fence(event: &Event) -> bool {
    matches!(event, Event::Fence)
}

/// A flush or fence of a trace.
pub(crate) struct Call {
    /// Which event it is.
    pub(crate) at: usize,
    /// The mistake of leaving it out.
    pub(crate) left_out: Mutation,
    /// Whether it does anything there.
    pub(crate) matters: bool,
    /// What it is, for people.
    pub(crate) text: String,
}

/// Every flush and every fence of a trace.
pub(crate) fn calls(trace: &Trace) -> Vec<Call> {
    let mut model = CrashModel::new(trace.start.clone());
    let (mut flushes, mut fences, mut operation) = (0, 0, None);
    let mut list = Vec::new();
    for (at, event) in trace.events.iter().enumerate() {
        let during = || operation.map_or_else(String::new, |operation| format!(" in operation {operation}"));
        match event {
            Event::Flush { offset, len } => {
                list.push(Call {
                    at,
                    left_out: Mutation::SkipFlush(flushes),
                    matters: model.flush_matters(*offset, *len),
                    text: format!("flush {flushes} ({len} bytes at {offset}{})", during()),
                });
                flushes += 1;
            }
            Event::Fence => {
                list.push(Call {
                    at,
                    left_out: Mutation::SkipFence(fences),
                    matters: model.fence_matters(),
                    text: format!("fence {fences}{}", during()),
                });
                fences += 1;
            }
            Event::Begin { operation: begun } => operation = Some(*begun),
            _ => {}
        }
        model.apply(event);
    }
    list
}
