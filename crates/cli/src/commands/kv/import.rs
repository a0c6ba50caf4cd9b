//! `kv import` into a store.
//!
//! Invariant: pairs are written in the order of the files, in batches, each of which is there as a whole or
//! not at all; what was read before the import ended, for whatever reason, is in the store.

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use halocline_store::WriteBatch;
use halocline_terminal::interrupt::Guard;
use halocline_terminal::size::grouped;
use halocline_terminal::{CliError, progress};

use crate::args::{KvArgs, KvImportArgs};

use super::entries::{is_stdin, total_bytes};
use super::open_store::OpenStore;
use super::pair_files::{PairReader, ReadPair};

/// Pairs of one batch, unless they are long.
const BATCH: usize = 1000;
/// Bytes of the pairs of one batch.
const BATCH_BYTES: usize = 4 << 20;

#[derive(Default)]
struct Counts {
    written: u64,
    expired: u64,
}

pub(super) fn store(args: &KvArgs, import: &KvImportArgs) -> Result<(), CliError> {
    let guard = Guard::new();
    let total = total_bytes(&import.files)?;
    let open = OpenStore::to_write(args)?;
    let start = Instant::now();
    let bar = total.map_or_else(|| progress::spinner("importing"), progress::bytes);
    let mut counts = Counts::default();
    let result = run(args, import, &open, &mut counts, |bytes, written| {
        bar.set_position(bytes);
        bar.set_message(format!("{} entries", grouped(written)));
        if guard.requested().load(Ordering::Relaxed) {
            Err(CliError::Interrupted)
        } else {
            Ok(())
        }
    });
    bar.finish_and_clear();
    open.finish()?;
    let written = grouped(counts.written);
    match result {
        Ok(()) => {
            let expired = match counts.expired {
                0 => String::new(),
                expired => format!(", {} that have expired left out", grouped(expired)),
            };
            Ok(writeln!(
                io::stdout(),
                "store {}: {written} entries written{expired}, {:.1} s",
                args.name,
                start.elapsed().as_secs_f64()
            )?)
        }
        Err(CliError::Interrupted) => {
            writeln!(
                io::stderr(),
                "{written} entries are stored; import the files again to add the others"
            )?;
            Err(CliError::Interrupted)
        }
        Err(CliError::Failed { message, hint: None }) => Err(CliError::with_hint(
            message,
            format!(
                "the {written} entries before that are stored; import the files again when it is put right, entries that are \
                 there are replaced"
            ),
        )),
        Err(error) => Err(error),
    }
}

fn run(
    args: &KvArgs,
    import: &KvImportArgs,
    open: &OpenStore,
    counts: &mut Counts,
    mut progress: impl FnMut(u64, u64) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut before = 0;
    for file in &import.files {
        let mut reader = PairReader::open(file, import.format, args)?;
        loop {
            let (pairs, failure) = batch_of(&mut reader);
            let is_end = pairs.is_empty();
            write(open, pairs, counts)?;
            progress(before + reader.bytes(), counts.written)?;
            match failure {
                Some(failure) => return Err(failure),
                None if is_end => break,
                None => {}
            }
        }
        if !is_stdin(file) {
            before += reader.bytes();
        }
    }
    Ok(())
}

/// Reads pairs of one batch; if a line is bad, those before it.
fn batch_of(reader: &mut PairReader) -> (Vec<ReadPair>, Option<CliError>) {
    let (mut pairs, mut bytes) = (vec![], 0);
    while pairs.len() < BATCH && bytes < BATCH_BYTES {
        match reader.next() {
            Ok(Some(pair)) => {
                bytes += pair.0.len() + pair.1.len();
                pairs.push(pair);
            }
            Ok(None) => break,
            Err(error) => return (pairs, Some(error)),
        }
    }
    (pairs, None)
}

fn write(open: &OpenStore, pairs: Vec<ReadPair>, counts: &mut Counts) -> Result<(), CliError> {
    let now = SystemTime::now();
    let mut batch = WriteBatch::new();
    let mut expired = 0;
    for (key, value, expires) in pairs {
        let expires = expires.map(|millis| UNIX_EPOCH + Duration::from_millis(millis.min(i64::MAX as u64)));
        match expires {
            None => batch.put(&open.store, key, value)?,
            Some(time) if time <= now => {
                // It replaces an earlier entry of its key, as if it had expired since.
                batch.delete(&open.store, key)?;
                expired += 1;
            }
            Some(time) => batch.put_until(&open.store, key, value, time)?,
        }
    }
    let written = batch.len() as u64 - expired;
    open.stores.write(batch)?;
    counts.written += written;
    counts.expired += expired;
    Ok(())
}
