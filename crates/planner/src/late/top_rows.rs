//! The rows of some ranks in an order, found without sorting those before them.
//!
//! Rows are collected with a key that sorts like them. Whenever twice as many are there as can be among the
//! first ones, the others are dropped: linear time altogether. At the end the rows before the wanted ones are
//! split off, and only the wanted ones are sorted.

use std::cmp::Ordering;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use arrow_select::interleave::interleave_record_batch;
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::physical_expr::LexOrdering;

/// Number of rows beyond twice the needed ones that are collected before some are dropped.
const SLACK_ROWS: usize = 65_536;

/// A collected row.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The first bytes of its key.
    prefix: u128,
    batch: u32,
    row: u32,
}

/// The rows of a stream that can still be among the first ones.
pub(super) struct TopRows {
    order: LexOrdering,
    converter: RowConverter,
    /// Number of rows to keep.
    first: usize,
    entries: Vec<Entry>,
    batches: Vec<RecordBatch>,
    /// The keys of the batches, if their prefixes do not decide.
    keys: Vec<Rows>,
    prefix_decides: bool,
    /// The prefix of the last of the `first` rows, once there are that many.
    threshold: Option<u128>,
}

impl TopRows {
    /// Begins with no row; the first `first` rows in `order` can be asked for. The columns of that order have
    /// these types.
    ///
    /// # Errors
    /// One of the types cannot be sorted.
    pub(super) fn new(order: LexOrdering, types: &[DataType], first: usize) -> Result<Self> {
        let fields = order.iter().zip(types);
        let fields = fields.map(|(sorted, of)| SortField::new_with_options(of.clone(), sorted.options));
        let widths: Option<usize> = types.iter().map(|of| Some(of.primitive_width()? + 1)).sum();
        Ok(Self {
            converter: RowConverter::new(fields.collect())?,
            order,
            first,
            entries: Vec::new(),
            batches: Vec::new(),
            keys: Vec::new(),
            prefix_decides: widths.is_some_and(|width| width <= size_of::<u128>()),
            threshold: None,
        })
    }

    /// Adds the rows of a batch. Returns the first sort column of the row that no further row may come after,
    /// if that has changed.
    ///
    /// # Errors
    /// The order cannot be evaluated.
    pub(super) fn push(&mut self, batch: RecordBatch) -> Result<Option<ScalarValue>> {
        let keys = self.converter.convert_columns(&self.sort_columns(&batch)?)?;
        let number = self.batches.len() as u32;
        let before = self.entries.len();
        for (row, key) in (0..).zip(&keys) {
            let prefix = prefix(key.data());
            if self.threshold.is_none_or(|threshold| prefix <= threshold) {
                self.entries.push(Entry {
                    prefix,
                    batch: number,
                    row,
                });
            }
        }
        if self.entries.len() == before {
            return Ok(None);
        }
        self.batches.push(batch);
        if !self.prefix_decides {
            self.keys.push(keys);
        }
        if self.entries.len() >= self.first.saturating_mul(2).saturating_add(SLACK_ROWS) {
            self.prune().map(Some)
        } else {
            Ok(None)
        }
    }

    /// Returns the approximate number of bytes of DRAM that the collected rows occupy.
    pub(super) fn size(&self) -> usize {
        let batches: usize = self.batches.iter().map(RecordBatch::get_array_memory_size).sum();
        let keys: usize = self.keys.iter().map(Rows::size).sum();
        batches + keys + self.entries.capacity() * size_of::<Entry>()
    }

    /// Returns up to `rows` rows after the first `skip` ones, sorted, in batches of up to `batch_rows`.
    ///
    /// # Errors
    /// A batch gets too large.
    pub(super) fn finish(mut self, skip: usize, rows: usize, batch_rows: usize) -> Result<Vec<RecordBatch>> {
        let mut entries = std::mem::take(&mut self.entries);
        if entries.len() <= skip || rows == 0 {
            return Ok(Vec::new());
        }
        if skip > 0 {
            entries.select_nth_unstable_by(skip, |a, b| self.compare(a, b));
            entries.drain(..skip);
        }
        if rows < entries.len() {
            entries.select_nth_unstable_by(rows, |a, b| self.compare(a, b));
            entries.truncate(rows);
        }
        entries.sort_unstable_by(|a, b| self.compare(a, b));
        let parts = entries.chunks(batch_rows.max(1));
        parts.map(|part| self.batch_of(part)).collect()
    }

    fn sort_columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let evaluate = |sorted: &datafusion::physical_expr::PhysicalSortExpr| {
            sorted.expr.evaluate(batch)?.into_array(batch.num_rows())
        };
        self.order.iter().map(evaluate).collect()
    }

    fn compare(&self, a: &Entry, b: &Entry) -> Ordering {
        let key = |entry: &Entry| self.keys[entry.batch as usize].row(entry.row as usize);
        match a.prefix.cmp(&b.prefix) {
            Ordering::Equal if !self.prefix_decides => key(a).cmp(&key(b)),
            order => order,
        }
    }

    /// Drops the rows that cannot be among the first ones, of which there are more, and returns the first
    /// sort column of the last one that can.
    fn prune(&mut self) -> Result<ScalarValue> {
        let mut entries = std::mem::take(&mut self.entries);
        let last = self.first.saturating_sub(1);
        let (_, last, _) = entries.select_nth_unstable_by(last, |a, b| self.compare(a, b));
        let last = *last;
        entries.truncate(self.first);
        self.threshold = Some(last.prefix);
        let sort_columns =
            self.sort_columns(&self.batches[last.batch as usize].slice(last.row as usize, 1))?;
        let threshold = ScalarValue::try_from_array(&sort_columns[0], 0)?;
        self.entries = entries;
        self.compact()?;
        Ok(threshold)
    }

    /// Copies the collected rows to batches of their own, so that those they came in can be freed.
    fn compact(&mut self) -> Result<()> {
        const BATCH_ROWS: usize = 8192;
        let (mut batches, mut keys) = (Vec::new(), Vec::new());
        for part in self.entries.chunks(BATCH_ROWS) {
            batches.push(self.batch_of(part)?);
            if !self.prefix_decides {
                let mut rows = self.converter.empty_rows(part.len(), 0);
                part.iter()
                    .for_each(|entry| rows.push(self.keys[entry.batch as usize].row(entry.row as usize)));
                keys.push(rows);
            }
        }
        for (at, entry) in self.entries.iter_mut().enumerate() {
            (entry.batch, entry.row) = ((at / BATCH_ROWS) as u32, (at % BATCH_ROWS) as u32);
        }
        (self.batches, self.keys) = (batches, keys);
        Ok(())
    }

    fn batch_of(&self, entries: &[Entry]) -> Result<RecordBatch> {
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        let places: Vec<(usize, usize)> = entries
            .iter()
            .map(|entry| (entry.batch as usize, entry.row as usize))
            .collect();
        Ok(interleave_record_batch(&batches, &places)?)
    }
}

/// Returns the first bytes of a key as a number that sorts like them. No key is the beginning of another, so
/// that keys of at most 16 bytes are equal if their prefixes are.
fn prefix(key: &[u8]) -> u128 {
    let mut bytes = [0; size_of::<u128>()];
    let len = key.len().min(bytes.len());
    bytes[..len].copy_from_slice(&key[..len]);
    u128::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{Int64Array, StringArray};
    use arrow_schema::SortOptions;
    use datafusion::physical_expr::PhysicalSortExpr;
    use datafusion::physical_expr::expressions::Column;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn order(columns: &[(&str, usize, SortOptions)]) -> LexOrdering {
        let of = |(name, at, options): &(&str, usize, SortOptions)| {
            PhysicalSortExpr::new(Arc::new(Column::new(name, *at)), *options)
        };
        LexOrdering::new(columns.iter().map(of)).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn ranks_agree_with_a_sort(
            sizes in proptest::collection::vec(0usize..60_000, 1..6),
            values in 1i64..100_000,
            skip in 0usize..4000,
            rows in 0usize..3000,
            descending in any::<bool>(),
            nulls_first in any::<bool>(),
            by_text in any::<bool>(),
            batch_rows in 1usize..5000,
        ) {
            let options = SortOptions { descending, nulls_first };
            let columns = if by_text {
                // The keys of texts are longer than the prefix.
                vec![("text", 1, options)]
            } else {
                vec![("number", 0, options)]
            };
            let types = if by_text {
                vec![DataType::Utf8]
            } else {
                vec![DataType::Int64]
            };
            let mut top = TopRows::new(order(&columns), &types, skip + rows).unwrap();
            let (mut all, mut at) = (Vec::new(), 0);
            for size in sizes {
                let numbers: Vec<Option<i64>> = (at..at + size as i64)
                    .map(|n| n.wrapping_mul(7919) % values)
                    .map(|n| (n % 50 != 3).then_some(n))
                    .collect();
                at += size as i64;
                all.extend(numbers.iter().copied());
                let text = |n: &Option<i64>| n.map(|n| format!("the same beginning {n:09}"));
                let texts: Vec<Option<String>> = numbers.iter().map(text).collect();
                let batch = RecordBatch::try_from_iter_with_nullable([
                    ("number", Arc::new(Int64Array::from(numbers)) as ArrayRef, true),
                    ("text", Arc::new(StringArray::from(texts)) as ArrayRef, true),
                ]);
                top.push(batch.unwrap()).unwrap();
            }
            all.sort_unstable_by(|a, b| match (a, b) {
                (Some(a), Some(b)) if descending => b.cmp(a),
                (Some(a), Some(b)) => a.cmp(b),
                (None, None) => Ordering::Equal,
                (None, _) if nulls_first => Ordering::Less,
                (_, None) if !nulls_first => Ordering::Less,
                _ => Ordering::Greater,
            });
            let expected: Vec<Option<i64>> = all.into_iter().skip(skip).take(rows).collect();
            let found = top.finish(skip, rows, batch_rows).unwrap();
            prop_assert!(found.iter().all(|batch| (1..=batch_rows).contains(&batch.num_rows())));
            let found: Vec<Option<i64>> = found
                .iter()
                .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>())
                .collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn thresholds_drop_rows() {
        let ascending = SortOptions::default();
        let mut top = TopRows::new(order(&[("n", 0, ascending)]), &[DataType::Int64], 10).unwrap();
        let batch = |from: i64| {
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((from..from + 70_000).rev()));
            RecordBatch::try_from_iter([("n", numbers)]).unwrap()
        };
        let threshold = top.push(batch(1000)).unwrap();
        assert_eq!(threshold, Some(ScalarValue::Int64(Some(1009))));
        assert_eq!(top.push(batch(5000)).unwrap(), None);
        assert!(top.size() < 8 << 20 && top.batches.len() == 1);
        top.push(batch(1005)).unwrap();
        let found = top.finish(8, 2, 8192).unwrap();
        assert_eq!(
            found[0].column(0).as_primitive::<Int64Type>().values(),
            &[1006, 1007]
        );
    }
}
