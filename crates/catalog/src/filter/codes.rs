//! The codes of one column as the domain of conditions.

use arrow_array::ArrayRef;
use arrow_schema::Field;
use datafusion::common::ScalarValue;
use halocline_columns::{CodePredicate, CodeSpace, StringPredicate};

use super::intervals::Intervals;

/// A column's code space with the sets that conditions start from.
pub(super) struct CodeDomain<'a> {
    /// The column.
    pub field: &'a Field,
    /// Its codes.
    pub space: &'a CodeSpace,
    /// Codes of values.
    pub values: Intervals,
    /// The code of NULL, if there are NULLs.
    pub nulls: Intervals,
    /// True if a condition may be evaluated on every string of the dictionary.
    every_string: bool,
}

/// Most strings of a dictionary on which a condition is evaluated one by one.
const MAX_STRINGS: usize = 1 << 16;

impl<'a> CodeDomain<'a> {
    pub(super) fn new(field: &'a Field, space: &'a CodeSpace) -> Self {
        let nulls = match space.null_code() {
            Some(code) => Intervals::range(code, code),
            None => Intervals::empty(),
        };
        let values = nulls.complement(&Intervals::range(0, space.max_code()));
        Self {
            field,
            space,
            values,
            nulls,
            every_string: false,
        }
    }

    /// Lets conditions be evaluated on every string of the dictionary, if there are not too many.
    pub(super) fn with_every_string(self) -> Self {
        let dictionary = self.space.dictionary();
        Self {
            every_string: dictionary.is_some_and(|dictionary| dictionary.len() <= MAX_STRINGS),
            ..self
        }
    }

    /// Returns the codes of the strings that match; `None` unless every string may be compared.
    pub(super) fn matching(&self, predicate: &StringPredicate) -> Option<Intervals> {
        if !self.every_string {
            return None;
        }
        self.space.matching(predicate).ok().map(|codes| self.set(&codes))
    }

    /// Returns the set of codes that match `predicate`.
    pub(super) fn set(&self, predicate: &CodePredicate) -> Intervals {
        Intervals::matching(predicate, self.space.max_code())
    }

    /// Casts a literal to the type of the column; `None` if the cast is lossy.
    pub(super) fn literal(&self, value: &ScalarValue) -> Option<ScalarValue> {
        let (from, to) = (value.data_type(), self.space.data_type());
        if from == *to {
            return Some(value.clone());
        }
        let cast = value.cast_to(to).ok()?;
        let back = cast.cast_to(&from).ok()?;
        (back == *value).then_some(cast)
    }

    /// Returns a literal as an array of one value of the column's type.
    pub(super) fn array(&self, value: &ScalarValue) -> Option<ArrayRef> {
        self.literal(value)?.to_array().ok()
    }
}
