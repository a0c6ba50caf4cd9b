//! Tables with long, distinct strings and numbers, for which neither dictionaries nor compression help.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Int32Array, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray,
};
use arrow_schema::{DataType, Field, Schema};

use crate::SplitMix64;

/// Rows per batch.
const BATCH_ROWS: u64 = 8192;
const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// Parameters of a wide table. Equal parameters give equal tables.
///
/// Columns: `id` (from `first_id` on), `k` (60 random bits), `g` (0 to 999), `name` (random letters and
/// digits).
///
/// ```
/// use halocline_workloads::WideSpec;
/// let spec = WideSpec { first_id: 100, rows: 10_000, string_bytes: 50, seed: 1 };
/// let rows: usize = spec.batches().map(|batch| batch.map_or(0, |batch| batch.num_rows())).sum();
/// assert_eq!(rows, 10_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WideSpec {
    /// The first `id`.
    pub first_id: u64,
    /// Number of rows.
    pub rows: u64,
    /// Bytes of each `name`.
    pub string_bytes: usize,
    /// Seed of the values. A row depends on the seed and its `id` only as long as batches begin at the same
    /// ids.
    pub seed: u64,
}

impl WideSpec {
    /// Generates the rows lazily.
    pub fn batches(self) -> impl RecordBatchReader {
        let fields = vec![
            Field::new("id", DataType::Int64, false),
            Field::new("k", DataType::Int64, false),
            Field::new("g", DataType::Int32, false),
            Field::new("name", DataType::Utf8, false),
        ];
        let schema = Arc::new(Schema::new(fields));
        let of = Arc::clone(&schema);
        let starts = (0..self.rows).step_by(BATCH_ROWS as usize);
        let batches = starts.map(move |start| {
            let rows = BATCH_ROWS.min(self.rows - start);
            RecordBatch::try_new(Arc::clone(&of), self.columns(self.first_id + start, rows))
        });
        RecordBatchIterator::new(batches, schema)
    }

    fn columns(&self, first: u64, rows: u64) -> Vec<ArrayRef> {
        let mut rng = SplitMix64::stream(self.seed, first);
        let ids = (first..first + rows).map(|id| id as i64);
        let keys: Vec<i64> = (0..rows).map(|_| (rng.next_u64() >> 4) as i64).collect();
        let groups: Vec<i32> = (0..rows).map(|_| rng.below(1000) as i32).collect();
        let mut name = String::with_capacity(self.string_bytes);
        let names = (0..rows).map(|_| {
            name.clear();
            while name.len() < self.string_bytes {
                let word = rng.next_u64();
                let letters = (0..10).map(|at| char::from(DIGITS[(word >> (6 * at)) as usize % 64]));
                name.extend(letters.take(self.string_bytes - name.len()));
            }
            name.clone()
        });
        vec![
            Arc::new(Int64Array::from_iter_values(ids)),
            Arc::new(Int64Array::from(keys)),
            Arc::new(Int32Array::from(groups)),
            Arc::new(StringArray::from_iter_values(names)),
        ]
    }
}
