//! The TPC-H tables as streams of Arrow batches, from the tpchgen crate.

use std::fmt;
use std::str::FromStr;

use arrow_array::{RecordBatchIterator, RecordBatchReader};
use arrow_schema::SchemaRef;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

/// Rows per batch of [`TpchTable::reader`].
const BATCH_ROWS: usize = 8192;

/// A table of TPC-H.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TpchTable {
    /// 5 rows.
    Region,
    /// 25 rows.
    Nation,
    /// 10 000 rows per scale factor.
    Supplier,
    /// 150 000 rows per scale factor.
    Customer,
    /// 200 000 rows per scale factor.
    Part,
    /// 800 000 rows per scale factor.
    PartSupp,
    /// 1 500 000 rows per scale factor.
    Orders,
    /// About 6 000 000 rows per scale factor.
    Lineitem,
}

impl TpchTable {
    /// All tables, smallest first.
    pub const ALL: [Self; 8] = [
        Self::Region,
        Self::Nation,
        Self::Supplier,
        Self::Customer,
        Self::Part,
        Self::PartSupp,
        Self::Orders,
        Self::Lineitem,
    ];

    /// Returns the table's name in the specification.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::Nation => "nation",
            Self::Supplier => "supplier",
            Self::Customer => "customer",
            Self::Part => "part",
            Self::PartSupp => "partsupp",
            Self::Orders => "orders",
            Self::Lineitem => "lineitem",
        }
    }

    /// Returns the number of rows at a scale factor; approximate for `lineitem`, whose orders have one to
    /// seven lines.
    #[must_use]
    pub fn approximate_rows(self, scale_factor: f64) -> u64 {
        let per_scale_factor = match self {
            Self::Region => return 5,
            Self::Nation => return 25,
            Self::Supplier => 10_000.0,
            Self::Customer => 150_000.0,
            Self::Part => 200_000.0,
            Self::PartSupp => 800_000.0,
            Self::Orders => 1_500_000.0,
            Self::Lineitem => 6_000_000.0,
        };
        (per_scale_factor * scale_factor) as u64
    }

    /// Returns the Arrow schema (strings are `Utf8View`, amounts `Decimal128(15, 2)`, dates `Date32`).
    #[must_use]
    pub fn schema(self) -> SchemaRef {
        match self {
            Self::Region => RegionArrow::schema_ref(),
            Self::Nation => NationArrow::schema_ref(),
            Self::Supplier => SupplierArrow::schema_ref(),
            Self::Customer => CustomerArrow::schema_ref(),
            Self::Part => PartArrow::schema_ref(),
            Self::PartSupp => PartSuppArrow::schema_ref(),
            Self::Orders => OrderArrow::schema_ref(),
            Self::Lineitem => LineItemArrow::schema_ref(),
        }
    }

    /// Generates one of `parts` equal parts (`part` counts from 0) in batches of 8192 rows. The
    /// concatenation of all parts is the table (`region` and `nation` are entirely in part 0). The first
    /// call in a process fills tpchgen's pool of words (300 MB of DRAM, about a second).
    ///
    /// # Panics
    /// Panics if `part >= parts`.
    #[must_use]
    pub fn reader(self, scale_factor: f64, part: u32, parts: u32) -> Box<dyn RecordBatchReader + Send> {
        assert!(part < parts, "there is no part {part} of {parts}");
        let (number, of) = (part as i32 + 1, parts as i32);
        if part > 0 && matches!(self, Self::Region | Self::Nation) {
            return Box::new(RecordBatchIterator::new(std::iter::empty(), self.schema()));
        }
        macro_rules! reader {
            ($generator:ident, $arrow:ident) => {
                Box::new($arrow::new($generator::new(scale_factor, number, of)).with_batch_size(BATCH_ROWS))
            };
        }
        match self {
            Self::Region => reader!(RegionGenerator, RegionArrow),
            Self::Nation => reader!(NationGenerator, NationArrow),
            Self::Supplier => reader!(SupplierGenerator, SupplierArrow),
            Self::Customer => reader!(CustomerGenerator, CustomerArrow),
            Self::Part => reader!(PartGenerator, PartArrow),
            Self::PartSupp => reader!(PartSuppGenerator, PartSuppArrow),
            Self::Orders => reader!(OrderGenerator, OrderArrow),
            Self::Lineitem => reader!(LineItemGenerator, LineItemArrow),
        }
    }
}

impl fmt::Display for TpchTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TpchTable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|table| table.name() == text)
            .ok_or_else(|| format!("TPC-H has no table `{text}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(table: TpchTable, parts: u32) -> Vec<usize> {
        (0..parts)
            .map(|part| {
                table
                    .reader(0.002, part, parts)
                    .map(|batch| batch.unwrap().num_rows())
                    .sum()
            })
            .collect()
    }

    #[test]
    fn parts_make_up_the_whole() {
        for table in TpchTable::ALL {
            let whole: usize = rows(table, 1).iter().sum();
            assert_eq!(rows(table, 3).iter().sum::<usize>(), whole, "{table}");
            let expected = table.approximate_rows(0.002) as f64;
            assert!(
                (whole as f64 / expected - 1.0).abs() < 0.02,
                "{table}: {whole} rows instead of {expected}"
            );
        }
    }

    #[test]
    fn batches_have_the_announced_schema_and_names_parse() {
        for table in TpchTable::ALL {
            let batch = table.reader(0.001, 0, 1).next().unwrap().unwrap();
            assert_eq!(batch.schema(), table.schema());
            assert_eq!(table.name().parse::<TpchTable>(), Ok(table));
        }
        assert!("lineitems".parse::<TpchTable>().is_err());
    }
}
