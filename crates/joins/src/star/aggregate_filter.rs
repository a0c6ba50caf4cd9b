//! Conditions on the rows of single aggregates (`FILTER` in SQL).

use halocline_columns::{CodePredicate, Segment};

use super::measure_values::MeasureValues;
use super::rows::{BatchRows, ValueReader};
use crate::JoinResult;

/// A condition on the rows of an aggregate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AggregateFilter {
    /// For each segment, pairs of a column and a condition on its codes, all of which must match.
    pub conditions: Vec<Vec<(usize, CodePredicate)>>,
}

/// A condition in one segment.
pub(super) struct FilterReader<'a> {
    columns: Vec<(ValueReader<'a>, &'a CodePredicate)>,
    matches: Vec<bool>,
}

impl<'a> FilterReader<'a> {
    pub(super) fn for_segment(
        filter: &'a AggregateFilter,
        (number, segment): (usize, &'a Segment),
    ) -> JoinResult<Self> {
        let mut columns = Vec::with_capacity(filter.conditions[number].len());
        for (column, predicate) in &filter.conditions[number] {
            columns.push((ValueReader::for_column(segment.column(*column))?, predicate));
        }
        Ok(Self {
            columns,
            matches: Vec::new(),
        })
    }

    /// Returns true for each row that matches.
    pub(super) fn read(
        &mut self,
        (chunk, block): (usize, usize),
        rows: BatchRows<'_>,
        room: &mut (Vec<u32>, Vec<u64>),
    ) -> JoinResult<&[bool]> {
        self.matches.clear();
        self.matches.resize(rows.len(), true);
        for (reader, predicate) in &mut self.columns {
            match reader {
                ValueReader::Narrow(reader) => {
                    let codes = rows.read(reader, chunk, block, &mut room.0)?;
                    keep(
                        &mut self.matches,
                        predicate,
                        codes.iter().map(|code| u64::from(*code)),
                    );
                }
                ValueReader::Wide(reader) => {
                    let codes = rows.read(reader, chunk, block, &mut room.1)?;
                    keep(&mut self.matches, predicate, codes.iter().copied());
                }
            }
        }
        Ok(&self.matches)
    }
}

fn keep(matches: &mut [bool], predicate: &CodePredicate, codes: impl Iterator<Item = u64>) {
    let rows = matches.iter_mut().zip(codes);
    match predicate {
        CodePredicate::Set(_) => rows.for_each(|(matches, code)| *matches &= predicate.matches(code)),
        range => match range.bounds() {
            Some((low, high)) => {
                // A code below `low` wraps around to a large one, so that one comparison tests both bounds.
                rows.for_each(|(matches, code)| *matches &= code.wrapping_sub(low) <= high - low);
            }
            // A predicate without bounds matches nothing.
            None => rows.for_each(|(matches, _)| *matches = false),
        },
    }
}

impl MeasureValues {
    /// Sets these to other values, which are NULL where a row does not match.
    pub(super) fn set_matching(&mut self, values: &MeasureValues, matches: &[bool]) {
        self.values.clone_from(&values.values);
        self.valid.clear();
        self.valid.extend_from_slice(matches);
        let valid = self.valid.iter_mut().zip(&values.valid);
        valid.for_each(|(matches, valid)| *matches &= valid);
    }
}
