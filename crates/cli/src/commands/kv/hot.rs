//! Statistics of a cache of hot keys: of the lookups in a file (`kv stats --lookups`).

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::slice;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, UInt64Array};
use arrow_schema::{Field, Schema};
use halocline_ordered::{HotIndex, HotIndexOptions, HotIndexStats, OrderedIndex};
use halocline_terminal::CliError;
use halocline_terminal::interrupt::Guard;
use halocline_terminal::output::Sink;
use halocline_terminal::size::{display, grouped};

use crate::args::{KvStatsArgs, OutputFormat};

use super::entries::EntryReader;
use super::{OpenTree, style};

/// Looks up the keys of a file through a cache, and prints its statistics.
pub(super) fn stats(tree: OpenTree, keys: &Path, args: &KvStatsArgs) -> Result<(), CliError> {
    let guard = Guard::new();
    let keys = keys.to_owned();
    let mut keys = EntryReader::new(slice::from_ref(&keys), guard.requested())?;
    let options = HotIndexOptions::default()
        .with_bytes(args.hot)
        .with_mode(args.hot_mode);
    let index = HotIndex::new(tree, options)
        .map_err(|error| CliError::with_hint(error.to_string(), "--hot takes a size, as 64MiB"))?;
    let (mut lookups, mut found) = (0, 0);
    while let Some(key) = keys.next_key()? {
        lookups += 1;
        found += u64::from(index.get(key)?.is_some());
    }
    drop(keys);
    print(lookups, found, &index.hot_stats(), args.output)
}

fn print(lookups: u64, found: u64, stats: &HotIndexStats, format: OutputFormat) -> Result<(), CliError> {
    if format == OutputFormat::Table {
        let state = if stats.is_on {
            "on"
        } else {
            "off, as it would not pay; it samples the lookups"
        };
        let mut out = io::stdout();
        writeln!(out, "lookups     {}, {} found", grouped(lookups), grouped(found))?;
        writeln!(out, "cache       {state}")?;
        writeln!(
            out,
            "cached      {} of at most {} entries",
            grouped(stats.pairs),
            grouped(stats.capacity)
        )?;
        writeln!(out, "DRAM        {}", display(stats.bytes))?;
        for (name, rate) in [("hit rate  ", stats.hit_rate), ("break-even", stats.break_even)] {
            match rate {
                Some(rate) => writeln!(out, "{name}  {:.1} %", rate * 100.0)?,
                None => writeln!(out, "{name}  not measured")?,
            }
        }
        return Ok(());
    }
    let count = |number| Arc::new(UInt64Array::from(vec![number])) as ArrayRef;
    let rate = |rate: Option<f64>| Arc::new(Float64Array::from(vec![rate])) as ArrayRef;
    let columns = [
        ("lookups", count(lookups)),
        ("found", count(found)),
        (
            "cache_is_on",
            Arc::new(BooleanArray::from(vec![stats.is_on])) as ArrayRef,
        ),
        ("cached_entries", count(stats.pairs)),
        ("capacity", count(stats.capacity)),
        ("dram_bytes", count(stats.bytes)),
        ("hit_rate", rate(stats.hit_rate)),
        ("break_even", rate(stats.break_even)),
    ];
    let fields = columns
        .iter()
        .map(|(name, column)| Field::new(*name, column.data_type().clone(), column.is_nullable()));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    let mut sink = Sink::new(
        style(format, 0),
        Arc::clone(&schema),
        BufWriter::new(io::stdout()),
    );
    sink.write(&RecordBatch::try_new(schema, columns)?)?;
    sink.finish()
}
