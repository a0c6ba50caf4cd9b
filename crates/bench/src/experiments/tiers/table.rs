//! The tables as an index sees them: columns of order-preserving codes, each as narrow as its largest code
//! allows.

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use halocline_elf::Rows;
use halocline_workloads::{TpchTable, UniformSpec, UniformTable};

use crate::{BenchError, DataKind, Settings};

pub(in crate::experiments) const DIMS: usize = 10;
pub(in crate::experiments) const CARDINALITY: u32 = 100;

/// Codes of one dimension.
#[derive(Debug)]
enum Codes {
    One(Vec<u8>),
    Two(Vec<u16>),
    Four(Vec<u32>),
}

impl Codes {
    fn narrowed(values: Vec<u32>, max: u32) -> Self {
        if let Ok(_small) = u8::try_from(max) {
            Self::One(values.iter().map(|&value| value as u8).collect())
        } else if let Ok(_small) = u16::try_from(max) {
            Self::Two(values.iter().map(|&value| value as u16).collect())
        } else {
            Self::Four(values)
        }
    }

    fn get(&self, row: usize) -> u64 {
        match self {
            Self::One(codes) => u64::from(codes[row]),
            Self::Two(codes) => u64::from(codes[row]),
            Self::Four(codes) => u64::from(codes[row]),
        }
    }

    fn read(&self, start: usize, out: &mut [u64]) {
        fn copy<T: Copy + Into<u64>>(codes: &[T], out: &mut [u64]) {
            for (out, &code) in out.iter_mut().zip(codes) {
                *out = code.into();
            }
        }
        match self {
            Self::One(codes) => copy(&codes[start..], out),
            Self::Two(codes) => copy(&codes[start..], out),
            Self::Four(codes) => copy(&codes[start..], out),
        }
    }
}

/// A table of codes.
#[derive(Debug)]
pub(in crate::experiments) struct CodeTable {
    kind: DataKind,
    rows: usize,
    columns: Vec<Codes>,
    max_codes: Vec<u64>,
}

impl CodeTable {
    /// Creates the table of a kind, at the requested size.
    pub(in crate::experiments) fn make(kind: DataKind, settings: &Settings) -> Result<Self, BenchError> {
        let full = settings.tiers.full;
        match kind {
            DataKind::Uniform => {
                let rows = settings.rows.unwrap_or(match (settings.quick, full) {
                    (true, _) => 20_000,
                    (_, true) => 100_000_000,
                    _ => 10_000_000,
                });
                Ok(Self::uniform(rows, DIMS, CARDINALITY, settings.seed))
            }
            DataKind::Lineitem => {
                let default = match (settings.quick, full) {
                    (true, _) => 0.002,
                    (_, true) => 10.0,
                    _ => 1.0,
                };
                Self::lineitem(settings.scale_factor.unwrap_or(default))
            }
        }
    }

    /// Creates a table of independent values in `0..cardinality`.
    pub(in crate::experiments) fn uniform(rows: usize, dims: usize, cardinality: u32, seed: u64) -> Self {
        let spec = UniformSpec {
            rows,
            dims,
            cardinality,
            seed,
        };
        let max = cardinality - 1;
        let column = |dim| Codes::narrowed(UniformTable::values(&spec, dim).collect(), max);
        Self {
            kind: DataKind::Uniform,
            rows,
            columns: (0..dims).map(column).collect(),
            max_codes: vec![u64::from(max); dims],
        }
    }

    /// Creates a table of all columns of lineitem except the comment, by ascending cardinality.
    fn lineitem(scale_factor: f64) -> Result<Self, BenchError> {
        let reader = TpchTable::Lineitem.reader(scale_factor, 0, 1);
        let kept = reader.schema().fields().len() - 1;
        let mut raw = vec![RawColumn::default(); kept];
        for batch in reader {
            let batch = batch.map_err(|error| BenchError::Setup(error.to_string()))?;
            for (dim, raw) in raw.iter_mut().enumerate() {
                raw.add(&batch, dim)?;
            }
        }
        let mut columns: Vec<(u32, Codes)> = raw.into_iter().map(RawColumn::ranked).collect();
        columns.sort_by_key(|(max, _)| *max);
        let max_codes = columns.iter().map(|(max, _)| u64::from(*max)).collect();
        let columns: Vec<Codes> = columns.into_iter().map(|(_, codes)| codes).collect();
        let rows = columns.first().map_or(0, |codes| match codes {
            Codes::One(codes) => codes.len(),
            Codes::Two(codes) => codes.len(),
            Codes::Four(codes) => codes.len(),
        });
        Ok(Self {
            kind: DataKind::Lineitem,
            rows,
            columns,
            max_codes,
        })
    }

    pub(in crate::experiments) fn kind(&self) -> DataKind {
        self.kind
    }

    /// Returns the number of values that each dimension can hold.
    pub(in crate::experiments) fn cardinalities(&self) -> Vec<u64> {
        self.max_codes.iter().map(|max| max + 1).collect()
    }

    /// Appends the codes of a row.
    pub(in crate::experiments) fn push_row(&self, row: usize, out: &mut Vec<u64>) {
        out.extend(self.columns.iter().map(|codes| codes.get(row)));
    }
}

impl Rows for CodeTable {
    fn rows(&self) -> usize {
        self.rows
    }

    fn dims(&self) -> usize {
        self.columns.len()
    }

    fn max_code(&self, dim: usize) -> u64 {
        self.max_codes[dim]
    }

    fn read(&self, dim: usize, start: usize, out: &mut [u64]) {
        self.columns[dim].read(start, out);
    }
}

/// Values of a column as they come: small numbers whose order is that of the values.
#[derive(Debug, Clone, Default)]
struct RawColumn {
    values: Vec<u32>,
    /// Of a column of text: each one met so far. `values` are then places in it.
    texts: Vec<String>,
}

impl RawColumn {
    fn add(&mut self, batch: &RecordBatch, column: usize) -> Result<(), BenchError> {
        let array = batch.column(column);
        let number = |value: i64| {
            u32::try_from(value)
                .map_err(|_| BenchError::Setup(format!("{value} in lineitem has no place here")))
        };
        match array.data_type() {
            DataType::Int64 => {
                for value in array.as_primitive::<Int64Type>().values() {
                    self.values.push(number(*value)?);
                }
            }
            DataType::Int32 => {
                for value in array.as_primitive::<Int32Type>().values() {
                    self.values.push(number(i64::from(*value))?);
                }
            }
            DataType::Date32 => {
                for value in array.as_primitive::<Date32Type>().values() {
                    self.values.push(number(i64::from(*value))?);
                }
            }
            DataType::Decimal128(..) => {
                for value in array.as_primitive::<Decimal128Type>().values() {
                    self.values.push(number(*value as i64)?);
                }
            }
            DataType::Utf8View => {
                let array = array.as_string_view();
                for row in 0..array.len() {
                    let text = array.value(row);
                    let known = self.texts.iter().position(|known| known == text);
                    let place = known.unwrap_or_else(|| {
                        self.texts.push(text.to_owned());
                        self.texts.len() - 1
                    });
                    self.values.push(place as u32);
                }
            }
            other => {
                return Err(BenchError::Setup(format!(
                    "lineitem has a column of type {other}"
                )));
            }
        }
        Ok(())
    }

    /// Returns the largest code and the codes. The code of a value is the number of distinct smaller values.
    fn ranked(mut self) -> (u32, Codes) {
        if !self.texts.is_empty() {
            let mut sorted: Vec<usize> = (0..self.texts.len()).collect();
            sorted.sort_by_key(|&place| &self.texts[place]);
            let mut ranks = vec![0; sorted.len()];
            for (rank, place) in sorted.into_iter().enumerate() {
                ranks[place] = rank as u32;
            }
            for value in &mut self.values {
                *value = ranks[*value as usize];
            }
        }
        let most = self.values.iter().copied().max().unwrap_or(0) as usize;
        let mut ranks = vec![0u32; most + 1];
        for &value in &self.values {
            ranks[value as usize] = 1;
        }
        let mut next = 0;
        for rank in &mut ranks {
            let there = *rank;
            *rank = next;
            next += there;
        }
        for value in &mut self.values {
            *value = ranks[*value as usize];
        }
        let max = next.saturating_sub(1);
        (max, Codes::narrowed(self.values, max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uniform_table_is_that_of_the_workloads() {
        let table = CodeTable::uniform(500, 3, 300, 7);
        let same = UniformTable::generate(&UniformSpec {
            rows: 500,
            dims: 3,
            cardinality: 300,
            seed: 7,
        });
        for row in [0, 17, 499] {
            let mut codes = vec![];
            table.push_row(row, &mut codes);
            assert_eq!(codes, same.row(row));
        }
        let mut some = [0; 9];
        table.read(2, 100, &mut some);
        assert_eq!(some[3], u64::from(same.column(2)[103]));
    }

    #[test]
    fn columns_of_lineitem_are_ranked_and_sorted_by_their_values() {
        let table = CodeTable::lineitem(0.001).unwrap();
        assert_eq!(table.dims(), 15);
        assert!(table.rows() > 5000);
        let cardinalities = table.cardinalities();
        assert!(cardinalities.is_sorted());
        assert_eq!(cardinalities[..2], [2, 3], "line status and return flag");
        for (dim, &cardinality) in cardinalities.iter().enumerate() {
            let mut codes = vec![0; table.rows()];
            table.read(dim, 0, &mut codes);
            codes.sort_unstable();
            codes.dedup();
            assert_eq!(codes.len() as u64, cardinality, "every code is in use");
        }
    }

    #[test]
    fn texts_are_ranked_by_order() {
        let raw = RawColumn {
            values: vec![0, 1, 2, 1],
            texts: vec!["m".into(), "a".into(), "z".into()],
        };
        let (max, codes) = raw.ranked();
        let codes: Vec<u64> = (0..4).map(|row| codes.get(row)).collect();
        assert_eq!((max, codes), (2, vec![1, 0, 2, 0]));
    }
}
