//! The path from the remaining rows of one segment to the records of their groups.

use halocline_columns::{CodeSpace, Column, FloatCodes, Segment};

use super::aggregate_filter::FilterReader;
use super::group_column::GroupReader;
use super::group_table::{GroupNumbers, GroupTable};
use super::measure::MeasureSource;
use super::measure_values::{CodedValues, MeasureValues};
use super::payload::Payload;
use super::plan::JoinPlan;
use super::program::Program;
use super::rows::{BatchRows, ValueReader};
use crate::JoinResult;

/// The measures and group columns of one segment, with buffers for a batch of rows.
pub(super) struct Aggregation<'a> {
    program: &'a Program,
    measured: Vec<MeasuredColumn<'a>>,
    groups: Vec<GroupReader<'a>>,
    numbers: GroupNumbers,
    codes: (Vec<u32>, Vec<u64>),
    columns: Vec<MeasureValues>,
    values: Vec<MeasureValues>,
    filters: Vec<FilterReader<'a>>,
    /// The condition of each aggregate, and the values of its argument where rows match.
    filtered: Vec<(Option<usize>, MeasureValues)>,
}

/// A column that measures refer to.
enum MeasuredColumn<'a> {
    Fact(FactColumn<'a>),
    /// The payload of the dimension of a probe, and the column in it.
    Dimension(usize, &'a Payload, usize),
}

/// The results of the probes for the rows of a batch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Probed<'p> {
    /// The number of the group of each row by the probes alone; empty if that is 0 for all.
    pub(super) groups: &'p [u32],
    /// For each probe whose dimension has numbers, the number of the key of each row.
    pub(super) numbers: &'p [Vec<u32>],
}

/// A column of the fact table that measures refer to.
struct FactColumn<'a> {
    reader: ValueReader<'a>,
    values: CodedValues,
    has_null: bool,
}

impl<'a> Aggregation<'a> {
    /// Creates the aggregation of a segment.
    ///
    /// # Panics
    /// If a measured column [cannot be read](super::StarJoin::can_read).
    pub(super) fn for_segment(
        plan: &'a JoinPlan<'_>,
        (number, segment): (usize, &'a Segment),
    ) -> JoinResult<Self> {
        let mut measured = Vec::with_capacity(plan.join.measured.len());
        for &source in &plan.join.measured {
            measured.push(match source {
                MeasureSource::Fact(column) => MeasuredColumn::Fact(FactColumn::new(segment.column(column))?),
                MeasureSource::Dimension { probe, column } => {
                    MeasuredColumn::Dimension(probe, plan.join.probes[probe].dimension.payload(), column)
                }
            });
        }
        let mut groups = Vec::with_capacity(plan.join.group_columns.len());
        for (group, stride) in plan.join.group_columns.iter().zip(&plan.strides) {
            groups.push(GroupReader::for_segment(group, *stride, (number, segment))?);
        }
        let mut filters = Vec::with_capacity(plan.join.filters.len());
        for filter in &plan.join.filters {
            filters.push(FilterReader::for_segment(filter, (number, segment))?);
        }
        let filtered = plan.join.aggregates.iter();
        let filtered = filtered
            .map(|aggregate| (aggregate.filter, MeasureValues::default()))
            .collect();
        Ok(Self {
            program: &plan.program,
            columns: vec![MeasureValues::default(); measured.len()],
            measured,
            groups,
            numbers: GroupNumbers::new(plan.space),
            codes: Default::default(),
            values: Vec::new(),
            filters,
            filtered,
        })
    }

    /// Returns true if no column is read.
    pub(super) fn only_counts(&self) -> bool {
        self.measured.is_empty() && self.groups.is_empty() && self.filters.is_empty()
    }

    /// Adds rows to their groups.
    pub(super) fn add(
        &mut self,
        (chunk, block): (usize, usize),
        rows: BatchRows<'_>,
        probed: Probed<'_>,
        table: &mut GroupTable<'_>,
    ) -> JoinResult<()> {
        self.numbers.set(probed.groups, rows.len());
        for group in &mut self.groups {
            group.add(chunk, block, rows, &mut self.numbers, &mut self.codes)?;
        }
        for (column, values) in self.measured.iter_mut().zip(&mut self.columns) {
            match column {
                MeasuredColumn::Fact(column) => {
                    column.read((chunk, block), rows, &mut self.codes, values)?;
                }
                MeasuredColumn::Dimension(probe, payload, column) => {
                    payload.gather(*column, &probed.numbers[*probe], values);
                }
            }
        }
        self.program
            .evaluate(&self.columns, rows.len(), &mut self.values)?;
        for (number, filter) in self.filters.iter_mut().enumerate() {
            // A row that does not match is a NULL for its aggregate: all aggregates leave NULLs out.
            let matches = filter.read((chunk, block), rows, &mut self.codes)?;
            for (aggregate, (of_aggregate, filtered)) in self.filtered.iter_mut().enumerate() {
                if *of_aggregate == Some(number) {
                    let values = self.program.values(aggregate, &self.columns, &self.values);
                    filtered.set_matching(values, matches);
                }
            }
        }
        table.add(&self.numbers, rows.len(), |aggregate| {
            match &self.filtered[aggregate] {
                (Some(_), filtered) => filtered,
                (None, _) => self.program.values(aggregate, &self.columns, &self.values),
            }
        })
    }
}

/// Returns the floats of the codes of a column, and whether code 0 is NULL.
pub(super) fn floats(column: &Column) -> Option<(FloatCodes, bool)> {
    let space = column.code_space()?;
    Some((space.floats()?, space.has_null()))
}

impl<'a> FactColumn<'a> {
    fn new(column: &'a Column) -> JoinResult<Self> {
        let space = column.code_space();
        let values = space
            .and_then(CodedValues::for_space)
            .expect("a measured column has numbers");
        let has_null = space.is_some_and(CodeSpace::has_null);
        Ok(Self {
            reader: ValueReader::for_column(column)?,
            values,
            has_null,
        })
    }

    fn read(
        &mut self,
        (chunk, block): (usize, usize),
        rows: BatchRows<'_>,
        room: &mut (Vec<u32>, Vec<u64>),
        values: &mut MeasureValues,
    ) -> JoinResult<()> {
        match &mut self.reader {
            ValueReader::Narrow(reader) => {
                let codes = rows.read(reader, chunk, block, &mut room.0)?;
                values.set(codes, self.values, self.has_null);
            }
            ValueReader::Wide(reader) => {
                let codes = rows.read(reader, chunk, block, &mut room.1)?;
                values.set(codes, self.values, self.has_null);
            }
        }
        Ok(())
    }
}
