//! The tables of the Star Schema Benchmark (O'Neil et al., TPCTC 2009) as streams of Arrow batches.
//!
//! Invariant: each row is drawn from its own stream of random numbers (an order and all its lines from one),
//! so any range of rows can be generated separately, and the data do not depend on the partitioning.

mod calendar;
mod lineorder;
mod lists;
mod part;
mod people;
mod sql;
mod tbl;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

pub use sql::{SsbQuery, ssb_queries};
pub use tbl::{TblError, TblReader};

/// Seed of [`SsbTable::reader`].
const SEED: u64 = 2009;
/// Rows per batch; approximate for `lineorder`.
const BATCH_ROWS: u64 = 8192;
/// Average number of lines of an order.
const LINES_PER_ORDER: u64 = 4;
/// Largest scale factor: order keys are 32 bits wide.
const MAX_SCALE_FACTOR: f64 = 1400.0;

/// A table of the Star Schema Benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SsbTable {
    /// The 2557 days from 1992-01-01 to 1998-12-31.
    Date,
    /// 2000 rows per scale factor.
    Supplier,
    /// 30 000 rows per scale factor.
    Customer,
    /// 200 000 (1 + floor(log2 SF)) rows; below scale factor 1, 200 000 per scale factor.
    Part,
    /// About 6 000 000 rows per scale factor: 1 500 000 orders of one to seven lines.
    Lineorder,
}

impl SsbTable {
    /// All tables, smallest first (at scale factor 1).
    pub const ALL: [Self; 5] = [
        Self::Date,
        Self::Supplier,
        Self::Customer,
        Self::Part,
        Self::Lineorder,
    ];

    /// Returns the table's name in the specification.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::Supplier => "supplier",
            Self::Customer => "customer",
            Self::Part => "part",
            Self::Lineorder => "lineorder",
        }
    }

    /// Returns the number of rows at a scale factor; approximate for `lineorder`, whose orders have one to
    /// seven lines.
    #[must_use]
    pub fn approximate_rows(self, scale_factor: f64) -> u64 {
        match self {
            Self::Lineorder => self.units(scale_factor) * LINES_PER_ORDER,
            _ => self.units(scale_factor),
        }
    }

    /// Returns the number of units that are drawn separately: orders of `lineorder`, rows of the other
    /// tables; at least one.
    fn units(self, scale_factor: f64) -> u64 {
        let units = match self {
            Self::Date => return calendar::DAYS as u64,
            Self::Supplier => 2_000.0 * scale_factor,
            Self::Customer => 30_000.0 * scale_factor,
            Self::Part if scale_factor < 1.0 => 200_000.0 * scale_factor,
            Self::Part => 200_000.0 * (1.0 + scale_factor.log2().floor()),
            Self::Lineorder => 1_500_000.0 * scale_factor,
        };
        (units.round() as u64).max(1)
    }

    /// Returns the Arrow schema: `Int32` for numbers (dates are yyyymmdd, amounts are cents), `Utf8` for
    /// strings; no NULLs.
    #[must_use]
    pub fn schema(self) -> SchemaRef {
        let columns: &[(&str, DataType)] = match self {
            Self::Date => &calendar::COLUMNS,
            Self::Supplier => &people::SUPPLIER_COLUMNS,
            Self::Customer => &people::CUSTOMER_COLUMNS,
            Self::Part => &part::COLUMNS,
            Self::Lineorder => &lineorder::COLUMNS,
        };
        let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), false);
        Schema::new(columns.iter().map(field).collect::<Vec<_>>()).into()
    }

    /// Generates one of `parts` equal parts (`part` counts from 0; parts of `lineorder` have equal numbers
    /// of orders) in batches of about 8192 rows. The concatenation of all parts is the table.
    ///
    /// # Panics
    /// Panics if `part >= parts`, or if the scale factor is not above 0 and at most 1400.
    #[must_use]
    pub fn reader(self, scale_factor: f64, part: u32, parts: u32) -> Box<dyn RecordBatchReader + Send> {
        self.reader_of_seed(SEED, scale_factor, part, parts)
    }

    /// Generates a part like [`reader`](Self::reader) with another seed. Keys, and all of `date`, are the
    /// same for every seed.
    ///
    /// # Panics
    /// As [`reader`](Self::reader).
    #[must_use]
    pub fn reader_of_seed(
        self,
        seed: u64,
        scale_factor: f64,
        part: u32,
        parts: u32,
    ) -> Box<dyn RecordBatchReader + Send> {
        assert!(part < parts, "there is no part {part} of {parts}");
        assert!(
            scale_factor > 0.0 && scale_factor <= MAX_SCALE_FACTOR,
            "no scale factor above 0 and up to {MAX_SCALE_FACTOR}: {scale_factor}"
        );
        let units = self.units(scale_factor);
        let bound = |part: u32| (u128::from(units) * u128::from(part) / u128::from(parts)) as u64;
        let (first, end) = (bound(part), bound(part + 1));
        let step = match self {
            Self::Lineorder => BATCH_ROWS / LINES_PER_ORDER,
            _ => BATCH_ROWS,
        };
        let keys = lineorder::DimensionSizes {
            customers: Self::Customer.units(scale_factor),
            parts: Self::Part.units(scale_factor),
            suppliers: Self::Supplier.units(scale_factor),
        };
        let schema = self.schema();
        let of = schema.clone();
        let batches = (first..end).step_by(step as usize).map(move |start| {
            let units = start..(start + step).min(end);
            let columns = match self {
                Self::Date => calendar::columns(units),
                Self::Supplier => people::suppliers(seed, units),
                Self::Customer => people::customers(seed, units),
                Self::Part => part::columns(seed, units),
                Self::Lineorder => lineorder::columns(seed, &keys, units),
            };
            RecordBatch::try_new(of.clone(), columns)
        });
        Box::new(RecordBatchIterator::new(batches, schema))
    }
}

impl fmt::Display for SsbTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SsbTable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|table| table.name() == text)
            .ok_or_else(|| format!("the Star Schema Benchmark has no table `{text}`"))
    }
}

/// First stream of each table. It keeps the random numbers of the tables independent.
mod streams {
    pub(super) const SUPPLIER: u64 = 1 << 40;
    pub(super) const CUSTOMER: u64 = 2 << 40;
    pub(super) const PART: u64 = 3 << 40;
    pub(super) const LINEORDER: u64 = 4 << 40;
}
