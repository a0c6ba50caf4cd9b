//! Commands that may change items, executed together and answered in their order.

use std::time::Instant;

use super::{classic, failed, meta};
use crate::error::Result;
use crate::items::{Change, ChangeOutcome};
use crate::protocol::{ChangeCommand, Storage};
use crate::server::Shared;

/// A command, with its data block if it has one.
#[derive(Debug)]
pub(crate) struct ChangeRequest<'a> {
    pub(crate) command: ChangeCommand<'a>,
    pub(crate) data: &'a [u8],
}

/// Executes commands together, and appends their replies. Returns false if one of them has failed.
pub(crate) fn execute_changes(shared: &Shared, requests: &[ChangeRequest<'_>], reply: &mut Vec<u8>) -> bool {
    let start = Instant::now();
    let mut changes = Vec::with_capacity(requests.len());
    for request in requests {
        push_changes(shared, request, &mut changes);
    }
    let mut outcomes = shared.items.apply(&changes).into_iter();
    let latency = start.elapsed();
    let counters = &shared.items.counters;
    let mut all_succeeded = true;
    for request in requests {
        let command = &request.command;
        if command.returns_values() {
            counters.reads.add(latency)
        } else {
            counters.writes.add(latency)
        }
        let before = reply.len();
        let outcomes = outcomes.by_ref().take(command.keys());
        if let Err(error) = answer(shared, request, outcomes, reply) {
            reply.truncate(before);
            failed(shared, &error, command.is_silent(), reply);
            all_succeeded = false;
        }
    }
    all_succeeded
}

/// Appends the changes that a command asks for, one for each key, and counts it.
fn push_changes<'a>(shared: &Shared, request: &'a ChangeRequest<'_>, changes: &mut Vec<Change<'a>>) {
    let data = request.data;
    let change = match &request.command {
        ChangeCommand::GetAndTouch { retrieval, exptime } => {
            let keys = retrieval.keys.iter();
            return changes.extend(keys.map(|key| classic::lookup(key, *exptime)));
        }
        ChangeCommand::Store(storage) => Change::Write(classic::write_of(shared, storage, data)),
        ChangeCommand::Delete { key, .. } => classic::removal(key),
        ChangeCommand::Arithmetic {
            key,
            delta,
            decrement,
            ..
        } => classic::calculation(key, *delta, *decrement),
        ChangeCommand::Touch { key, exptime, .. } => classic::lookup(key, *exptime),
        ChangeCommand::MetaGet(meta) => Change::Find {
            key: &meta.key,
            lookup: meta::lookup(meta),
        },
        ChangeCommand::MetaSet(meta, _) => Change::Write(meta::write_of(shared, meta, data)),
        ChangeCommand::MetaDelete(meta) => meta::removal(meta),
        ChangeCommand::MetaArithmetic(meta) => meta::calculation(meta),
    };
    changes.push(change);
}

/// Appends the reply to a command with these outcomes, all of which are taken.
///
/// # Errors
/// The first error among them.
fn answer(
    shared: &Shared,
    request: &ChangeRequest<'_>,
    mut outcomes: impl Iterator<Item = Result<ChangeOutcome>>,
    reply: &mut Vec<u8>,
) -> Result<()> {
    match &request.command {
        ChangeCommand::GetAndTouch { retrieval, .. } => {
            let outcomes: Vec<_> = outcomes.collect();
            let found = outcomes
                .into_iter()
                .map(|outcome| outcome.map(ChangeOutcome::into_found));
            let found = found.collect::<Result<Vec<_>>>()?;
            classic::found(shared, retrieval, found, reply);
            Ok(())
        }
        ChangeCommand::Store(Storage { noreply, .. })
        | ChangeCommand::Delete { noreply, .. }
        | ChangeCommand::Arithmetic { noreply, .. }
        | ChangeCommand::Touch { noreply, .. } => outcomes
            .try_for_each(|outcome| outcome.map(|outcome| classic::answer(shared, outcome, *noreply, reply))),
        ChangeCommand::MetaGet(meta)
        | ChangeCommand::MetaSet(meta, _)
        | ChangeCommand::MetaDelete(meta)
        | ChangeCommand::MetaArithmetic(meta) => outcomes.try_for_each(|outcome| {
            outcome.map(|outcome| meta::answer(shared, meta, request.data.len(), outcome, reply))
        }),
    }
}
