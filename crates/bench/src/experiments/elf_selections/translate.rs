//! Selections into codes, for the index and for the scan.

use std::ops::Bound;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use halocline_columns::{CodePredicate, CodeSpace, Segment, Table};
use halocline_elf::{Estimate, TableIndex};
use halocline_workloads::{Condition, Conjunction, Literal};

use crate::BenchError;

/// Translates a selection to predicates on the codes of one segment, each with the number of its column.
pub(super) fn for_segment(
    table: &Table,
    segment: &Segment,
    selection: &Conjunction,
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

/// Translates a condition to a predicate on the codes of a column.
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
                if let CodePredicate::Range { lo, hi } = codes.equal(&array(literal)?)?
                    && lo == hi
                {
                    set.push(lo);
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

/// Translates a selection to predicates on the codes of every segment. An index over columns with codes has
/// the same codes.
fn translate(table: &Table, selection: &Conjunction) -> Result<Vec<Vec<(usize, CodePredicate)>>, BenchError> {
    let segments = table.segments().iter();
    segments
        .map(|segment| for_segment(table, segment, selection))
        .collect()
}

/// Returns the number of rows that an index finds.
pub(super) fn count_by_index(
    table: &Table,
    index: &TableIndex,
    selection: &Conjunction,
) -> Result<u64, BenchError> {
    count(index, &translate(table, selection)?)
}

/// Returns the number of rows found by the index that is expected to visit the fewest lists and rows.
pub(super) fn count_by_best_index(
    table: &Table,
    indexes: &[TableIndex],
    selection: &Conjunction,
) -> Result<u64, BenchError> {
    let codes = translate(table, selection)?;
    let mut best = (f64::INFINITY, 0);
    for (number, index) in indexes.iter().enumerate() {
        let estimate = estimate_of(index, &codes)?;
        let visited = estimate.lists + estimate.rows;
        if visited < best.0 {
            best = (visited, number);
        }
    }
    count(&indexes[best.1], &codes)
}

/// Estimates the number of rows that an index finds and of the nodes that it visits.
pub(super) fn estimate(
    table: &Table,
    index: &TableIndex,
    selection: &Conjunction,
) -> Result<Estimate, BenchError> {
    estimate_of(index, &translate(table, selection)?)
}

fn count(index: &TableIndex, codes: &[Vec<(usize, CodePredicate)>]) -> Result<u64, BenchError> {
    let mut rows = 0;
    for (segment, codes) in index.segments().iter().zip(codes) {
        rows += segment.elf().select(&for_index(index, codes)?)?.count()?;
    }
    Ok(rows)
}

fn estimate_of(index: &TableIndex, codes: &[Vec<(usize, CodePredicate)>]) -> Result<Estimate, BenchError> {
    let mut sum = Estimate::default();
    for (segment, codes) in index.segments().iter().zip(codes) {
        let estimate = segment.elf().estimate(&for_index(index, codes)?)?;
        sum.rows += estimate.rows;
        sum.lists += estimate.lists;
        sum.ranges += estimate.ranges;
    }
    Ok(sum)
}

/// Returns one predicate for each dimension of an index segment, [`CodePredicate::Any`] where `codes` has
/// none.
fn for_index(index: &TableIndex, codes: &[(usize, CodePredicate)]) -> Result<Vec<CodePredicate>, BenchError> {
    let mut predicates = vec![CodePredicate::Any; index.columns().len()];
    for (column, predicate) in codes {
        let dim = index.columns().iter().position(|other| other == column);
        let dim = dim.ok_or_else(|| BenchError::Setup(format!("column {column} is not indexed")))?;
        predicates[dim] = predicate.clone();
    }
    Ok(predicates)
}
