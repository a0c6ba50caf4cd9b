//! Selections through an index, kept as conditions on values so that they can be translated for later
//! versions of the index.

use arrow_schema::FieldRef;
use halocline_columns::CodePredicate;
use halocline_elf::{Query, TableIndex};

use crate::filter::ColumnCondition;

/// A selection: its conditions, each with the field of its column.
#[derive(Debug, Clone)]
pub struct IndexSelection(Vec<(FieldRef, ColumnCondition)>);

impl IndexSelection {
    /// Creates a selection of at least one condition.
    pub fn new(conditions: Vec<(FieldRef, ColumnCondition)>) -> Self {
        Self(conditions)
    }

    /// Translates the selection to a predicate for each dimension of a segment.
    fn predicates(&self, index: &TableIndex, segment: usize) -> Vec<CodePredicate> {
        let mut predicates = vec![CodePredicate::Any; index.columns().len()];
        for (field, condition) in &self.0 {
            let columns = index.columns().iter();
            let Some(dimension) = columns.clone().position(|column| *column == condition.column) else {
                continue;
            };
            let space = index.segments()[segment].space(dimension);
            if let Some(codes) = condition.translate(field, space) {
                predicates[dimension] = predicates[dimension].and(&codes);
            }
        }
        predicates
    }
}

/// Translates the selections to queries on each segment.
pub fn sample<'a>(
    selections: impl Iterator<Item = &'a IndexSelection> + Clone,
    index: &TableIndex,
) -> Vec<Vec<Query>> {
    let of_segment = |segment| {
        let queries = selections
            .clone()
            .map(|selection| Query::Select(selection.predicates(index, segment)));
        queries.collect()
    };
    (0..index.segments().len()).map(of_segment).collect()
}
