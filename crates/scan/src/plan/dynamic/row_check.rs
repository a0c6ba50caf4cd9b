//! Dynamic filters evaluated on values of rows, while that excludes enough of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow_schema::{Field, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use halocline_columns::{RowId, RowSelection, Segment};

use crate::plan::spec::{ResidualFilter, ScanSpec};

/// Number of rows after which a check must have excluded enough of them.
const TRIAL_ROWS: usize = 32_768;

/// A condition on the output of a scan that is evaluated on its own columns only.
#[derive(Debug)]
pub(super) struct RowCheck {
    condition: ResidualFilter,
    seen: AtomicUsize,
    kept: AtomicUsize,
    given_up: AtomicBool,
}

impl RowCheck {
    /// Makes the check of a predicate that refers to these columns of the scan's output.
    ///
    /// # Errors
    /// The predicate refers to others.
    pub(super) fn new(predicate: &Arc<dyn PhysicalExpr>, outputs: &[usize], spec: &ScanSpec) -> Result<Self> {
        let fields: Vec<Field> = outputs
            .iter()
            .map(|output| spec.schema.field(*output).clone())
            .collect();
        let columns = outputs.iter().map(|output| spec.projection[*output]).collect();
        let physical = on_positions(predicate, outputs)?;
        Ok(Self {
            condition: ResidualFilter::of_physical(physical, columns, Arc::new(Schema::new(fields))),
            seen: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
            given_up: AtomicBool::new(false),
        })
    }

    /// Stops the check for good, because the predicate cannot be evaluated.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Keeps the selected rows of a segment that pass.
    pub(super) fn keep_selected(&self, segment: &Segment, selection: &mut RowSelection) {
        let before = selection.len();
        if before == 0 || self.given_up.load(Ordering::Relaxed) {
            return;
        }
        match self.condition.keep_selected(segment, selection) {
            Ok(()) => self.note(before, selection.len()),
            Err(_) => self.give_up(),
        }
    }

    /// Returns the rows of a segment that pass.
    pub(super) fn keep(&self, segment: &Segment, rows: Vec<RowId>) -> Vec<RowId> {
        if rows.is_empty() || self.given_up.load(Ordering::Relaxed) {
            return rows;
        }
        match self.condition.keep(segment, &rows) {
            Ok(kept) => {
                self.note(rows.len(), kept.len());
                kept
            }
            // What is damaged is reported when the output is read.
            Err(_) => {
                self.give_up();
                rows
            }
        }
    }

    /// Counts what was excluded. A row that passes has cost about as much as two that are excluded save.
    fn note(&self, before: usize, after: usize) {
        let seen = self.seen.fetch_add(before, Ordering::Relaxed) + before;
        let kept = self.kept.fetch_add(after, Ordering::Relaxed) + after;
        if seen >= TRIAL_ROWS && kept > seen / 3 * 2 {
            self.give_up();
        }
    }
}

/// Returns the predicate with its columns, at `outputs` of its input, at the positions in that list.
///
/// # Errors
/// It refers to another column.
pub(super) fn on_positions(
    predicate: &Arc<dyn PhysicalExpr>,
    outputs: &[usize],
) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = Arc::clone(predicate).transform_up(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else {
            return Ok(Transformed::no(expr));
        };
        match outputs.iter().position(|output| *output == column.index()) {
            Some(at) => Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)))),
            None => datafusion::common::internal_err!("a dynamic filter refers to column {column}"),
        }
    });
    replaced.data()
}
