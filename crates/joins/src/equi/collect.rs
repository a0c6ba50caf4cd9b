//! Reads a build side into partitions.

use super::input::{InputRows, SideInput};
use super::kind::JoinKind;
use super::layout::RowLayout;
use super::partition_writer::PartitionWriter;
use super::partitions::{Partitions, WhenFull};
use super::plan::EquiPlan;
use super::rows::RowBlock;
use super::sizing::Sizing;
use crate::JoinResult;

/// Build rows with a NULL key of a null-aware anti join, which are returned if the probe side has no row.
pub(super) struct NullRows<'p>(Option<Partitions<'p>>);

impl<'p> NullRows<'p> {
    pub(super) fn new(plan: &'p EquiPlan<'p>, can_spill: bool) -> NullRows<'p> {
        let keeps = plan.join.null_aware && plan.kind() == JoinKind::BuildAnti;
        let when_full = if can_spill {
            WhenFull::Spill
        } else {
            WhenFull::Fail
        };
        let layout = &plan.build.layout;
        NullRows(keeps.then(|| {
            let sizing = Sizing {
                parts: 1,
                chunk_rows: (4096 / layout.row_bytes()).max(1),
            };
            Partitions::new(plan, layout, super::hash::Level::TOP, sizing, when_full)
        }))
    }

    /// Returns the rows, if the probe side had none.
    ///
    /// # Errors
    /// Those of the spill space and of the sink.
    pub(super) fn emit(&self, plan: &EquiPlan<'_>) -> JoinResult<()> {
        let Some(partitions) = &self.0 else { return Ok(()) };
        if plan.probe_seen.rows() {
            return Ok(());
        }
        for chunk in partitions.take_chunks(0).0 {
            plan.emit_lone_build(&chunk.words, &chunk.bytes)?;
        }
        let (mut scratch, mut block) = (Vec::new(), RowBlock::default());
        for spilled in partitions.take_blocks(0) {
            plan.workers.check()?;
            spilled.read(&plan.build.layout, &mut scratch, &mut block)?;
            plan.emit_lone_build(&block.words, &block.bytes)?;
        }
        Ok(())
    }
}

/// The writers of one thread.
pub(super) struct BuildCollector<'w, 'p> {
    writer: PartitionWriter<'w, 'p>,
    null: Option<PartitionWriter<'w, 'p>>,
    block: RowBlock,
}

impl<'w, 'p> BuildCollector<'w, 'p> {
    pub(super) fn new(partitions: &'w Partitions<'p>, null: &'w NullRows<'p>) -> BuildCollector<'w, 'p> {
        BuildCollector {
            writer: PartitionWriter::new(partitions),
            null: null.0.as_ref().map(PartitionWriter::new),
            block: RowBlock::default(),
        }
    }

    /// Adds the rows of a morsel. Rows with a NULL key are returned at once if the kind asks for them.
    ///
    /// # Errors
    /// Those of the input, the spill space and the sink.
    pub(super) fn read(
        &mut self,
        plan: &EquiPlan<'_>,
        input: &SideInput<'_, '_>,
        morsel: usize,
    ) -> JoinResult<()> {
        let layout: &RowLayout = &plan.build.layout;
        input.read(&plan.build, morsel, &mut |rows| {
            plan.workers.check()?;
            let batch = match rows {
                InputRows::Block(block) => return self.writer.push(block),
                InputRows::Batch(batch) => batch,
            };
            plan.build_seen.note(batch.rows() > 0, !batch.null.is_empty());
            if let (Some(null), false) = (&mut self.null, batch.null.is_empty()) {
                layout.encode(&batch.keys, &batch.columns, &batch.null, &mut self.block)?;
                null.push(&self.block)?;
            } else if plan.kind().keeps_lone_build() && !batch.null.is_empty() {
                plan.emit_null_build(batch)?;
            }
            layout.encode(&batch.keys, &batch.columns, &batch.live, &mut self.block)?;
            self.writer.push(&self.block)
        })
    }

    /// Hands over all rows.
    ///
    /// # Errors
    /// Those of the spill space.
    pub(super) fn finish(self) -> JoinResult<()> {
        self.writer.finish()?;
        self.null.map_or(Ok(()), PartitionWriter::finish)
    }
}
