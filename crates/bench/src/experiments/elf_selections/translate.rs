//! Selections into codes, for the index and for the scan.

use std::ops::Bound;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use halocline_columns::{CodePredicate, CodeSpace, Segment, Table};
use halocline_elf::TableIndex;
use halocline_workloads::{Condition, Literal, Selection};

use crate::BenchError;

/// The predicates over the columns of one segment.
pub(super) fn for_segment(
    table: &Table,
    segment: &Segment,
    selection: &Selection,
) -> Result<Vec<(usize, CodePredicate)>, BenchError> {
    selection
        .predicates
        .iter()
        .map(|predicate| {
            let column = table
                .schema()
                .index_of(&predicate.column)
                .map_err(|error| BenchError::Setup(error.to_string()))?;
            let codes = segment
                .column(column)
                .code_space()
                .ok_or_else(|| BenchError::Setup(format!("{} has no codes", predicate.column)))?;
            Ok((column, encode(codes, &predicate.condition)?))
        })
        .collect()
}

/// A condition in the codes of a column.
pub(super) fn encode(codes: &CodeSpace, condition: &Condition) -> Result<CodePredicate, BenchError> {
    let array = |literal: &Literal| value(literal, codes.data_type());
    Ok(match condition {
        Condition::Equal(literal) => codes.equal(&array(literal)?)?,
        Condition::Range(lo, hi) => {
            let (lo, hi) = (bound(lo, codes)?, bound(hi, codes)?);
            codes.range(
                lo.as_ref().map(|array| array as _),
                hi.as_ref().map(|array| array as _),
            )?
        }
        Condition::In(literals) => {
            let mut set = Vec::new();
            for literal in literals {
                // Anything else means that no row has this value.
                if let CodePredicate::Equal(code) = codes.equal(&array(literal)?)? {
                    set.push(code);
                }
            }
            set.sort_unstable();
            set.dedup();
            if set.is_empty() {
                CodePredicate::Nothing
            } else {
                CodePredicate::Set(set)
            }
        }
    })
}

fn bound(bound: &Bound<Literal>, codes: &CodeSpace) -> Result<Bound<ArrayRef>, BenchError> {
    Ok(match bound {
        Bound::Included(literal) => Bound::Included(value(literal, codes.data_type())?),
        Bound::Excluded(literal) => Bound::Excluded(value(literal, codes.data_type())?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

fn value(literal: &Literal, data_type: &DataType) -> Result<ArrayRef, BenchError> {
    literal
        .to_array(data_type)
        .ok_or_else(|| BenchError::Setup(format!("{literal} is no value of type {data_type}")))
}

/// How many rows of the table an index finds.
pub(super) fn count_by_index(
    table: &Table,
    index: &TableIndex,
    selection: &Selection,
) -> Result<u64, BenchError> {
    let mut rows = 0;
    for (number, segment) in index.segments().iter().enumerate() {
        let predicates = for_index(table, index, number, selection)?;
        rows += segment.elf().select(&predicates)?.count()?;
    }
    Ok(rows)
}

/// The same by that index under whose first dimension the fewest rows are left.
pub(super) fn count_by_best_index(
    table: &Table,
    indexes: &[TableIndex],
    selection: &Selection,
) -> Result<u64, BenchError> {
    let mut best = (f64::INFINITY, 0);
    for (number, index) in indexes.iter().enumerate() {
        let left = rows_under_first(table, index, selection)?;
        if left < best.0 {
            best = (left, number);
        }
    }
    count_by_index(table, &indexes[best.1], selection)
}

fn rows_under_first(table: &Table, index: &TableIndex, selection: &Selection) -> Result<f64, BenchError> {
    let mut rows = 0.0;
    for (number, segment) in index.segments().iter().enumerate() {
        let mut predicates = for_index(table, index, number, selection)?;
        predicates[1..].fill(CodePredicate::Any);
        rows += segment.elf().estimate(&predicates)?;
    }
    Ok(rows)
}

/// One predicate for each dimension of one segment of an index.
fn for_index(
    table: &Table,
    index: &TableIndex,
    segment: usize,
    selection: &Selection,
) -> Result<Vec<CodePredicate>, BenchError> {
    let segment = &index.segments()[segment];
    let mut predicates = vec![CodePredicate::Any; index.columns().len()];
    for predicate in &selection.predicates {
        let dim = index
            .columns()
            .iter()
            .position(|&column| *table.schema().field(column).name() == predicate.column)
            .ok_or_else(|| BenchError::Setup(format!("{} is not indexed", predicate.column)))?;
        predicates[dim] = encode(segment.space(dim), &predicate.condition)?;
    }
    Ok(predicates)
}
