//! Geometric means of the times by decade of selectivity.

use super::choose::{DECADES, SampledSelection};
use super::systems::SelectionSystem;
use crate::timing::geometric_mean;
use crate::{BenchError, Reporter, Samples, config};

/// A random conjunction and the median milliseconds of each system, in the order of [`SelectionSystem::ALL`].
pub(super) struct SelectionTimes {
    selectivity: f64,
    milliseconds: Vec<f64>,
}

impl SelectionTimes {
    /// Returns the times of a selection; `None` if it is not a random one.
    pub(super) fn new(chosen: &SampledSelection, times: &[(SelectionSystem, Samples)]) -> Option<Self> {
        chosen.selection.name.starts_with("random").then(|| Self {
            selectivity: chosen.selectivity,
            milliseconds: times.iter().map(|(_, samples)| samples.median()).collect(),
        })
    }
}

/// Reports the means of each decade that has selections.
pub(super) fn report(report: &mut Reporter<'_>, all: &[SelectionTimes]) -> Result<(), BenchError> {
    for decade in DECADES {
        let (low, high) = (10f64.powi(decade), 10f64.powi(decade + 1));
        let inside = all
            .iter()
            .filter(|times| (low..high).contains(&times.selectivity));
        let inside: Vec<&SelectionTimes> = inside.collect();
        if inside.is_empty() {
            continue;
        }
        let config =
            config! {"decade": format!("1e{decade} to 1e{}", decade + 1), "selections": inside.len()};
        for (at, system) in SelectionSystem::ALL.into_iter().enumerate() {
            let times: Vec<f64> = inside.iter().map(|times| times.milliseconds[at]).collect();
            let metric = format!("{}.geomean", system.metric());
            report.value(system.name(), &config, &metric, geometric_mean(&times), "ms")?;
        }
    }
    Ok(())
}
