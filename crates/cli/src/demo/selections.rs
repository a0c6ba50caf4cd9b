//! Step 2: selections of increasing size, by index, by scan, and by DataFusion over the Parquet file; those
//! by the index as text and as a prepared statement.

use std::io::{Stdout, Write};
use std::path::Path;

use halocline_engine::{Database, ScalarValue};
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

/// The condition of all selections, with parameters for the ends of the ranges.
const PREPARED: &str =
    "l_shipdate BETWEEN $1 AND $2 AND l_discount BETWEEN $3 AND $4 AND l_quantity BETWEEN $5 AND $6";

/// The first ship date of all selections, 1993-06-14, in days since 1970.
const FIRST_DAY: i32 = 8565;
/// Their first discount, in percent.
const FIRST_DISCOUNT: u32 = 5;
/// Their first quantity.
const FIRST_QUANTITY: u32 = 12;

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

    /// Returns the condition.
    pub(crate) fn condition(self) -> String {
        let more_days = self.days - 1;
        let last_discount = FIRST_DISCOUNT + self.discounts - 1;
        let last_quantity = FIRST_QUANTITY + self.quantities - 1;
        format!(
            "l_shipdate BETWEEN DATE '1993-06-14' AND DATE '1993-06-14' + INTERVAL '{more_days}' DAY \
             AND l_discount BETWEEN 0.0{FIRST_DISCOUNT} AND 0.0{last_discount} \
             AND l_quantity BETWEEN {FIRST_QUANTITY} AND {last_quantity}"
        )
    }

    /// Returns the values that make [`PREPARED`] the same condition.
    fn values(self) -> [ScalarValue; 6] {
        let day = |more: u32| ScalarValue::Date32(Some(FIRST_DAY + more as i32));
        let discount = |more: u32| ScalarValue::Decimal128(Some(i128::from(FIRST_DISCOUNT + more)), 2, 2);
        let quantity = |more: u32| ScalarValue::from(i64::from(FIRST_QUANTITY + more));
        [
            day(0),
            day(self.days - 1),
            discount(0),
            discount(self.discounts - 1),
            quantity(0),
            quantity(self.quantities - 1),
        ]
    }
}

/// One selection and its times.
pub(crate) struct MeasuredSelection {
    pub(crate) selection: DemoSelection,
    /// The sorted lines of the answer.
    pub(crate) answer: Vec<String>,
    /// The number of rows that it selects.
    pub(crate) rows: u64,
    /// Their share of the table's rows.
    pub(crate) share: f64,
    pub(crate) index_ms: f64,
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
        ComparedSystem::prepared("the prepared statement", database, "force", &query(PREPARED))?,
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
    let mut prepared = aligned_table(&["selectivity", "text, ms", "prepared, ms", "text : prepared"]);
    let bar = progress::steps(SELECTIONS.len() as u64);
    bar.set_message("comparing selections");
    let mut measured = vec![];
    for selection in SELECTIONS {
        let text = query(&selection.condition());
        let compared = compare(&text, &selection.values(), &systems)?;
        let selected = numbers(&compared.answer).first().copied().unwrap_or(0);
        let [index_ms, prepared_ms, scan_ms, datafusion_ms] = compared.milliseconds;
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
        prepared.add_row([
            selectivity(share),
            format!("{index_ms:.2}"),
            format!("{prepared_ms:.2}"),
            times(index_ms / prepared_ms),
        ]);
        measured.push(MeasuredSelection {
            selection,
            answer: compared.answer,
            rows: selected,
            share,
            index_ms,
            datafusion_ms,
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    writeln!(out, "{table}")?;
    writeln!(
        out,
        "   The selections by the index as text, and as a statement that is prepared once; in the same turns.\n{prepared}"
    )?;
    Ok(measured)
}
