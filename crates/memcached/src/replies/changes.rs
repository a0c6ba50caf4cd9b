//! Commands that may change items, executed together and answered in their order.

use std::time::Instant;

use super::{classic, failed, meta};
use crate::error::Result;
use crate::items::{Change, ChangeOutcome};
use crate::protocol::Command;
use crate::server::Shared;

/// A command that [changes items](Command::changes_items), with its data block if it has one.
#[derive(Debug)]
pub(crate) struct ChangeRequest<'a> {
    pub(crate) command: Command<'a>,
    pub(crate) data: &'a [u8],
}

/// Executes commands together, and appends their replies. Returns false if one of them has failed.
pub(crate) fn execute_changes(shared: &Shared, requests: &[ChangeRequest<'_>], reply: &mut Vec<u8>) -> bool {
    let start = Instant::now();
    let mut changes = Vec::with_capacity(requests.len());
    for ChangeRequest { command, data } in requests {
        match command {
            Command::Get(retrieval) => changes.extend(classic::lookups(retrieval)),
            _ => changes.push(change_of(shared, command, data)),
        }
    }
    let mut outcomes = shared.items.apply(&changes).into_iter();
    let latency = start.elapsed();
    let counters = &shared.items.counters;
    let mut all_succeeded = true;
    for ChangeRequest { command, .. } in requests {
        if command.returns_values() {
            counters.reads.add(latency)
        } else {
            counters.writes.add(latency)
        }
        let before = reply.len();
        let answered = match command {
            Command::Get(retrieval) => {
                let found: Vec<_> = outcomes.by_ref().take(retrieval.keys.len()).collect();
                found.into_iter().collect::<Result<Vec<_>>>().map(|found| {
                    let items = found.into_iter().map(found_of);
                    classic::found(shared, retrieval, items, reply);
                })
            }
            _ => match outcomes.next() {
                Some(outcome) => outcome.map(|outcome| answer(shared, command, outcome, reply)),
                None => unreachable!("each change has an outcome"),
            },
        };
        if let Err(error) = answered {
            reply.truncate(before);
            failed(shared, &error, command.is_silent(), reply);
            all_succeeded = false;
        }
    }
    all_succeeded
}

/// Returns the change that a command asks for, and counts it.
fn change_of<'a>(shared: &Shared, command: &'a Command<'_>, data: &'a [u8]) -> Change<'a> {
    match command {
        Command::Store(storage) => Change::Write(classic::write_of(shared, storage, data)),
        Command::MetaSet(meta, _) => Change::Write(meta::write_of(shared, meta, data)),
        Command::Delete { key, .. } => classic::removal(key),
        Command::MetaDelete(meta) => meta::removal(meta),
        Command::Arithmetic {
            key,
            delta,
            decrement,
            ..
        } => classic::calculation(key, *delta, *decrement),
        Command::MetaArithmetic(meta) => meta::calculation(meta),
        Command::Touch { key, exptime, .. } => classic::lookup(key, Some(*exptime)),
        Command::MetaGet(meta) => Change::Find {
            key: &meta.key,
            lookup: meta::lookup(meta),
        },
        other => unreachable!("{other:?} is executed elsewhere"),
    }
}

/// Appends the reply to a command.
fn answer(shared: &Shared, command: &Command<'_>, outcome: ChangeOutcome, reply: &mut Vec<u8>) {
    match (command, outcome) {
        (Command::Store(storage), ChangeOutcome::Write(outcome)) => {
            classic::stored(shared, storage, outcome, reply);
        }
        (Command::MetaSet(meta, len), ChangeOutcome::Write(outcome)) => {
            meta::stored(shared, meta, *len, outcome, reply);
        }
        (Command::Delete { noreply, .. }, ChangeOutcome::Remove(outcome)) => {
            classic::deleted(shared, outcome, *noreply, reply);
        }
        (Command::MetaDelete(meta), ChangeOutcome::Remove(outcome)) => {
            meta::deleted(shared, meta, outcome, reply);
        }
        (
            Command::Arithmetic {
                decrement, noreply, ..
            },
            ChangeOutcome::Calculate(outcome),
        ) => {
            classic::calculated(shared, *decrement, outcome, *noreply, reply);
        }
        (Command::MetaArithmetic(meta), ChangeOutcome::Calculate(outcome)) => {
            meta::calculated(shared, meta, outcome, reply);
        }
        (Command::Touch { noreply, .. }, ChangeOutcome::Find(found)) => {
            classic::touched(shared, found.is_some(), *noreply, reply);
        }
        (Command::MetaGet(meta), ChangeOutcome::Find(found)) => meta::found(shared, meta, found, reply),
        (command, outcome) => unreachable!("{outcome:?} of {command:?}"),
    }
}

/// Returns the item that a lookup has found.
fn found_of(outcome: ChangeOutcome) -> Option<crate::items::Found> {
    match outcome {
        ChangeOutcome::Find(found) => found,
        other => unreachable!("{other:?} of a lookup"),
    }
}
