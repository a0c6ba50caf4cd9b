//! Selections that queries ask of an index, kept as conditions on values, so that they can be asked of another version of
//! the index, too.

use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow_schema::FieldRef;
use halocline_columns::CodePredicate;
use halocline_elf::{Query, TableIndex};

use crate::catalog::OpenTable;
use crate::filter::{Condition, both};
use crate::plan::Filters;

/// The conditions of a selection, each with its column.
#[derive(Debug, Clone)]
pub(crate) struct Noted(Vec<(FieldRef, Condition)>);

impl Noted {
    /// What of the filters index number `number` of the table answers; none if that is nothing.
    pub(crate) fn of(filters: &Filters, number: usize, open: &OpenTable) -> Option<Self> {
        let fields = open.table.schema().fields();
        let answered = filters.conditions.iter().filter_map(|(condition, translation)| {
            translation.indexes[number].as_ref()?;
            Some((fields[condition.column].clone(), condition.clone()))
        });
        let conditions: Vec<_> = answered.collect();
        (!conditions.is_empty()).then_some(Self(conditions))
    }

    /// A predicate for each dimension of a segment.
    fn predicates(&self, index: &TableIndex, segment: usize) -> Vec<CodePredicate> {
        let mut predicates = vec![CodePredicate::Any; index.columns().len()];
        for (field, condition) in &self.0 {
            let columns = index.columns().iter();
            let Some(dimension) = columns.clone().position(|column| *column == condition.column) else {
                continue;
            };
            let space = index.segments()[segment].space(dimension);
            let merged = condition
                .translate(field, space)
                .and_then(|codes| both(&predicates[dimension], &codes, space.max_code()));
            if let Some(merged) = merged {
                predicates[dimension] = merged;
            }
        }
        predicates
    }
}

/// The selections as queries of each segment.
pub(super) fn sample<'a>(
    selections: impl Iterator<Item = &'a Noted> + Clone,
    index: &TableIndex,
) -> Vec<Vec<Query>> {
    let of_segment = |segment| {
        let queries = selections
            .clone()
            .map(|noted| Query::Select(noted.predicates(index, segment)));
        queries.collect()
    };
    (0..index.segments().len()).map(of_segment).collect()
}

/// A selection of a planned statement.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    /// The statement's number.
    pub(crate) statement: usize,
    pub(crate) selection: Noted,
    /// Whether the planner would have the index answer it.
    pub(crate) chosen: bool,
}

/// Notes what the statements that are planned with it ask of one index.
#[derive(Debug)]
pub(crate) struct Recorder {
    index: String,
    noted: Mutex<(usize, Vec<Recorded>)>,
}

impl Recorder {
    pub(crate) fn new(index: &str) -> Self {
        Self {
            index: index.to_owned(),
            noted: Mutex::default(),
        }
    }

    fn noted(&self) -> MutexGuard<'_, (usize, Vec<Recorded>)> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is noted from now on belongs to another statement.
    pub(crate) fn next_statement(&self) {
        self.noted().0 += 1;
    }

    /// A scan of a table was planned, through the index of that number or through none.
    pub(crate) fn note(&self, open: &OpenTable, filters: &Filters, chosen: Option<usize>) {
        let number = open.indexes.iter().position(|index| index.name == self.index);
        let Some(number) = number.filter(|number| open.indexes[*number].index.is_ok()) else {
            return;
        };
        if let Some(selection) = Noted::of(filters, number, open) {
            let mut noted = self.noted();
            let statement = noted.0;
            noted.1.push(Recorded {
                statement,
                selection,
                chosen: chosen == Some(number),
            });
        }
    }

    pub(crate) fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut self.noted().1)
    }
}
