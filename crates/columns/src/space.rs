//! The order-preserving map between the values of one column and its codes.

use crate::{CodePredicate, Result};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use std::ops::Bound;

/// Order-preserving codes of one column of one segment: `0..=max_code`, NULL is 0 if the column holds NULLs.
#[derive(Debug, Clone)]
pub struct CodeSpace {
    data_type: DataType,
}

impl CodeSpace {
    /// Type of the values.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }
    /// Largest code.
    pub fn max_code(&self) -> u64 {
        todo!()
    }
    /// Whether the column holds NULLs.
    pub fn has_null(&self) -> bool {
        todo!()
    }
    /// The code of NULL, if the column holds NULLs.
    pub fn null_code(&self) -> Option<u64> {
        todo!()
    }
    /// About how many distinct values there are, NULL not counted.
    pub fn distinct_estimate(&self) -> u64 {
        todo!()
    }
    /// Appends the codes of `values`.
    pub fn encode(&self, _values: &dyn Array, _codes: &mut Vec<u64>) -> Result<()> {
        todo!()
    }
    /// The values of `codes`.
    pub fn decode(&self, _codes: &[u64]) -> Result<ArrayRef> {
        todo!()
    }
    /// Rows equal to the one value of `value`.
    pub fn equal(&self, _value: &dyn Array) -> Result<CodePredicate> {
        todo!()
    }
    /// Rows within the bounds.
    pub fn range(&self, _lo: Bound<&dyn Array>, _hi: Bound<&dyn Array>) -> Result<CodePredicate> {
        todo!()
    }
    /// Rows equal to one of `values`.
    pub fn set(&self, _values: &dyn Array) -> Result<CodePredicate> {
        todo!()
    }
    /// Rows that are NULL.
    pub fn is_null(&self) -> CodePredicate {
        todo!()
    }
    /// Rows that are not NULL.
    pub fn is_not_null(&self) -> CodePredicate {
        todo!()
    }
    /// Strings that start with `prefix`.
    pub fn prefix(&self, _prefix: &str) -> Result<CodePredicate> {
        todo!()
    }
    /// `predicate` in the values' own words.
    pub fn describe(&self, _predicate: &CodePredicate) -> String {
        todo!()
    }
}
