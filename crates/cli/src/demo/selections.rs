//! Step 2: selections of increasing size, by index, by scan, and by DataFusion over the Parquet file.

use std::io::{Stdout, Write};
use std::path::Path;

use halocline_engine::Database;

use super::systems::{ComparedSystem, RUNS, compare, numbers};
use super::{aligned_table, selectivity, times};
use crate::args::DemoArgs;
use crate::error::CliError;
use crate::progress;
use crate::size::grouped;

/// Conditions on the indexed columns. In a table of TPC-H they select about one row in a million, one in
/// 100,000, and so on, up to one in a hundred.
pub(crate) const CONDITIONS: [&str; 5] = [
    "l_shipdate = DATE '1995-06-14' AND l_discount = 0.05 AND l_quantity = 24",
    "l_shipdate BETWEEN DATE '1995-06-14' AND DATE '1995-06-15' AND l_discount BETWEEN 0.05 AND 0.06 \
     AND l_quantity BETWEEN 21 AND 24",
    "l_shipdate BETWEEN DATE '1995-06-14' AND DATE '1995-06-20' AND l_discount BETWEEN 0.05 AND 0.06 \
     AND l_quantity BETWEEN 15 AND 24",
    "l_shipdate BETWEEN DATE '1995-06-01' AND DATE '1995-06-28' AND l_discount BETWEEN 0.05 AND 0.07 \
     AND l_quantity BETWEEN 9 AND 24",
    "l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1995-12-31' AND l_discount BETWEEN 0.05 AND 0.07 \
     AND l_quantity BETWEEN 12 AND 24",
];

/// One selection and its times.
pub(crate) struct MeasuredSelection {
    pub(crate) condition: &'static str,
    /// The sorted lines of the answer.
    pub(crate) answer: Vec<String>,
    /// Share of the table's rows that it selects.
    pub(crate) share: f64,
    pub(crate) index_ms: f64,
    pub(crate) scan_ms: f64,
    pub(crate) datafusion_ms: f64,
}

/// Returns the query of a condition; the first value of its answer is the number of selected rows.
pub(crate) fn query(condition: &str) -> String {
    format!("SELECT count(*), sum(l_extendedprice * l_discount) FROM lineitem WHERE {condition}")
}

/// Measures and prints all selections.
pub(crate) fn run(
    args: &DemoArgs,
    rows: u64,
    file: &Path,
    database: &Database,
    out: &mut Stdout,
) -> Result<Vec<MeasuredSelection>, CliError> {
    let systems = [
        ComparedSystem::pool("the index", database, "force")?,
        ComparedSystem::pool("the scan", database, "off")?,
        ComparedSystem::datafusion(&[("lineitem", file.to_owned())], args.open.threads)?,
    ];
    let auto = ComparedSystem::pool("the engine's choice", database, "auto")?;
    writeln!(
        out,
        "\n2. {}",
        query("… (l_shipdate, l_discount and l_quantity, in ranges of growing width)")
    )?;
    writeln!(
        out,
        "   index: halocline.index = force; scan: halocline.index = off; DataFusion: its default settings, over \
         the Parquet file that was imported\n   (rows in the order of the generator, in the file and in the \
         pool). Warm, medians of {RUNS} runs in turns, equal answers."
    )?;
    let mut table = aligned_table(&[
        "selectivity",
        "rows",
        "index, ms",
        "scan, ms",
        "DataFusion, ms",
        "scan : index",
        "DataFusion : index",
        "chosen by default",
    ]);
    let bar = progress::steps(CONDITIONS.len() as u64);
    bar.set_message("comparing selections");
    let mut measured = vec![];
    for condition in CONDITIONS {
        let text = query(condition);
        let compared = compare(condition, &text, &systems)?;
        let selected = numbers(&compared.answer).first().copied().unwrap_or(0);
        let [index_ms, scan_ms, datafusion_ms] = compared.milliseconds;
        let share = selected as f64 / rows as f64;
        let by_index = auto.plans("ElfScan", &text)?;
        table.add_row([
            selectivity(share),
            grouped(selected),
            format!("{index_ms:.2}"),
            format!("{scan_ms:.2}"),
            format!("{datafusion_ms:.2}"),
            times(scan_ms / index_ms),
            times(datafusion_ms / index_ms),
            if by_index { "index" } else { "scan" }.to_owned(),
        ]);
        measured.push(MeasuredSelection {
            condition,
            answer: compared.answer,
            share,
            index_ms,
            scan_ms,
            datafusion_ms,
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    writeln!(out, "{table}")?;
    Ok(measured)
}
