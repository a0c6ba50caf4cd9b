//! Maps from keys to rows that are arrays.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;

use super::random_rows::RandomRows;
use crate::JoinResult;
use crate::equi::budget::{BudgetShare, JoinBudget};
use crate::equi::key::{KeyEncoder, KeyValues};
use crate::equi::layout::fixed_bits;

/// Rows that are read at a time.
const BATCH_ROWS: usize = 8192;

/// Most entries of a map for each key.
const MAX_ENTRIES_PER_KEY: u64 = 8;

/// No row.
const NONE: u32 = u32::MAX;

/// Unique keys in a small range, and the row of each.
#[derive(Debug)]
pub struct DenseKeyMap {
    column: usize,
    form: WordForm,
    least: i64,
    rows: DenseRows,
    _memory: Option<BudgetShare>,
    /// True if a live row has no key.
    has_nulls: bool,
}

#[derive(Debug)]
enum DenseRows {
    /// The key is the number of the row, but for a constant.
    Sequence(u64),
    /// The row of each key.
    Map(Vec<u32>),
}

/// How the words of keys are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WordForm {
    bits: u32,
    is_signed: bool,
}

impl WordForm {
    fn for_type(data_type: &DataType) -> Option<WordForm> {
        use DataType::{Boolean, Date32, Date64, Duration, Int8, Int16, Int32, Int64};
        use DataType::{Time32, Time64, Timestamp, UInt8, UInt16, UInt32};
        let is_signed = match data_type {
            Int8 | Int16 | Int32 | Int64 | Date32 | Date64 => true,
            Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => true,
            Boolean | UInt8 | UInt16 | UInt32 => false,
            _ => return None,
        };
        let bits = fixed_bits(data_type)?;
        Some(WordForm { bits, is_signed })
    }

    #[inline(always)]
    fn number(self, word: u64) -> i64 {
        let unused = u64::BITS - self.bits;
        if self.is_signed {
            (word << unused) as i64 >> unused
        } else {
            word as i64
        }
    }
}

impl DenseKeyMap {
    /// Reads a key column, and returns the map if its keys are whole numbers or times, unique, and either
    /// ascend by one or lie in a range of at most 8 times their number, for which there is memory (4 bytes
    /// for each number of the range). Reads the column twice at most. O(rows + range).
    ///
    /// # Errors
    /// Those of the rows.
    pub fn detect(
        rows: &dyn RandomRows,
        column: usize,
        budget: &Arc<JoinBudget>,
    ) -> JoinResult<Option<DenseKeyMap>> {
        let schema = rows.schema();
        let Some(data_type) = schema.fields().get(column).map(|field| field.data_type().clone()) else {
            return Ok(None);
        };
        let Some(form) = WordForm::for_type(&data_type) else {
            return Ok(None);
        };
        let (mut least, mut most, mut keys, mut has_nulls) = (i64::MAX, i64::MIN, 0_u64, false);
        let mut is_sequence = true;
        for_each_key(rows, column, form, &mut |row, key| {
            let Some(key) = key else {
                has_nulls = true;
                return true;
            };
            is_sequence &= keys == u64::from(row) && (keys == 0 || most.checked_add(1) == Some(key));
            (least, most, keys) = (least.min(key), most.max(key), keys + 1);
            true
        })?;
        let dense = |least, rows, memory| DenseKeyMap {
            column,
            form,
            least,
            rows,
            _memory: memory,
            has_nulls,
        };
        if keys == 0 {
            return Ok(Some(dense(0, DenseRows::Sequence(0), None)));
        }
        if is_sequence {
            return Ok(Some(dense(least, DenseRows::Sequence(keys), None)));
        }
        let range = most.abs_diff(least);
        if range >= keys.saturating_mul(MAX_ENTRIES_PER_KEY) {
            return Ok(None);
        }
        let entries = range as usize + 1;
        let Some(memory) = budget.try_take(entries.saturating_mul(size_of::<u32>())) else {
            return Ok(None);
        };
        let mut map = vec![NONE; entries];
        let mut is_unique = true;
        for_each_key(rows, column, form, &mut |row, key| {
            if let Some(key) = key {
                let entry = &mut map[key.abs_diff(least) as usize];
                is_unique = *entry == NONE;
                *entry = row;
            }
            is_unique
        })?;
        Ok(is_unique.then(|| dense(least, DenseRows::Map(map), Some(memory))))
    }

    /// Returns the row of a key given as a word.
    #[inline(always)]
    pub(super) fn row(&self, word: u64) -> Option<u32> {
        let key = self.form.number(word);
        if key < self.least {
            return None;
        }
        let place = key.abs_diff(self.least);
        match &self.rows {
            DenseRows::Sequence(rows) => (place < *rows).then_some(place as u32),
            DenseRows::Map(map) => map
                .get(usize::try_from(place).ok()?)
                .copied()
                .filter(|row| *row != NONE),
        }
    }

    /// Returns the map of the same keys at another position among the columns, if they ascend by one: it
    /// takes no memory then.
    pub fn sequence_of(&self, column: usize) -> Option<DenseKeyMap> {
        let DenseRows::Sequence(rows) = self.rows else {
            return None;
        };
        Some(DenseKeyMap {
            column,
            form: self.form,
            least: self.least,
            rows: DenseRows::Sequence(rows),
            _memory: None,
            has_nulls: self.has_nulls,
        })
    }

    /// Returns the key column.
    pub fn column(&self) -> usize {
        self.column
    }

    /// Returns true if a row has no key.
    pub fn has_nulls(&self) -> bool {
        self.has_nulls
    }

    /// Returns true if the keys ascend by one.
    pub fn is_sequence(&self) -> bool {
        matches!(self.rows, DenseRows::Sequence(_))
    }
}

/// Calls `each` with the live rows and their keys until it returns false.
fn for_each_key(
    rows: &dyn RandomRows,
    column: usize,
    form: WordForm,
    each: &mut dyn FnMut(u32, Option<i64>) -> bool,
) -> JoinResult<()> {
    let schema = Arc::new(rows.schema().project(&[column])?);
    let key = [(0, schema.field(0).data_type().clone())];
    let (encoder, _) = KeyEncoder::pair(&key, &key, false)?;
    for start in (0..rows.rows()).step_by(BATCH_ROWS) {
        let end = (start + BATCH_ROWS).min(rows.rows());
        let mut numbers: Vec<u32> = (start as u32..end as u32).collect();
        rows.retain_live(&mut numbers)?;
        let arrays = rows.take(&numbers, &[column])?;
        debug_assert!(arrays.iter().all(|array| array.len() == numbers.len()));
        let keys = encoder.encode(&RecordBatch::try_new(schema.clone(), arrays)?)?;
        let KeyValues::Words(1, words) = &keys.keys else {
            return Ok(());
        };
        for (number, (row, word)) in numbers.iter().zip(words).enumerate() {
            let valid = keys.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(number));
            if !each(*row, valid.then(|| form.number(*word))) {
                return Ok(());
            }
        }
    }
    Ok(())
}
