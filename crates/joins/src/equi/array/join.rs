//! Runs an array join.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};

use super::dense_keys::DenseKeyMap;
use super::random_rows::RandomRows;
use crate::equi::emit::{RowBits, take_rows};
use crate::equi::input::{SideBatch, SideInput};
use crate::equi::join::{EquiJoin, JoinContext, OUTPUT_ROWS, RowSink};
use crate::equi::key::{KeyValues, plain_array};
use crate::equi::kind::JoinKind;
use crate::equi::plan::{EquiPlan, Side};
use crate::equi::source::JoinSource;
use crate::{JoinError, JoinResult};

/// Pairs of probe and build rows.
#[derive(Default)]
struct RowPairs {
    probe: Vec<u32>,
    build: Vec<u32>,
}

struct ArrayJoin<'a> {
    plan: &'a EquiPlan<'a>,
    rows: &'a dyn RandomRows,
    keys: &'a DenseKeyMap,
    /// One bit per build row, set once it has matched; empty unless the join kind needs it.
    matched: Vec<AtomicU64>,
}

impl EquiJoin {
    /// Joins by looking up the number of the build row in a map from its keys. Returns the same rows as
    /// [`run`](EquiJoin::run).
    ///
    /// Takes O(probe rows + pairs) time, and for kinds that return build rows without partner
    /// O(build rows).
    ///
    /// # Errors
    /// As [`run`](EquiJoin::run); [`JoinError::Unsupported`] if `keys` are those of another column.
    pub fn run_array(
        &self,
        rows: &dyn RandomRows,
        keys: &DenseKeyMap,
        probe: &dyn JoinSource,
        context: &JoinContext<'_>,
        sink: &RowSink<'_>,
    ) -> JoinResult<()> {
        if self.build_keys != [keys.column()] {
            return Err(JoinError::Unsupported(
                "an array join is by the column of its keys alone",
            ));
        }
        if self.null_equals_null {
            return Err(JoinError::Unsupported("an array join has no row for a NULL key"));
        }
        let plan = EquiPlan::new(self, &rows.schema(), &probe.schema(), context, sink)?;
        plan.build_seen.note(rows.rows() > 0, keys.has_nulls());
        if plan.kind() == JoinKind::ProbeAnti && plan.is_void() {
            return Ok(());
        }
        let words = if plan.kind().tracks_build() {
            rows.rows().div_ceil(64)
        } else {
            0
        };
        let bytes = words * size_of::<u64>();
        let budget = &context.budget;
        let memory = budget.try_take(bytes).ok_or(JoinError::JoinMemory {
            bytes,
            limit: budget.limit(),
        })?;
        let join = ArrayJoin {
            plan: &plan,
            rows,
            keys,
            matched: (0..words).map(|_| AtomicU64::new(0)).collect(),
        };
        let input = SideInput::Source(probe, None);
        plan.workers.run(
            input.morsels(),
            || Ok(()),
            |(), morsel| input.read_batches(&plan.probe, morsel, &mut |batch| join.join(batch)),
            |()| Ok(()),
        )?;
        join.emit_build()?;
        drop(memory);
        Ok(())
    }
}

impl ArrayJoin<'_> {
    fn take(&self, side: &Side, rows: &[u32], positions: &[usize]) -> JoinResult<Vec<ArrayRef>> {
        let columns: Vec<usize> = positions.iter().map(|position| side.payload[*position]).collect();
        self.rows.take(rows, &columns)?.iter().map(plain_array).collect()
    }

    fn join(&self, batch: &SideBatch) -> JoinResult<()> {
        let plan = self.plan;
        plan.workers.check()?;
        plan.probe_seen.note(batch.rows() > 0, !batch.null.is_empty());
        let KeyValues::Words(1, words) = &batch.keys.keys else {
            return Err(JoinError::Unsupported("an array join is by one number"));
        };
        let mut pairs = RowPairs::default();
        for &row in &batch.live {
            if let Some(build) = self.keys.row(words[row as usize]) {
                pairs.probe.push(row);
                pairs.build.push(build);
            }
        }
        if let Some(residual) = &plan.join.residual
            && !pairs.probe.is_empty()
        {
            let mut columns = self.take(&plan.build, &pairs.build, &plan.build.residual)?;
            columns.extend(take_rows(&batch.columns, &plan.probe.residual, &pairs.probe)?);
            let options = RecordBatchOptions::new().with_row_count(Some(pairs.probe.len()));
            let both = RecordBatch::try_new_with_options(plan.pair_schema.clone(), columns, &options)?;
            let keep = (residual.filter)(&both)?;
            if keep.len() != pairs.probe.len() {
                return Err(JoinError::Unsupported(
                    "the condition on pairs returned another number of rows",
                ));
            }
            let mut kept = (0..keep.len()).map(|number| keep.is_valid(number) && keep.value(number));
            pairs.probe.retain(|_| kept.next().unwrap_or(false));
            let mut kept = (0..keep.len()).map(|number| keep.is_valid(number) && keep.value(number));
            pairs.build.retain(|_| kept.next().unwrap_or(false));
        }
        if plan.kind().tracks_build() {
            // Relaxed order suffices: the bits are read once the probe's threads have been joined.
            for &row in &pairs.build {
                self.matched[row as usize / 64].fetch_or(1 << (row % 64), Ordering::Relaxed);
            }
        }
        if plan.kind().returns_pairs() && !pairs.probe.is_empty() {
            let mut columns = self.take(&plan.build, &pairs.build, &plan.build.output)?;
            columns.extend(take_rows(&batch.columns, &plan.probe.output, &pairs.probe)?);
            plan.send(columns, pairs.probe.len())?;
        }
        if plan.kind().tracks_probe() {
            let mut matched = RowBits::default();
            matched.reset(batch.rows());
            pairs.probe.iter().for_each(|row| matched.set(*row));
            let mut decided = batch.live.clone();
            if plan.null_probe_rows_count() {
                decided.extend(&batch.null);
            }
            plan.emit_probe(batch, &decided, &matched)?;
        }
        Ok(())
    }

    fn is_matched(&self, row: u32) -> bool {
        self.matched[row as usize / 64].load(Ordering::Relaxed) & 1 << (row % 64) != 0
    }

    /// Emits the build rows that the join kind requires: matched ones, unmatched ones, or all with a mark.
    fn emit_build(&self) -> JoinResult<()> {
        let plan = self.plan;
        if !plan.kind().tracks_build() || plan.is_void() {
            return Ok(());
        }
        let wants = plan.kind() == JoinKind::BuildSemi;
        let emit = |(): &mut (), task: usize| {
            let end = ((task + 1) * OUTPUT_ROWS).min(self.rows.rows());
            let mut rows: Vec<u32> = ((task * OUTPUT_ROWS) as u32..end as u32).collect();
            self.rows.retain_live(&mut rows)?;
            if plan.kind() != JoinKind::BuildMark {
                rows.retain(|row| self.is_matched(*row) == wants);
            }
            if plan.join.null_aware && plan.probe_seen.rows() && self.keys.has_nulls() {
                let keys = self.rows.take(&rows, &[self.keys.column()])?;
                let mut nulls = keys
                    .iter()
                    .flat_map(|keys| (0..keys.len()).map(|row| keys.is_null(row)));
                rows.retain(|_| !nulls.next().unwrap_or(false));
            }
            let columns = self.take(&plan.build, &rows, &plan.build.output)?;
            plan.emit_build(columns, rows.len(), |number| self.is_matched(rows[number]))
        };
        plan.workers.run(
            self.rows.rows().div_ceil(OUTPUT_ROWS),
            || Ok(()),
            emit,
            |()| Ok(()),
        )
    }
}
