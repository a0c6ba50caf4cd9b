//! Workloads that lack one flush or fence, to prove that a crash test detects the fault.

use std::fmt;

use crate::model::CrashModel;
use crate::trace::{Trace, TraceEvent};

/// A fault in a recorded workload. Flushes and fences are counted separately, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// Leaves out the n-th flush.
    SkipFlush(usize),
    /// Leaves out the n-th fence.
    SkipFence(usize),
    /// Moves the n-th fence after the store that follows it.
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
    /// Returns the events with the fault applied.
    pub(crate) fn apply(self, events: &[TraceEvent]) -> Vec<&TraceEvent> {
        let mut mutated: Vec<&TraceEvent> = events.iter().collect();
        let nth = |number: usize, wanted: fn(&TraceEvent) -> bool| {
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
                    .position(|event| matches!(event, TraceEvent::Store { .. }));
                mutated.insert(store.map_or(at, |store| at + store + 1), fence);
                fence
            }),
        };
        mutated
    }
}

fn is_flush(event: &TraceEvent) -> bool {
    matches!(event, TraceEvent::Flush { .. })
}

fn is_fence(event: &TraceEvent) -> bool {
    matches!(event, TraceEvent::Fence)
}

/// A flush or fence of a trace that can be left out.
pub(crate) struct SkippedCall {
    /// Its index among the events.
    pub(crate) position: usize,
    /// The fault of leaving it out.
    pub(crate) left_out: Mutation,
    /// True if it has an effect at its place.
    pub(crate) matters: bool,
    /// Its description.
    pub(crate) text: String,
}

/// Returns every flush and every fence of a trace.
pub(crate) fn calls(trace: &Trace) -> Vec<SkippedCall> {
    let mut model = CrashModel::new(trace.start.clone());
    let (mut flushes, mut fences, mut operation) = (0, 0, None);
    let mut list = Vec::new();
    for (position, event) in trace.events.iter().enumerate() {
        let during = || operation.map_or_else(String::new, |operation| format!(" in operation {operation}"));
        match event {
            TraceEvent::Flush { offset, len } => {
                list.push(SkippedCall {
                    position,
                    left_out: Mutation::SkipFlush(flushes),
                    matters: model.flush_matters(*offset, *len),
                    text: format!("flush {flushes} ({len} bytes at {offset}{})", during()),
                });
                flushes += 1;
            }
            TraceEvent::Fence => {
                list.push(SkippedCall {
                    position,
                    left_out: Mutation::SkipFence(fences),
                    matters: model.fence_matters(),
                    text: format!("fence {fences}{}", during()),
                });
                fences += 1;
            }
            TraceEvent::Begin { operation: begun } => operation = Some(*begun),
            _ => {}
        }
        model.apply(event);
    }
    list
}
