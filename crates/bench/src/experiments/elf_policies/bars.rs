//! What is asked of dynamic caching with links that point at what they lead to, and whether it was reached.

use halocline_cache::{Links, Placement};
use halocline_elf::Layout;

use super::{BAR_CAPACITY, Results};
use crate::{BenchError, Reporter, config};

/// Throughput over the slow tier alone, by placement and skew, with the capacity of the bars.
#[derive(Default)]
pub(super) struct Gains(Vec<(String, Vec<(f64, f64)>)>);

/// The least gain at a skew.
fn bars(layout: Layout) -> [(f64, f64); 3] {
    let paper_skew = match layout {
        Layout::Published => 1.40,
        Layout::Packed => 1.15,
    };
    [(0.5, paper_skew), (0.99, 2.0), (0.0, 0.97)]
}

impl Gains {
    pub(super) fn add(&mut self, results: &Results) {
        let capacities = results.capacities.iter();
        let Some((_, budget)) = capacities.clone().find(|(budget, _)| *budget == BAR_CAPACITY) else {
            return;
        };
        for placement in results.placements() {
            let swizzled = matches!(
                placement.parse(),
                Ok(Placement::Dynamic(_, Links::Swizzled) | Placement::StaticDynamic(_, Links::Swizzled))
            );
            if !swizzled {
                continue;
            }
            let gain = (results.theta, results.gain(placement, *budget));
            match self.0.iter_mut().find(|(name, _)| name == placement) {
                Some((_, gains)) => gains.push(gain),
                None => self.0.push((placement.to_owned(), vec![gain])),
            }
        }
    }

    /// The bars, for the one placement that comes closest to all of them.
    pub(super) fn report(&self, report: &mut Reporter<'_>, layout: Layout) -> Result<(), BenchError> {
        let bars = bars(layout);
        let gain = |gains: &[(f64, f64)], theta: f64| {
            let found = gains.iter().find(|(at, _)| *at == theta);
            found.map(|(_, gain)| *gain)
        };
        // The bar that is missed by most decides.
        let margin = |gains: &[(f64, f64)]| {
            let margins = bars
                .iter()
                .filter_map(|(theta, least)| Some(gain(gains, *theta)? / least));
            margins.fold(f64::INFINITY, f64::min)
        };
        let best = self
            .0
            .iter()
            .max_by(|(_, one), (_, other)| margin(one).total_cmp(&margin(other)));
        let Some((placement, gains)) = best else {
            return Ok(());
        };
        let mut lines = vec![];
        for (theta, least) in bars {
            let Some(gain) = gain(gains, theta) else { continue };
            let what = format!("{placement}, exact, 4 % of the index, theta {theta}");
            let config = config! {
                "layout": layout, "placement": placement, "bar": least, "reached": gain >= least, "theta": theta,
            };
            report.value("bars", &config, "over slow-only", (gain - 1.0) * 100.0, "%")?;
            lines.push(vec![
                what,
                format!(">= {:+.0} %", (least - 1.0) * 100.0),
                format!("{:+.1} %", (gain - 1.0) * 100.0),
                if gain >= least { "yes" } else { "no" }.to_owned(),
            ]);
        }
        report.line(&format!("bars, {layout}: throughput over slow-only"))?;
        report.table(&["", "bar", "measured", "reached"], lines)
    }
}
