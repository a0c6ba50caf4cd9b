//! Block nested loops: the build side in pieces that fit, and all of the probe side for each of them.

use std::sync::{Mutex, PoisonError};
use std::{panic, thread};

use super::budget::BudgetShare;
use super::collect::{BuildCollector, NullRows};
use super::emit::RowBits;
use super::hash::Level;
use super::input::SideInput;
use super::partitions::{Partitions, WhenFull};
use super::piece_gate::PieceGate;
use super::plan::EquiPlan;
use super::prober::Prober;
use super::sizing::Sizing;
use super::table::JoinTable;
use crate::{JoinError, JoinResult};

/// The probe rows that have a partner in the pieces so far.
struct ProbeMatches {
    /// A bit per row, by morsel; each batch begins with a word of its own.
    morsels: Vec<Mutex<Vec<u64>>>,
    memory: Mutex<BudgetShare>,
}

impl ProbeMatches {
    fn new(plan: &EquiPlan<'_>, probe: &SideInput<'_, '_>) -> ProbeMatches {
        let tracks = plan.kind().tracks_probe();
        let bytes = if tracks {
            probe.rows_estimate().unwrap_or(0).div_ceil(8) as usize
        } else {
            0
        };
        let budget = &plan.context.budget;
        ProbeMatches {
            morsels: (0..if tracks { probe.morsels() } else { 0 })
                .map(|_| Mutex::default())
                .collect(),
            memory: Mutex::new(budget.try_take(bytes).unwrap_or_else(|| budget.force(bytes))),
        }
    }

    /// Counts the bits, of which there may be more than estimated.
    fn count(&self, plan: &EquiPlan<'_>) {
        let words = |bits: &Mutex<Vec<u64>>| bits.lock().unwrap_or_else(PoisonError::into_inner).len();
        let bytes = self.morsels.iter().map(words).sum::<usize>() * size_of::<u64>();
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let more = bytes.saturating_sub(memory.bytes());
        memory.merge(plan.context.budget.force(more));
    }
}

/// Joins two inputs. The build side is read once, the probe side once per piece.
///
/// # Errors
/// Those of the inputs and the sink; [`JoinError::Interrupted`].
pub(super) fn nested_loops(
    plan: &EquiPlan<'_>,
    build: SideInput<'_, '_>,
    probe: SideInput<'_, '_>,
) -> JoinResult<()> {
    let (budget, layout) = (&plan.context.budget, &plan.build.layout);
    let matches = ProbeMatches::new(plan, &probe);
    // A piece takes the whole memory.
    let table = build
        .rows_estimate()
        .map_or(usize::MAX, |rows| rows as usize * plan.build.table_row_bytes());
    let limit = budget.available();
    let sizing = Sizing::new(
        limit,
        plan.workers.threads,
        layout.row_bytes(),
        Some(table.min(limit / 2)),
    );
    let gate = PieceGate::default();
    let partitions = Partitions::new(plan, layout, Level::TOP, sizing, WhenFull::Wait(&gate));
    let null_rows = NullRows::new(plan, true);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let result = plan.workers.run(
                build.morsels(),
                || Ok((BuildCollector::new(&partitions, &null_rows), gate.enter())),
                |(collector, _), morsel| collector.read(plan, &build, morsel),
                |(collector, _guard)| collector.finish(),
            );
            gate.set_done();
            result
        });
        let joined = join_pieces(plan, &partitions, &gate, &probe, &matches);
        if joined.is_err() {
            plan.workers.stop();
        }
        let read = reader
            .join()
            .unwrap_or_else(|payload| panic::resume_unwind(payload));
        match (read, joined) {
            // A failure of either side interrupts the other one.
            (Ok(()) | Err(JoinError::Interrupted), joined) => joined,
            (read, _) => read,
        }
    })?;
    if plan.is_void() {
        return Ok(());
    }
    null_rows.emit(plan)
}

fn join_pieces(
    plan: &EquiPlan<'_>,
    partitions: &Partitions<'_>,
    gate: &PieceGate,
    probe: &SideInput<'_, '_>,
    matches: &ProbeMatches,
) -> JoinResult<()> {
    let mut first = true;
    loop {
        let is_last = gate.next_piece(&plan.workers)?;
        if !first
            && let SideInput::Source(source, _) = probe
            && !source.is_rereadable()
        {
            return Err(JoinError::ReadOnce);
        }
        first = false;
        let doubled = partitions.sizing.parts.min(plan.workers.threads) * partitions.largest();
        let working = plan.context.budget.force(doubled);
        let table = JoinTable::build(
            partitions,
            &plan.build.layout,
            plan.kind().tracks_build(),
            &plan.workers,
        )?;
        drop(working);
        plan.workers.run(
            probe.morsels(),
            || Ok((Prober::new(plan, &table), Vec::new(), RowBits::default())),
            |(prober, rows, matched), morsel| {
                let mut words = matches
                    .morsels
                    .get(morsel)
                    .map(|bits| bits.lock().unwrap_or_else(PoisonError::into_inner));
                let mut at = 0;
                probe.read_batches(&plan.probe, morsel, &mut |batch| {
                    plan.workers.check()?;
                    plan.probe_seen.note(batch.rows() > 0, !batch.null.is_empty());
                    matched.reset(batch.rows());
                    if let Some(words) = &mut words {
                        let own = matched.words();
                        if words.len() < at + own.len() {
                            words.resize(at + own.len(), 0);
                        }
                        own.copy_from_slice(&words[at..at + own.len()]);
                    }
                    rows.clear();
                    // Rows that have a partner already need no other one, unless pairs are asked for.
                    let skips = plan.kind().tracks_probe() && !plan.kind().returns_pairs();
                    rows.extend(batch.live.iter().filter(|row| !skips || !matched.get(**row)));
                    prober.look_up(batch, rows, matched)?;
                    if is_last && plan.kind().tracks_probe() && !plan.is_void() {
                        rows.clear();
                        rows.extend(&batch.live);
                        if plan.null_probe_rows_count() {
                            rows.extend(&batch.null);
                        }
                        plan.emit_probe(batch, rows, matched)?;
                    }
                    if let Some(words) = &mut words {
                        let own = matched.words();
                        words[at..at + own.len()].copy_from_slice(own);
                        at += own.len();
                    }
                    Ok(())
                })
            },
            |_| Ok(()),
        )?;
        plan.emit_table(&table)?;
        drop(table);
        matches.count(plan);
        if is_last {
            return Ok(());
        }
        gate.release();
    }
}
