//! Evaluation of a function over the frames of a partition, from which rows may be left out.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::DataType;
use datafusion::arrow::compute::{partition, prep_null_mask_filter};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::PartitionEvaluator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use super::blocks::{Blocks, Rows};
use super::function::Position;
use super::marker::Exclusion;

/// The rows that are left out of frames, and the layout of the values that the evaluator gets.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) exclusion: Option<Exclusion>,
    /// The number of arguments; after them come the condition of `FILTER` and the keys of `ORDER BY`.
    pub(super) arguments: usize,
    pub(super) is_filtered: bool,
    /// True if the evaluator gets the rows near to the frame only, with other numbers each time.
    pub(super) is_bounded: bool,
}

/// The evaluator for one partition. It is asked for the rows in their order, and gets all of the partition
/// unless frames are bounded.
#[derive(Debug)]
pub(super) struct Evaluator {
    frame: Frame,
    of: Of,
    /// The next row.
    row: usize,
    /// The runs of rows that are equal in `ORDER BY`, from that of the row; `None` before the first row.
    peers: Option<Vec<Range<usize>>>,
    /// The rows that `FILTER` passes.
    passing: Option<BooleanArray>,
}

/// The function of the rows that are left.
#[derive(Debug)]
enum Of {
    Aggregate(Box<Blocks>),
    Value {
        position: Position,
        ignore_nulls: bool,
        data_type: DataType,
    },
}

impl Evaluator {
    pub(super) fn aggregate(frame: Frame, aggregate: AggregateFunctionExpr) -> Self {
        let keeps_states = !frame.is_bounded;
        Self::new(
            frame,
            Of::Aggregate(Box::new(Blocks::new(aggregate, keeps_states))),
        )
    }

    pub(super) fn value(frame: Frame, position: Position, ignore_nulls: bool, data_type: DataType) -> Self {
        Self::new(
            frame,
            Of::Value {
                position,
                ignore_nulls,
                data_type,
            },
        )
    }

    fn new(frame: Frame, of: Of) -> Self {
        Self {
            frame,
            of,
            row: 0,
            peers: None,
            passing: None,
        }
    }

    /// Reads what is the same for all rows.
    fn prepare(&mut self, values: &[ArrayRef]) -> Result<()> {
        let arguments = self.frame.arguments;
        if self.frame.is_filtered && (self.passing.is_none() || self.frame.is_bounded) {
            let condition = as_boolean_array(&values[arguments])?;
            self.passing = Some(match condition.null_count() {
                0 => condition.clone(),
                _ => prep_null_mask_filter(condition),
            });
        }
        if self.peers.is_some() || self.frame.exclusion.is_none() {
            return Ok(());
        }
        let keys = &values[arguments + usize::from(self.frame.is_filtered)..];
        let mut peers = match keys {
            [] => std::iter::once(0..usize::MAX).collect(),
            keys => partition(keys)?.ranges(),
        };
        // The peers of the next row are at the end.
        peers.reverse();
        self.peers = Some(peers);
        Ok(())
    }

    /// Returns the peers of a row, which is not before the last one.
    fn peers_of(&mut self, row: usize) -> Range<usize> {
        let peers = self.peers.get_or_insert_default();
        while peers.last().is_some_and(|peers| peers.end <= row) {
            peers.pop();
        }
        peers.last().cloned().unwrap_or(row..row + 1)
    }

    /// Returns the runs of a frame's rows that are left for a row.
    fn left(&mut self, row: usize, frame: &Range<usize>) -> [Range<usize>; 3] {
        let excluded = match self.frame.exclusion {
            None => return [frame.clone(), 0..0, 0..0],
            Some(Exclusion::CurrentRow) => row..row + 1,
            Some(Exclusion::Group | Exclusion::Ties) => self.peers_of(row),
        };
        let before = frame.start..frame.end.min(excluded.start).max(frame.start);
        let behind = frame.start.max(excluded.end).min(frame.end)..frame.end;
        let is_kept = self.frame.exclusion == Some(Exclusion::Ties) && frame.contains(&row);
        let itself = if is_kept { row..row + 1 } else { 0..0 };
        [before, itself, behind]
    }
}

impl PartitionEvaluator for Evaluator {
    fn uses_window_frame(&self) -> bool {
        true
    }

    fn supports_bounded_execution(&self) -> bool {
        self.frame.is_bounded
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.prepare(values)?;
        let row = self.row;
        self.row += 1;
        let left = self.left(row, range);
        let arguments = &values[..self.frame.arguments];
        match &mut self.of {
            Of::Aggregate(blocks) => {
                let rows = Rows {
                    arguments,
                    passing: self.passing.as_ref(),
                };
                blocks.over(&rows, left.into_iter())
            }
            Of::Value {
                position,
                ignore_nulls,
                data_type,
            } => {
                let rows = left.into_iter().flatten();
                let column = &arguments[0];
                let mut rows = rows.filter(|row| {
                    !(*ignore_nulls && column.is_null(*row))
                        && self.passing.as_ref().is_none_or(|passing| passing.value(*row))
                });
                let found = match position {
                    Position::First => rows.next(),
                    Position::Last => rows.next_back(),
                    Position::Nth => match number_of(arguments, row)? {
                        number if number > 0 => rows.nth(number.unsigned_abs() - 1),
                        number => rows.nth_back(number.unsigned_abs() - 1),
                    },
                };
                match found {
                    Some(row) => ScalarValue::try_from_array(column, row),
                    None => ScalarValue::try_from(&*data_type),
                }
            }
        }
    }
}

/// Returns the second argument of `nth_value`.
fn number_of(arguments: &[ArrayRef], row: usize) -> Result<isize> {
    let number = match arguments.get(1) {
        Some(numbers) => ScalarValue::try_from_array(numbers, row)?.cast_to(&DataType::Int64)?,
        None => ScalarValue::Null,
    };
    match number {
        ScalarValue::Int64(Some(number)) if number != 0 => {
            isize::try_from(number).map_err(|_| failed("the second argument of nth_value is too large"))
        }
        _ => Err(failed(
            "the second argument of nth_value is a number other than 0",
        )),
    }
}

fn failed(text: &str) -> DataFusionError {
    DataFusionError::Execution(text.to_owned())
}
