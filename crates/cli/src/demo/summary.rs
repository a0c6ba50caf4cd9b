//! Step 7: one sentence on what was measured, for every outcome.

use halocline_terminal::size::grouped;

use super::crash::MeasuredCrash;
use super::selections::MeasuredSelection;
use super::slow_tier::MeasuredTiers;
use super::star::MeasuredStar;
use super::{selectivity, times};

/// Ratios within this share of 1 count as equal: repeated runs differ by as much.
const EQUAL_TOLERANCE: f64 = 0.05;

/// All that was measured.
pub(crate) struct DemoFigures {
    /// Rows of lineitem.
    pub(crate) rows: u64,
    pub(crate) selections: Vec<MeasuredSelection>,
    pub(crate) stars: Vec<MeasuredStar>,
    pub(crate) open_ms: f64,
    pub(crate) crash: MeasuredCrash,
    pub(crate) tiers: MeasuredTiers,
}

impl DemoFigures {
    /// Returns the sentence.
    pub(crate) fn sentence(&self) -> String {
        let over = |other: fn(&MeasuredSelection) -> f64| -> Vec<(f64, f64)> {
            let ratios = self.selections.iter();
            ratios
                .map(|selection| (selection.share, other(selection) / selection.index_ms))
                .collect()
        };
        let stars: Vec<f64> = self
            .stars
            .iter()
            .map(|star| star.datafusion_ms / star.pool_ms)
            .collect();
        let tiers: Vec<f64> = self
            .tiers
            .times
            .iter()
            .map(|tier| tier.limited_ms / tier.all_ms)
            .collect();
        format!(
            "In this run, selections by the index out of {} rows were {}, and {}; {} star queries took DataFusion {} times as long \
             as Halocline; a new process opened the pool in {:.1} ms; {} kills lost none of {} acknowledged rows; and \
             with {:.1} % of the index in DRAM, on an emulated slow tier, selections took {} times as long as \
             with all of it.",
            grouped(self.rows),
            compared("the scan", &over(|selection| selection.scan_ms)),
            compared(
                "DataFusion over Parquet",
                &over(|selection| selection.datafusion_ms)
            ),
            self.stars.len(),
            range(&stars),
            self.open_ms,
            self.crash.kills,
            grouped(self.crash.acknowledged),
            self.tiers.percent,
            range(&tiers),
        )
    }
}

/// Says where the index is faster than, as fast as and slower than another system, from pairs of a
/// selectivity and the ratio of the other's time to the index's.
fn compared(other: &str, ratios: &[(f64, f64)]) -> String {
    let group = |belongs: fn(f64) -> bool| -> (Vec<String>, Vec<f64>) {
        let those = ratios.iter().filter(|(_, ratio)| belongs(*ratio));
        those.map(|(share, ratio)| (selectivity(*share), *ratio)).unzip()
    };
    let at = |shares: &[String]| match shares {
        [first, .., last] if shares.len() == ratios.len() => {
            format!("at every selectivity from {first} to {last}")
        }
        _ => format!("at {}", listed(shares)),
    };
    let mut parts = vec![];
    let (shares, faster) = group(|ratio| ratio > 1.0 + EQUAL_TOLERANCE);
    if !shares.is_empty() {
        parts.push(format!(
            "{} times as fast as {other} {}",
            range(&faster),
            at(&shares)
        ));
    }
    let (shares, _) = group(|ratio| (ratio - 1.0).abs() <= EQUAL_TOLERANCE);
    if !shares.is_empty() {
        parts.push(format!("as fast as {other} {}", at(&shares)));
    }
    let (shares, slower) = group(|ratio| ratio < 1.0 - EQUAL_TOLERANCE);
    if !shares.is_empty() {
        let slower: Vec<f64> = slower.iter().map(|ratio| 1.0 / ratio).collect();
        parts.push(format!(
            "{} times as slow as {other} {}",
            range(&slower),
            at(&shares)
        ));
    }
    parts.join(", ")
}

/// Returns the smallest and the largest of some ratios, or the only one.
fn range(ratios: &[f64]) -> String {
    let least = times(ratios.iter().copied().fold(f64::INFINITY, f64::min));
    let most = times(ratios.iter().copied().fold(0.0, f64::max));
    if least == most {
        least
    } else {
        format!("{least} to {most}")
    }
}

/// Joins words by commas and a last "and".
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::selections::DemoSelection;
    use super::super::slow_tier::TierTimes;
    use super::*;

    #[test]
    fn every_outcome_of_a_comparison_is_told() {
        let all = [(1e-6, 24.0), (1e-5, 8.0), (1e-4, 1.03), (1e-3, 0.5), (1e-2, 0.25)];
        assert_eq!(
            compared("the scan", &all),
            "8.0 to 24 times as fast as the scan at 1.0e-6 and 1.0e-5, as fast as the scan at 1.0e-4, 2.0 to 4.0 \
             times as slow as the scan at 1.0e-3 and 1.0e-2"
        );
        assert_eq!(
            compared("the scan", &all[3..4]),
            "2.0 times as slow as the scan at 1.0e-3"
        );
        assert_eq!(
            compared("the scan", &all[..2]),
            "8.0 to 24 times as fast as the scan at every selectivity from 1.0e-6 to 1.0e-5"
        );
        assert_eq!(compared("the scan", &[(0.0, 1.0)]), "as fast as the scan at 0");
    }

    #[test]
    fn the_sentence_is_one_and_has_every_part() {
        let selection = |scan_ms| MeasuredSelection {
            selection: DemoSelection::new(1, 1, 1),
            answer: vec![],
            share: 1e-4,
            index_ms: 1.0,
            scan_ms,
            datafusion_ms: 50.0,
        };
        let measured = DemoFigures {
            rows: 6_001_215,
            selections: vec![selection(3.0), selection(0.5)],
            stars: vec![MeasuredStar {
                pool_ms: 10.0,
                datafusion_ms: 45.0,
            }],
            open_ms: 2.5,
            crash: MeasuredCrash {
                kills: 3,
                acknowledged: 1200,
            },
            tiers: MeasuredTiers {
                percent: 2.75,
                times: vec![TierTimes {
                    all_ms: 1.0,
                    limited_ms: 1.5,
                    none_ms: 2.0,
                }],
            },
        };
        let sentence = measured.sentence();
        for part in [
            "out of 6,001,215 rows",
            "3.0 times as fast as the scan",
            "2.0 times as slow as the scan",
            "50 times as fast as DataFusion",
            "4.5 times as long as Halocline",
            "2.5 ms",
            "none of 1,200 acknowledged rows",
            "with 2.8 % of the index in DRAM, on an emulated slow tier",
            "1.50 times as long as with all of it",
        ] {
            assert!(sentence.contains(part), "`{part}` is not in {sentence}");
        }
        assert_eq!(sentence.matches(". ").count(), 0, "{sentence}");
    }
}
