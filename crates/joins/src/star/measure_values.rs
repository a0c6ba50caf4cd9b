//! The values of measures for a batch of rows.

use halocline_columns::FloatCodes;

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
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.values) + size_of_val(&*self.valid)
    }

    /// Replaces the values by those of codes, which are offset by `base`; code 0 is NULL if `has_null`.
    pub(super) fn set_codes(&mut self, codes: impl Iterator<Item = u64> + Clone, base: i64, has_null: bool) {
        self.valid.clear();
        if has_null {
            self.valid.extend(codes.clone().map(|code| code != 0));
        }
        self.values.clear();
        self.values
            .extend(codes.map(|code| (code as i64).wrapping_add(base)));
    }

    /// Replaces the values by the floats of codes; code 0 is NULL if `has_null`.
    pub(super) fn set_float_codes(
        &mut self,
        codes: impl Iterator<Item = u64> + Clone,
        floats: FloatCodes,
        has_null: bool,
    ) {
        self.valid.clear();
        if has_null {
            self.valid.extend(codes.clone().map(|code| code != 0));
        }
        self.values.clear();
        floats.append_bits(codes, &mut self.values);
    }

    /// Returns the value of a row, unless it is NULL.
    pub(super) fn get(&self, row: usize) -> Option<i64> {
        let valid = self.valid.get(row).is_none_or(|valid| *valid);
        valid.then(|| self.values[row])
    }

    /// Returns the values of some rows.
    pub(super) fn of(&self, rows: &[usize]) -> MeasureValues {
        let valid = rows.iter().filter_map(|row| self.valid.get(*row).copied());
        MeasureValues {
            values: rows.iter().map(|row| self.values[*row]).collect(),
            valid: valid.collect(),
        }
    }
}
