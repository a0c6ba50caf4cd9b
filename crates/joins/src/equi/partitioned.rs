//! The partitioned joins: hash join in DRAM, hybrid, Grace, segmented Grace.
//!
//! The build side is collected by partitions, of which as many as fit stay in DRAM and become one hash table.
//! Probe rows of those partitions are joined at once; the others are spilled, unless a filter of the spilled
//! build rows says that they have no partner. Then the spilled partitions are joined, one after the other
//! with all threads, in the same way by other bits of the hash. A partition that does not become smaller
//! this way has few keys; it is joined by nested loops.

use super::bloom::{Bloom, FilterTrial};
use super::collect::{BuildCollector, NullRows};
use super::emit::RowBits;
use super::hash::Level;
use super::input::{HashParts, SideBatch, SideInput};
use super::join::OUTPUT_ROWS;
use super::kind::JoinKind;
use super::nested::nested_loops;
use super::partition_writer::PartitionWriter;
use super::partitions::{Partitions, WhenFull};
use super::plan::EquiPlan;
use super::prober::Prober;
use super::rows::RowBlock;
use super::sizing::Sizing;
use super::source::JoinSource;
use super::spill::SpilledBlock;
use super::table::JoinTable;
use crate::{JoinError, JoinResult};

/// Where partitions may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Residency {
    /// In DRAM only.
    Memory,
    /// In DRAM as far as they fit.
    Hybrid,
    /// In spill space only.
    Spilled,
}

/// Joins two inputs whose hashes have been used up to `level`.
///
/// # Errors
/// Those of the inputs, the spill space and the sink; [`JoinError::Interrupted`],
/// [`JoinError::JoinMemory`] if nothing may be spilled.
pub(super) fn partitioned(
    plan: &EquiPlan<'_>,
    build: SideInput<'_, '_>,
    probe: SideInput<'_, '_>,
    level: Level,
    residency: Residency,
) -> JoinResult<()> {
    let (budget, threads) = (&plan.context.budget, plan.workers.threads);
    let layout = &plan.build.layout;
    let rows = build.rows_estimate();
    let table = rows.map(|rows| (rows as usize).saturating_mul(plan.build.table_row_bytes()));
    let table = match residency {
        Residency::Spilled => table.map(|table| table.max(budget.limit())),
        _ => table,
    };
    let sizing = Sizing::new(budget.available(), threads, layout.row_bytes(), table);
    let when_full = match residency {
        Residency::Memory => WhenFull::Fail,
        _ => WhenFull::Spill,
    };
    let partitions = Partitions::new(plan, layout, level, sizing, when_full).with_rows(rows);
    if residency == Residency::Spilled {
        partitions.spill_all();
    }
    let null_rows = NullRows::new(plan, residency != Residency::Memory);
    plan.workers.run(
        build.morsels(),
        || Ok(BuildCollector::new(&partitions, &null_rows)),
        |collector, morsel| collector.read(plan, &build, morsel),
        BuildCollector::finish,
    )?;
    if plan.kind() == JoinKind::ProbeAnti && plan.is_void() {
        return Ok(());
    }
    let spilled_probe = probe_side(plan, &partitions, &probe)?;
    if plan.is_void() {
        return Ok(());
    }
    null_rows.emit(plan)?;
    let all = (0..sizing.parts).map(|part| partitions.take_blocks(part));
    let all: Vec<Vec<SpilledBlock<'_>>> = all.collect();
    let total = rows_of(all.iter().flatten()).max(rows.unwrap_or(0) as usize);
    for (part, build) in all.into_iter().enumerate() {
        let probe = spilled_probe
            .as_ref()
            .map_or_else(Vec::new, |spilled| spilled.take_blocks(part));
        join_blocks(plan, &build, &probe, level.below(sizing.parts), total)?;
    }
    Ok(())
}

fn rows_of<'b, 's: 'b>(blocks: impl Iterator<Item = &'b SpilledBlock<'s>>) -> usize {
    blocks.map(SpilledBlock::rows).sum()
}

/// Joins the spilled rows of a partition; `total` rows were partitioned.
fn join_blocks(
    plan: &EquiPlan<'_>,
    build: &[SpilledBlock<'_>],
    probe: &[SpilledBlock<'_>],
    level: Option<Level>,
    total: usize,
) -> JoinResult<()> {
    let kind = plan.kind();
    let needs_build = probe.is_empty() && !kind.keeps_lone_build();
    let needs_probe = build.is_empty() && !kind.keeps_lone_probe();
    if needs_build || needs_probe || build.is_empty() && probe.is_empty() {
        return Ok(());
    }
    let (build, rows) = (SideInput::Blocks(build), rows_of(build.iter()));
    let probe = SideInput::Blocks(probe);
    let fits = rows.saturating_mul(plan.build.table_row_bytes()) <= plan.context.budget.limit() / 2;
    match level {
        Some(level) if fits || rows <= total / 4 * 3 => {
            partitioned(plan, build, probe, level, Residency::Hybrid)
        }
        _ => nested_loops(plan, build, probe),
    }
}

/// Builds the hash table, reads the probe side, and returns its spilled rows.
fn probe_side<'p>(
    plan: &'p EquiPlan<'p>,
    partitions: &Partitions<'p>,
    probe: &SideInput<'_, '_>,
) -> JoinResult<Option<Partitions<'p>>> {
    let (budget, threads) = (&plan.context.budget, plan.workers.threads);
    let (build_layout, layout) = (&plan.build.layout, &plan.probe.layout);
    // Buffers of the probe side are as large as those of the build side.
    let chunk = partitions.sizing.chunk_rows * build_layout.row_bytes();
    let row_bytes = layout.row_bytes() * if layout.spans.is_empty() { 1 } else { 2 };
    let sizing = Sizing {
        parts: partitions.sizing.parts,
        chunk_rows: (chunk / row_bytes).clamp(1, OUTPUT_ROWS),
    };
    let mut scratch = Vec::new();
    let mut working = loop {
        let buffers = partitions.spills() * threads * sizing.chunk_rows * row_bytes;
        // Sorting a partition by bucket needs it twice for a moment.
        let needed = buffers.max(threads.min(sizing.parts) * partitions.largest());
        match budget.try_take(needed) {
            Some(working) => break working,
            None if partitions.can_spill() && partitions.evict_one(&mut scratch)? => {}
            None => break budget.force(needed),
        }
    };
    drop(scratch);
    let table = JoinTable::build(
        partitions,
        build_layout,
        plan.kind().tracks_build(),
        &plan.workers,
    )?;
    working.shrink(partitions.spills() * threads * sizing.chunk_rows * row_bytes);
    let spilled = (partitions.spills() > 0).then(|| {
        let spilled = Partitions::new(plan, layout, partitions.level, sizing, WhenFull::Prepaid);
        spilled.spill_all();
        spilled
    });
    plan.workers.run(
        probe.morsels(),
        || Ok(ProbeThread::new(plan, partitions, spilled.as_ref(), &table)),
        |thread, morsel| probe.read_batches(&plan.probe, morsel, &mut |batch| thread.join(plan, batch)),
        |thread| thread.writer.map_or(Ok(()), PartitionWriter::finish),
    )?;
    plan.emit_table(&table)?;
    Ok(spilled)
}

/// The state of a thread that reads the probe side.
struct ProbeThread<'w, 'p> {
    partitions: &'w Partitions<'p>,
    /// The filter of spilled rows, if it pays.
    filter: Option<&'w Bloom>,
    trial: FilterTrial,
    writer: Option<PartitionWriter<'w, 'p>>,
    prober: Prober<'w>,
    block: RowBlock,
    matched: RowBits,
    /// Rows whose partners are all in DRAM.
    resident: Vec<u32>,
    /// Rows that may have partners in spill space.
    spilled: Vec<u32>,
    /// Rows whose partners are known.
    decided: Vec<u32>,
}

impl<'w, 'p> ProbeThread<'w, 'p> {
    fn new(
        plan: &'w EquiPlan<'w>,
        partitions: &'w Partitions<'p>,
        spilled: Option<&'w Partitions<'p>>,
        table: &'w JoinTable,
    ) -> ProbeThread<'w, 'p> {
        ProbeThread {
            partitions,
            filter: partitions.filter().filter(|filter| filter.pays()),
            trial: FilterTrial::default(),
            writer: spilled.map(PartitionWriter::new),
            prober: Prober::new(plan, table),
            block: RowBlock::default(),
            matched: RowBits::default(),
            resident: Vec::new(),
            spilled: Vec::new(),
            decided: Vec::new(),
        }
    }

    fn join(&mut self, plan: &EquiPlan<'_>, batch: &SideBatch) -> JoinResult<()> {
        plan.workers.check()?;
        plan.probe_seen.note(batch.rows() > 0, !batch.null.is_empty());
        self.matched.reset(batch.rows());
        self.decided.clear();
        match &mut self.writer {
            None => {
                self.prober.look_up(batch, &batch.live, &mut self.matched)?;
                self.decided.extend(&batch.live);
            }
            Some(writer) => {
                self.resident.clear();
                self.spilled.clear();
                let partitions = self.partitions;
                for &row in &batch.live {
                    let hash = batch.keys.hashes[row as usize];
                    if !partitions.is_spilled(partitions.level.part(hash, partitions.sizing.parts)) {
                        self.resident.push(row);
                    } else if self.filter.is_none_or(|filter| filter.may_contain(hash)) {
                        self.spilled.push(row);
                    } else {
                        self.decided.push(row);
                    }
                }
                if self.filter.is_some() {
                    let dropped = self.decided.len();
                    if !self.trial.count(self.spilled.len() + dropped, dropped) {
                        self.filter = None;
                    }
                }
                plan.probe
                    .layout
                    .encode(&batch.keys, &batch.columns, &self.spilled, &mut self.block)?;
                writer.push(&self.block)?;
                self.prober.look_up(batch, &self.resident, &mut self.matched)?;
                self.decided.extend(&self.resident);
            }
        }
        if plan.kind().tracks_probe() {
            if plan.null_probe_rows_count() {
                self.decided.extend(&batch.null);
            }
            plan.emit_probe(batch, &self.decided, &self.matched)?;
        }
        Ok(())
    }
}

/// Joins by segmented Grace: `spilled` of `parts` are spilled, the inputs are read again for each of the
/// others.
///
/// # Errors
/// As [`partitioned`], [`JoinError::Unsupported`].
pub(super) fn segmented(
    plan: &EquiPlan<'_>,
    (build, probe): (&dyn JoinSource, &dyn JoinSource),
    parts: usize,
    spilled: usize,
) -> JoinResult<()> {
    let Some(below) = (parts > 0 && spilled <= parts)
        .then(|| Level::TOP.below(parts))
        .flatten()
    else {
        return Err(JoinError::Unsupported(
            "a segmented join has 1 to 2^30 parts, and spills at most all of them",
        ));
    };
    let passes = parts - spilled + usize::from(spilled > 0);
    if passes > 1 && !(build.is_rereadable() && probe.is_rereadable()) {
        return Err(JoinError::ReadOnce);
    }
    let some = |first, end| {
        let parts = HashParts {
            first,
            end,
            of: parts,
        };
        (
            SideInput::Source(build, Some(parts)),
            SideInput::Source(probe, Some(parts)),
        )
    };
    if spilled > 0 {
        let (build, probe) = some(0, spilled);
        partitioned(plan, build, probe, Level::TOP, Residency::Spilled)?;
    }
    for part in spilled..parts {
        let (build, probe) = some(part, part + 1);
        partitioned(plan, build, probe, below, Residency::Hybrid)?;
    }
    Ok(())
}
