//! Histories of operations, and a check for linearizability.

use std::collections::BTreeMap;

/// An operation on a key: its effect, and its start and end by a clock that all threads share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) key: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The value before it.
    pub(crate) before: Option<u64>,
    /// The value after it.
    pub(crate) after: Option<u64>,
}

/// Returns true if operations on one key, sorted by their starts, have an order that agrees with both
/// their times and their results. Few of them overlap, so the search is short.
fn can_be_ordered(events: &[Event], done: &mut [bool], first: usize, value: Option<u64>) -> bool {
    let left =
        |done: &[bool]| -> Vec<usize> { (first..events.len()).filter(|at| !done[*at]).take(64).collect() };
    let candidates = left(done);
    let Some(horizon) = candidates.iter().map(|at| events[*at].end).min() else {
        return true;
    };
    // An operation that starts after the end of a pending one must come later in the order.
    for at in candidates
        .iter()
        .copied()
        .filter(|at| events[*at].start <= horizon)
    {
        if events[at].before == value {
            done[at] = true;
            if can_be_ordered(events, done, candidates[0], events[at].after) {
                return true;
            }
            done[at] = false;
        }
    }
    false
}

/// Checks that the operations on each key are linearizable, given its initial value `first`.
///
/// # Errors
/// The key and history for which there is no linearization.
pub(crate) fn linearizable(
    events: impl IntoIterator<Item = Event>,
    first: impl Fn(u64) -> Option<u64>,
) -> Result<(), String> {
    let mut by_key: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    for event in events {
        by_key.entry(event.key).or_default().push(event);
    }
    for (key, mut events) in by_key {
        events.sort_unstable_by_key(|event| event.start);
        let mut done = vec![false; events.len()];
        if !can_be_ordered(&events, &mut done, 0, first(key)) {
            return Err(format!("key {key}: {events:?}"));
        }
    }
    Ok(())
}
