//! What is asked of the placements, and whether it was reached. Everything here comes from what was measured.

use halocline_elf::Layout;

use super::{Question, Results, paper};
use crate::{BenchError, Reporter, config};

/// One of them.
struct Bar {
    what: String,
    /// The least or the most that reaches it.
    wanted: String,
    measured: f64,
    unit: &'static str,
    reached: bool,
}

/// All of one layout.
pub(super) struct Bars(Vec<Bar>);

impl Bars {
    pub(super) fn of(results: &Results) -> Self {
        let mut bars = Self(vec![]);
        match results.layout {
            Layout::Packed => bars.packed(results),
            Layout::Published => bars.published(results),
        }
        bars.reopening(results);
        bars.memory(results);
        bars
    }

    fn packed(&mut self, results: &Results) {
        for (question, most) in [
            (Question::Exact, 120.0),
            (Question::ExactBatch, 60.0),
            (Question::Range(2.0), 60.0),
            (Question::Partial(2.0), 60.0),
        ] {
            let over = (results.ratio(question, "static") - 1.0) * 100.0;
            self.most(format!("static, {question}, over volatile"), most, over, "%");
        }
        let exact = results.seconds(Question::Exact, "static");
        if let Some(published) = &results.published_exact {
            let ratio = exact / published.time.median();
            self.most("static, exact, against published in DRAM".into(), 1.0, ratio, "x");
        }
        let batch = results.seconds(Question::ExactBatch, "slow-only");
        let ratio = batch / results.seconds(Question::Exact, "volatile");
        self.most(
            "slow-only, exact_batch, against volatile, exact".into(),
            1.0,
            ratio,
            "x",
        );
    }

    /// The emulation shows the paper's figures within a third of them.
    fn published(&mut self, results: &Results) {
        for (question, _) in &results.answers {
            let Some(paper) = paper::slow_only(*question) else {
                continue;
            };
            let (low, high) = (paper * 2.0 / 3.0, paper * 4.0 / 3.0);
            let over = (results.ratio(*question, "slow-only") - 1.0) * 100.0;
            self.0.push(Bar {
                what: format!("slow-only, {question}, over volatile"),
                wanted: format!("{low:.0} to {high:.0} %"),
                measured: over,
                unit: "%",
                reached: (low..=high).contains(&over),
            });
        }
    }

    fn reopening(&mut self, results: &Results) {
        let Some(reopened) = &results.reopened else { return };
        let times = results.built.volatile.median() / reopened.hybrid.median();
        self.0.push(Bar {
            what: "hybrid, reopened against rebuilt".into(),
            wanted: format!(">= {} x", paper::REOPEN),
            measured: times,
            unit: "x",
            reached: times >= paper::REOPEN,
        });
    }

    fn memory(&mut self, results: &Results) {
        for system in &results.systems {
            if let (Some(budget), Some(counted)) = (system.budget, system.counted) {
                let percent = counted / budget as f64 * 100.0;
                self.most(
                    format!("{}, DRAM taken, of its budget", system.name),
                    100.0,
                    percent,
                    "%",
                );
            }
        }
    }

    fn most(&mut self, what: String, most: f64, measured: f64, unit: &'static str) {
        if measured.is_finite() {
            self.0.push(Bar {
                what,
                wanted: format!("<= {most} {unit}"),
                measured,
                unit,
                reached: measured <= most,
            });
        }
    }

    pub(super) fn report(&self, report: &mut Reporter<'_>, layout: Layout) -> Result<(), BenchError> {
        let mut lines = vec![];
        for bar in &self.0 {
            let reached = if bar.reached { "yes" } else { "no" };
            let config = config! {"layout": layout, "bar": bar.wanted, "reached": bar.reached};
            report.value("bars", &config, &bar.what, bar.measured, bar.unit)?;
            let digits = if bar.unit == "x" { 2 } else { 0 };
            lines.push(vec![
                bar.what.clone(),
                bar.wanted.clone(),
                format!("{:.digits$} {}", bar.measured, bar.unit),
                reached.to_owned(),
            ]);
        }
        report.line(&format!("bars, {layout}"))?;
        report.table(&["", "bar", "measured", "reached"], lines)
    }
}
