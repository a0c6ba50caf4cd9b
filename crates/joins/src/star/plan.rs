//! The plan of one run of a join: the numbers of groups, the layout of their records, the order of probes.

use halocline_columns::{CodeSpace, Segment};

use super::decoded::DecodedRows;
use super::group_table::Grouping;
use super::layout::StateLayout;
use super::measure::MeasureSource;
use super::measure_values::MeasureValues;
use super::pipeline::integers;
use super::program::Program;
use super::run::{SegmentRows, StarJoin};
use super::strings::Translations;
use crate::JoinResult;

/// A plan of one run.
pub(super) struct JoinPlan<'a> {
    pub(super) join: &'a StarJoin,
    pub(super) program: Program,
    pub(super) layout: StateLayout,
    pub(super) grouping: Grouping,
    /// Numbers of groups are below this.
    pub(super) space: u128,
    /// The factor of each group column in the number of a group.
    pub(super) strides: Vec<u64>,
    /// The order of the probes.
    pub(super) order: Vec<usize>,
    pub(super) translations: Translations,
}

impl<'a> JoinPlan<'a> {
    /// Plans a run over these rows.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub(super) fn new(
        join: &'a StarJoin,
        segments: &[SegmentRows<'_>],
        decoded: &[DecodedRows],
    ) -> JoinResult<JoinPlan<'a>> {
        let program = Program::translate(&join.aggregates);
        let columns: Vec<ValueBounds> = (0..join.measured.len())
            .map(|measured| {
                let segments = segments.iter().map(|(segment, _)| *segment);
                match join.measured[measured] {
                    MeasureSource::Fact(column) => {
                        ValueBounds::for_column(column, segments, measured, decoded)
                    }
                    MeasureSource::Dimension { probe, column } => {
                        let mut bounds = ValueBounds::default();
                        bounds.add_values(join.probes[probe].dimension.payload().column(column));
                        bounds
                    }
                }
            })
            .collect();
        let bounds: Vec<(i64, i64)> = columns
            .iter()
            .map(|column| column.bounds.unwrap_or((0, 0)))
            .collect();
        let nullable: Vec<bool> = columns.iter().map(|column| column.nullable).collect();
        let stored: u64 = segments.iter().map(|(segment, _)| segment.rows() as u64).sum();
        let rows = stored + decoded.iter().map(|decoded| decoded.rows as u64).sum::<u64>();
        let layout = |has_number: bool| {
            StateLayout::new(
                &join.aggregates,
                |aggregate| program.bounds(aggregate, &bounds),
                |aggregate| program.nulls(aggregate, &nullable),
                rows,
                has_number,
            )
        };
        // Only hashed records contain their number. The method is chosen by the size of a record without it.
        let plain = layout(false);
        let grouping = Grouping::choose(join.groups, rows, plain.words);
        let layout = match grouping {
            Grouping::Hashed => layout(true),
            _ => plain,
        };
        // The groups of the probes are the lowest digits of a number, those of group columns follow.
        let mut stride = join.probed_groups;
        let strides = join.group_columns.iter().map(|group| {
            let own = stride;
            stride = stride.wrapping_mul(group.size.max(1));
            own
        });
        let translations = Translations::new(join, segments)?;
        Ok(JoinPlan {
            strides: strides.collect(),
            order: join.order(segments, &translations)?,
            translations,
            space: join.groups,
            join,
            program,
            layout,
            grouping,
        })
    }
}

/// Bounds of the values of a measured column; without meaning for floats.
#[derive(Default)]
struct ValueBounds {
    bounds: Option<(i64, i64)>,
    nullable: bool,
}

impl ValueBounds {
    /// Returns the bounds of a column of segments, which is at position `measured` in decoded rows.
    fn for_column<'s>(
        column: usize,
        segments: impl Iterator<Item = &'s Segment>,
        measured: usize,
        decoded: &[DecodedRows],
    ) -> ValueBounds {
        let mut all = ValueBounds::default();
        for segment in segments {
            let column = segment.column(column);
            let has_null = column.code_space().is_some_and(CodeSpace::has_null);
            all.nullable |= has_null || column.null_count() > 0;
            if let Some((base, has_null)) = integers(column)
                && column.null_count() < column.rows()
            {
                let high = column.code_space().map_or(0, |space| space.max_code());
                all.add(
                    base.wrapping_add(i64::from(has_null)),
                    base.wrapping_add_unsigned(high),
                );
            }
        }
        for values in decoded.iter().map(|rows| &rows.measured[measured]) {
            all.add_values(values);
        }
        all
    }

    fn add_values(&mut self, values: &MeasureValues) {
        self.nullable |= !values.valid.is_empty();
        // The undefined values of NULLs are included, which can only widen the bounds.
        if let Some((low, high)) = values.values.iter().min().zip(values.values.iter().max()) {
            self.add(*low, *high);
        }
    }

    fn add(&mut self, low: i64, high: i64) {
        let (least, most) = self.bounds.unwrap_or((low, high));
        self.bounds = Some((least.min(low), most.max(high)));
    }
}
