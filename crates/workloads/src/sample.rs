//! A sample of `lineitem`, from which generators learn the distributions of values.

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use crate::{Literal, SplitMix64, TpchTable, lineitem_selection_columns};

/// The conversion of a column's numbers to values.
#[derive(Debug, Clone)]
enum SampleEncoding {
    Int,
    Cents,
    Date,
    /// Numbers are positions in this sorted list.
    Text(Vec<String>),
}

/// A column of the sample: its values as numbers in the same order.
#[derive(Debug, Clone)]
pub(crate) struct SampleColumn {
    pub(crate) name: &'static str,
    pub(crate) values: Vec<i64>,
    kind: SampleEncoding,
}

impl SampleColumn {
    /// Returns true if ranges of the column are meaningful.
    pub(crate) fn is_ordered(&self) -> bool {
        !matches!(self.kind, SampleEncoding::Text(_))
    }

    /// Returns the value that `number` represents.
    pub(crate) fn literal(&self, number: i64) -> Literal {
        match &self.kind {
            SampleEncoding::Int => Literal::Int(number),
            SampleEncoding::Cents => Literal::Cents(number),
            SampleEncoding::Date => Literal::Date(number as i32),
            SampleEncoding::Text(dictionary) => Literal::Text(dictionary[number as usize].clone()),
        }
    }
}

/// Rows of `lineitem`, taken in small runs from all over the table, without the comment.
#[derive(Debug, Clone)]
pub struct LineitemSample {
    columns: Vec<SampleColumn>,
}

impl LineitemSample {
    /// Generates about `rows` rows of the table at `scale_factor`, or the whole table if it is smaller.
    #[must_use]
    pub fn generate(scale_factor: f64, rows: usize, seed: u64) -> Self {
        const RUN_ROWS: u64 = 400;
        let total = TpchTable::Lineitem.approximate_rows(scale_factor).max(1);
        let parts = total.div_ceil(RUN_ROWS) as u32;
        let wanted = ((rows as u64).div_ceil(RUN_ROWS) as u32).clamp(1, parts);
        let mut rng = SplitMix64::new(seed);
        let mut batches = Vec::new();
        for i in 0..u64::from(wanted) {
            // One run from each of `wanted` equal sections of the table.
            let first = i * u64::from(parts) / u64::from(wanted);
            let end = (i + 1) * u64::from(parts) / u64::from(wanted);
            let part = first + rng.below((end - first).max(1));
            batches.extend(
                TpchTable::Lineitem
                    .reader(scale_factor, part as u32, parts)
                    .map_while(Result::ok),
            );
        }
        Self::from_batches(&batches)
    }

    /// Takes the rows of `batches`, which must have the schema of [`TpchTable::Lineitem`].
    ///
    /// # Panics
    /// Panics if a column is missing or has another type.
    #[must_use]
    pub fn from_batches(batches: &[RecordBatch]) -> Self {
        let columns = lineitem_selection_columns()
            .into_iter()
            .map(|name| read_column(name, batches))
            .collect();
        Self { columns }
    }

    /// Returns the number of rows in the sample.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.columns[0].values.len()
    }

    pub(crate) fn columns(&self) -> &[SampleColumn] {
        &self.columns
    }
}

fn read_column(name: &'static str, batches: &[RecordBatch]) -> SampleColumn {
    let schema = TpchTable::Lineitem.schema();
    let arrays = || {
        batches
            .iter()
            .map(|batch| batch.column_by_name(name).expect("a column of lineitem"))
    };
    let mut values = Vec::new();
    let data_type = schema
        .field_with_name(name)
        .expect("a column of lineitem")
        .data_type()
        .clone();
    let kind = match data_type {
        DataType::Int32 => {
            arrays().for_each(|a| {
                values.extend(
                    a.as_primitive::<Int32Type>()
                        .values()
                        .iter()
                        .map(|v| i64::from(*v)),
                )
            });
            SampleEncoding::Int
        }
        DataType::Int64 => {
            arrays().for_each(|a| values.extend_from_slice(a.as_primitive::<Int64Type>().values()));
            SampleEncoding::Int
        }
        DataType::Decimal128(_, _) => {
            arrays().for_each(|a| {
                values.extend(
                    a.as_primitive::<Decimal128Type>()
                        .values()
                        .iter()
                        .map(|v| *v as i64),
                )
            });
            SampleEncoding::Cents
        }
        DataType::Date32 => {
            arrays().for_each(|a| {
                values.extend(
                    a.as_primitive::<Date32Type>()
                        .values()
                        .iter()
                        .map(|v| i64::from(*v)),
                )
            });
            SampleEncoding::Date
        }
        _ => {
            let texts: Vec<&str> = arrays()
                .flat_map(|a| {
                    let strings = a.as_string_view();
                    (0..strings.len()).map(|i| strings.value(i))
                })
                .collect();
            let mut dictionary: Vec<&str> = texts.clone();
            dictionary.sort_unstable();
            dictionary.dedup();
            values.extend(
                texts
                    .iter()
                    .map(|text| dictionary.partition_point(|entry| entry < text) as i64),
            );
            SampleEncoding::Text(dictionary.into_iter().map(str::to_owned).collect())
        }
    };
    SampleColumn { name, values, kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_comes_from_all_over_the_table() {
        let sample = LineitemSample::generate(0.02, 6000, 1);
        assert!((5000..7000).contains(&sample.rows()), "{}", sample.rows());
        let keys = &sample.columns()[0].values;
        let (min, max) = (keys.iter().min().unwrap(), keys.iter().max().unwrap());
        assert!(*min < 12_000 && *max > 108_000, "{min}..{max} of 120 000");
    }

    #[test]
    fn numbers_turn_back_into_values() {
        let sample = LineitemSample::generate(0.001, usize::MAX, 1);
        let column = |name| {
            sample
                .columns()
                .iter()
                .find(|column| column.name == name)
                .unwrap()
        };
        let flag = column("l_returnflag");
        assert!(!flag.is_ordered());
        assert_eq!(flag.literal(0), Literal::text("A"));
        let quantity = column("l_quantity");
        assert!(quantity.is_ordered());
        assert_eq!(quantity.literal(1700).to_string(), "17.00");
    }
}
