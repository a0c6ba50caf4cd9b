//! Step 2: selections of increasing size, by index, by scan, and by DataFusion over the Parquet file.

use std::io::{Stdout, Write};
use std::path::Path;

use halocline_engine::Database;
use halocline_terminal::size::grouped;
use halocline_terminal::{CliError, progress};

use super::systems::{ComparedSystem, MEDIANS, compare, numbers};
use super::{aligned_table, selectivity, times};
use crate::args::DemoArgs;

/// The selections. In a table of TPC-H they select about one row in a million, one in 100,000, and so on, up
/// to one in a hundred.
const SELECTIONS: [DemoSelection; 5] = [
    DemoSelection::new(1, 1, 1),
    DemoSelection::new(2, 2, 4),
    DemoSelection::new(7, 2, 10),
    DemoSelection::new(28, 3, 16),
    DemoSelection::new(365, 3, 13),
];

/// A range of ship dates, discounts and quantities, each by its number of values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DemoSelection {
    days: u32,
    discounts: u32,
    quantities: u32,
}

impl DemoSelection {
    pub(crate) const fn new(days: u32, discounts: u32, quantities: u32) -> Self {
        Self {
            days,
            discounts,
            quantities,
        }
    }

    /// Returns the condition. Different values of `shift` move the ranges to different places of the same
    /// size.
    pub(crate) fn condition(self, shift: usize) -> String {
        let shift = u32::try_from(shift % 1000).unwrap_or(0);
        let first_day = shift * 61 % 1400;
        let last_day = first_day + self.days - 1;
        let discount = (5 + shift) % 8;
        let last_discount = discount + self.discounts - 1;
        let quantity = 1 + (11 + 7 * shift) % 34;
        let last_quantity = quantity + self.quantities - 1;
        format!(
            "l_shipdate BETWEEN DATE '1993-06-14' + INTERVAL '{first_day}' DAY \
             AND DATE '1993-06-14' + INTERVAL '{last_day}' DAY \
             AND l_discount BETWEEN 0.0{discount} AND 0.0{last_discount} \
             AND l_quantity BETWEEN {quantity} AND {last_quantity}"
        )
    }
}

/// One selection and its times.
pub(crate) struct MeasuredSelection {
    pub(crate) selection: DemoSelection,
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
        "\n2. {}\n   with ranges of l_shipdate, l_discount and l_quantity that grow from row to row",
        query("…")
    )?;
    writeln!(
        out,
        "   Index and scan: halocline.index = force and off. DataFusion: default settings but decimal literals, over \
         the imported Parquet file.\n   The rows are in the generator's order in both. {MEDIANS}"
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
    let bar = progress::steps(SELECTIONS.len() as u64);
    bar.set_message("comparing selections");
    let mut measured = vec![];
    for selection in SELECTIONS {
        let text = query(&selection.condition(0));
        let compared = compare(&text, &systems)?;
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
            selection,
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
