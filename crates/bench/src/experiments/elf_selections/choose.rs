//! Which selections are measured.

use halocline_workloads::{Conjunction, ConjunctionGenerator, LineitemSample, SplitMix64, tpch_selections};

use super::systems::{SelectionSystem, SelectionSystems};
use crate::BenchError;

/// The decades of selectivity: `[1e-6, 1e-5)`, … `[1e-2, 1e-1)`.
pub(super) const DECADES: [i32; 5] = [-6, -5, -4, -3, -2];

/// A selection with what it actually selects.
pub(super) struct SampledSelection {
    pub(super) selection: Conjunction,
    pub(super) rows: u64,
    pub(super) selectivity: f64,
}

/// Returns the selections of TPC-H and up to `random` conjunctions of one to five predicates in turn,
/// distributed evenly over the decades of selectivity for which the table is large enough.
pub(super) fn choose(
    systems: &SelectionSystems,
    scale_factor: f64,
    seed: u64,
    random: usize,
) -> Result<Vec<SampledSelection>, BenchError> {
    let mut chosen = Vec::new();
    for selection in tpch_selections() {
        chosen.push(counted(systems, selection)?);
    }
    let sample = LineitemSample::generate(scale_factor, 100_000, seed);
    let mut generator = ConjunctionGenerator::new(&sample, seed);
    let mut rng = SplitMix64::stream(seed, 1);
    let decades: Vec<i32> = DECADES
        .into_iter()
        .filter(|decade| systems.rows() as f64 * 10f64.powi(decade + 1) >= 5.0)
        .collect();
    for i in 0..random {
        let decade = decades[i % decades.len()];
        let predicates = 1 + (i / decades.len()) % 5;
        // A target is hit to within a factor of two or so: draw until the actual selectivity lies in the
        // decade.
        for _ in 0..ATTEMPTS {
            let target = 10f64.powf(f64::from(decade) + rng.unit());
            let candidate = counted(systems, generator.draw(predicates, target))?;
            if (10f64.powi(decade)..10f64.powi(decade + 1)).contains(&candidate.selectivity) {
                chosen.push(candidate);
                break;
            }
        }
    }
    Ok(chosen)
}

/// Draws per conjunction before its place stays empty.
const ATTEMPTS: usize = 100;

fn counted(systems: &SelectionSystems, selection: Conjunction) -> Result<SampledSelection, BenchError> {
    let rows = systems.ask(SelectionSystem::Scan, &selection)?.rows;
    Ok(SampledSelection {
        selection,
        rows,
        selectivity: rows as f64 / systems.rows() as f64,
    })
}
