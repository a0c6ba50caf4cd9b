//! The values of measures for a batch of rows.

use halocline_columns::{CodeSpace, FloatCodes};

/// The values of the codes of a column.
#[derive(Debug, Clone, Copy)]
pub enum CodedValues {
    /// Integers: the number to add to a code.
    Integers(i64),
    /// Floats.
    Floats(FloatCodes),
}

impl CodedValues {
    /// Returns how the codes of a space map to integers or floats; `None` for other types.
    pub fn for_space(space: &CodeSpace) -> Option<CodedValues> {
        let integers = space.integer_base().map(CodedValues::Integers);
        integers.or_else(|| space.floats().map(CodedValues::Floats))
    }
}

/// The values of a column or an expression for the selected rows: integers, or the bits of floats. If `valid`
/// is not empty, it is false for NULL.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct MeasureValues {
    pub(super) values: Vec<i64>,
    pub(super) valid: Vec<bool>,
}

impl MeasureValues {
    /// Wraps values; `valid` is false for NULL, and empty if there is no NULL.
    ///
    /// # Panics
    /// If `valid` has another length and is not empty.
    pub fn new(values: Vec<i64>, valid: Vec<bool>) -> MeasureValues {
        assert!(
            valid.is_empty() || valid.len() == values.len(),
            "one for each value"
        );
        MeasureValues { values, valid }
    }

    /// Wraps floats; `valid` is false for NULL, and empty if there is no NULL.
    ///
    /// # Panics
    /// If `valid` has another length and is not empty.
    pub fn of_floats(values: impl Iterator<Item = f64>, valid: Vec<bool>) -> MeasureValues {
        MeasureValues::new(values.map(|value| value.to_bits() as i64).collect(), valid)
    }

    /// Returns the number of bytes of DRAM.
    pub fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<i64>() + self.valid.capacity()
    }

    /// Replaces the values by those of codes; code 0 is NULL if `has_null`.
    pub fn set<C: Copy + Into<u64>>(&mut self, codes: &[C], of_codes: CodedValues, has_null: bool) {
        let codes = codes.iter().map(|code| (*code).into());
        self.valid.clear();
        if has_null {
            self.valid.extend(codes.clone().map(|code| code != 0));
        }
        self.values.clear();
        match of_codes {
            CodedValues::Integers(base) => {
                let values = codes.map(|code: u64| (code as i64).wrapping_add(base));
                self.values.extend(values);
            }
            CodedValues::Floats(floats) => floats.append_bits(codes, &mut self.values),
        }
    }

    /// Reserves room for more values.
    pub fn reserve(&mut self, more: usize) {
        self.values.reserve(more);
    }

    /// Appends other values.
    pub fn append(&mut self, other: &MeasureValues) {
        // Without NULLs there are no flags. The first NULL adds those of all values before it.
        if !(self.valid.is_empty() && other.valid.is_empty()) {
            self.valid.resize(self.values.len(), true);
            self.valid.extend_from_slice(&other.valid);
            self.valid.resize(self.values.len() + other.values.len(), true);
        }
        self.values.extend_from_slice(&other.values);
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the value of a row, unless it is NULL.
    pub(super) fn get(&self, row: usize) -> Option<i64> {
        let valid = self.valid.get(row).is_none_or(|valid| *valid);
        valid.then(|| self.values[row])
    }

    /// Returns the values of some rows.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn take(&self, rows: &[usize]) -> MeasureValues {
        let valid = rows.iter().filter_map(|row| self.valid.get(*row).copied());
        MeasureValues {
            values: rows.iter().map(|row| self.values[*row]).collect(),
            valid: valid.collect(),
        }
    }
}
