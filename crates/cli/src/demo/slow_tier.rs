//! Step 6: searches of the index on an emulated slow tier, beside the same index in DRAM.
//!
//! The index is searched without SQL, as planning would take longer than a search and is the same on every
//! tier. DRAM is emulated in the same way, below a modelled cache of the same size, so that the two differ in
//! the memory alone.

use std::fmt;
use std::io::{Stdout, Write};
use std::path::Path;

use halocline_cache::{Placement, StaticLists};
use halocline_emulator::{CacheShape, EmulatedError, EmulatedSpec};
use halocline_engine::{EngineError, PlaceOptions};
use halocline_measure::Samples;
use halocline_measure::index::{RANGE_SHARE, SEARCH_BATCH, SearchKind, SearchSource, TierIndex};
use halocline_terminal::size::{display, grouped};
use halocline_terminal::{CliError, progress};

use super::load::{INDEX, LoadedTable};
use super::systems::RUNS;
use super::{aligned_table, times};

/// The medium: Optane persistent memory relative to this machine's DRAM, with real delays.
const MEDIUM: &str = "emulated:optane";

/// The limited budget, in percent of the index.
const PERCENT: u64 = 4;

/// Size of the index over that of the modelled cache of the CPU. The cache of this machine may have room for
/// the whole index, which then would be read from no tier.
const INDEX_PER_CACHE: u64 = 10;

/// Rows of the table for each exact match of a turn.
const ROWS_PER_SEARCH: u64 = 512;
/// Limits of the number of exact matches in a turn.
const SEARCHES: (u64, u64) = (64, 1 << 15);
/// Exact matches for each range: a range reads as much as dozens of exact matches.
const SEARCHES_PER_RANGE: usize = 16;

/// Median microseconds of a search on each tier.
struct TierTimes {
    kind: SearchKind,
    all_us: f64,
    limited_us: f64,
    none_us: f64,
}

/// Measures and prints the searches.
///
/// # Errors
/// The pool cannot be opened or is damaged; the tiers find different rows.
pub(crate) fn run(pool: &Path, loaded: &LoadedTable, out: &mut Stdout) -> Result<(), CliError> {
    let spinner = progress::spinner("measuring the DRAM of this machine");
    let mut slow: EmulatedSpec = MEDIUM
        .parse()
        .map_err(|error: EmulatedError| CliError::failed(error.to_string()))?;
    slow.cache = CacheShape::with_bytes(loaded.index_bytes / INDEX_PER_CACHE);
    let tiers = [
        open(pool, &slow.dram_beside(), 0)?,
        open(pool, &slow, PERCENT)?,
        open(pool, &slow, 0)?,
    ];
    let mut source = SearchSource::open(pool, INDEX).map_err(EngineError::from)?;
    spinner.finish_and_clear();
    let bar = progress::steps(SearchKind::ALL.len() as u64);
    bar.set_message("comparing tiers");
    let mut measured = vec![];
    for kind in SearchKind::ALL {
        measured.push(measure(&tiers, &mut source, kind, searches(kind, loaded.rows))?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let copied = tiers[1].copied_bytes();
    writeln!(
        out,
        "\n6. EMULATED: the index alone, without SQL, on a model of a slow tier ({MEDIUM}, with delays in real time).\n   \
         The index takes {}, the modelled cache of the CPU {}. In DRAM are all of it (a model, too), copies of\n   \
         {} (in this machine's own DRAM), or nothing. One thread searches by all columns of the index; a range\n   \
         spans {:.0} % of the values of each column. Equal answers. Medians of {RUNS} turns, each with other values.",
        display(loaded.index_bytes),
        display(slow.cache.bytes()),
        display(copied),
        RANGE_SHARE * 100.0
    )?;
    let percent = copied as f64 / loaded.index_bytes as f64 * 100.0;
    print(percent, &measured, out)
}

fn open(pool: &Path, spec: &EmulatedSpec, percent: u64) -> Result<TierIndex, CliError> {
    let copies = PlaceOptions::default().with_placement(Placement::Static(StaticLists::Probable));
    Ok(TierIndex::open(pool, INDEX, spec, copies, percent).map_err(EngineError::from)?)
}

/// Returns the number of searches of a turn, for a table of `rows` rows.
fn searches(kind: SearchKind, rows: u64) -> usize {
    let exact = (rows / ROWS_PER_SEARCH).clamp(SEARCHES.0, SEARCHES.1) as usize;
    match kind {
        SearchKind::Exact | SearchKind::ExactBatch => exact,
        SearchKind::Range => exact / SEARCHES_PER_RANGE,
    }
}

/// Runs searches of one kind on all tiers in turns; the first turn warms up the modelled caches.
fn measure(
    tiers: &[TierIndex; 3],
    source: &mut SearchSource,
    kind: SearchKind,
    count: usize,
) -> Result<TierTimes, CliError> {
    let mut microseconds = [(); 3].map(|()| Samples::default());
    for turn in 0..=RUNS {
        let searches = source.draw(kind, count).map_err(EngineError::from)?;
        let mut expected = None;
        for (tier, samples) in tiers.iter().zip(&mut microseconds) {
            let measured = tier.search(&searches).map_err(EngineError::from)?;
            if turn > 0 {
                samples.push(measured.seconds * 1e6 / searches.count() as f64);
            }
            if *expected.get_or_insert(measured.found) != measured.found {
                return Err(CliError::failed(format!(
                    "{}: the tiers find different rows",
                    SearchName(kind)
                )));
            }
        }
    }
    let [all_us, limited_us, none_us] = microseconds.map(|samples| samples.median());
    Ok(TierTimes {
        kind,
        all_us,
        limited_us,
        none_us,
    })
}

fn print(percent: f64, measured: &[TierTimes], out: &mut Stdout) -> Result<(), CliError> {
    let mut table = aligned_table(&[
        "time of a search",
        "all in DRAM, µs",
        &format!("{percent:.1} % in DRAM, µs"),
        "nothing in DRAM, µs",
        &format!("{percent:.1} % : all"),
        "nothing : all",
    ]);
    for tier in measured {
        table.add_row([
            SearchName(tier.kind).to_string(),
            format!("{:.2}", tier.all_us),
            format!("{:.2}", tier.limited_us),
            format!("{:.2}", tier.none_us),
            times(tier.limited_us / tier.all_us),
            times(tier.none_us / tier.all_us),
        ]);
    }
    Ok(writeln!(out, "{table}")?)
}

/// The name of a kind of search, for people.
struct SearchName(SearchKind);

impl fmt::Display for SearchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SearchKind::Exact => f.write_str("exact match, one at a time"),
            SearchKind::ExactBatch => {
                write!(f, "exact match, {} at a time", grouped(SEARCH_BATCH as u64))
            }
            SearchKind::Range => f.write_str("range"),
        }
    }
}
