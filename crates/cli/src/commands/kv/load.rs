//! `kv import` into a tree.
//!
//! Invariant: what was read before the load ended, for whatever reason, is in the tree; the one exception is
//! an error of the pool in bulk loading, which leaves the tree as it was.

use std::io::{self, Write};
use std::time::Instant;

use halocline_ordered::{OrderedIndex, TreeError};
use halocline_terminal::CliError;
use halocline_terminal::interrupt::Guard;
use halocline_terminal::size::grouped;

use crate::args::{KvArgs, KvImportArgs};

use super::entries::EntryReader;
use super::open_tree::{finish, open};

/// The progress of a load.
#[derive(Default)]
struct LoadCounts {
    bulk: u64,
    added: u64,
    replaced: u64,
}

pub(super) fn load(args: &KvArgs, load: &KvImportArgs) -> Result<(), CliError> {
    let guard = Guard::new();
    let mut source = EntryReader::new(&load.files, guard.requested())?;
    let (pool, mut tree) = open(args)?;
    let start = Instant::now();
    let mut loaded = LoadCounts::default();
    let result = run(&mut *tree, &mut source, load.fill, &mut loaded);
    drop(source);
    let synced = finish(&pool, tree);
    let stored = loaded.bulk + loaded.added + loaded.replaced;
    match (result, synced) {
        (Ok(()), Ok(())) => Ok(writeln!(
            io::stdout(),
            "tree {}: {} entries added ({} of them in bulk), {} replaced, {:.1} s",
            args.name,
            grouped(loaded.bulk + loaded.added),
            grouped(loaded.bulk),
            grouped(loaded.replaced),
            start.elapsed().as_secs_f64()
        )?),
        (Err(CliError::Interrupted), Ok(())) => {
            writeln!(
                io::stderr(),
                "{} entries are stored; import the files again to add the others",
                grouped(stored)
            )?;
            Err(CliError::Interrupted)
        }
        (Err(CliError::Failed { message, hint: None }), Ok(())) => Err(CliError::with_hint(
            message,
            format!(
                "the {} entries before that are stored; import the files again when it is put right, entries that are there \
                 are replaced",
                grouped(stored)
            ),
        )),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

fn run(
    tree: &mut dyn OrderedIndex,
    source: &mut EntryReader<'_>,
    fill: f64,
    loaded: &mut LoadCounts,
) -> Result<(), CliError> {
    let mut held = None;
    if tree.is_empty() {
        let mut ascending = Ascending {
            source,
            last: None,
            held: None,
            failure: None,
        };
        match tree.bulk_load(&mut ascending, fill) {
            Ok(entries) => loaded.bulk = entries,
            // It has no entries, but nodes; none of ours was asked for.
            Err(TreeError::NotEmpty { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(failure) = ascending.failure {
            return Err(failure);
        }
        held = ascending.held;
    }
    while let Some((key, value)) = held
        .take()
        .map_or_else(|| source.next(), |entry| Ok(Some(entry)))?
    {
        match tree.upsert(key, value)? {
            None => loaded.added += 1,
            Some(_) => loaded.replaced += 1,
        }
    }
    Ok(())
}

/// Entries as long as their keys ascend.
struct Ascending<'a, 'b> {
    source: &'a mut EntryReader<'b>,
    last: Option<u64>,
    /// The first entry whose key does not.
    held: Option<(u64, u64)>,
    failure: Option<CliError>,
}

impl Iterator for Ascending<'_, '_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        if self.held.is_some() || self.failure.is_some() {
            return None;
        }
        match self.source.next() {
            Ok(Some(entry)) if self.last.is_some_and(|last| entry.0 <= last) => {
                self.held = Some(entry);
                None
            }
            Ok(entry) => {
                self.last = entry.map(|(key, _)| key).or(self.last);
                entry
            }
            Err(failure) => {
                self.failure = Some(failure);
                None
            }
        }
    }
}
