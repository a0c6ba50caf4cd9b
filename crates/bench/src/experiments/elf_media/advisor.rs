//! The placement that the advisor picks for each kind of query, beside the best one measured with the same
//! DRAM.

use std::sync::Arc;

use halocline_elf::{Advice, AdviseOptions, Elf, Rows};
use halocline_media::HugeVec;

use super::{BUDGET, CodeTable, PlacementResults, QuerySource, QueryType, Tier};
use crate::experiments::tiers::{self, IndexSystem};
use crate::{BenchError, Reporter, Settings, config};

/// A stream of queries that no measurement uses.
const STREAM: u64 = 1000;

/// A pick, predicted and measured.
pub(super) struct Pick {
    question: QueryType,
    advice: Advice,
    /// Seconds a query.
    measured: f64,
    /// Of the best placement within the same DRAM.
    best: (String, f64),
}

/// Asks the advisor about every kind of query that it knows; where no measured system is what it picks,
/// measures that beside the best one. Nothing on a medium that is not emulated.
pub(super) fn ask(
    settings: &Settings,
    table: &CodeTable,
    tier: &Tier,
    file: &Arc<HugeVec<u8>>,
    theta: f64,
    results: &PlacementResults,
) -> Result<Vec<Pick>, BenchError> {
    let Some(spec) = tier.emulated().filter(|_| table.rows() > 0) else {
        return Ok(vec![]);
    };
    let index = Elf::open(Arc::clone(file))?;
    let budget = settings
        .tiers
        .budgets
        .first()
        .unwrap_or(&BUDGET)
        .bytes_for(index.size());
    let mut picks = vec![];
    for (stream, (question, _)) in (STREAM..).zip(&results.answers) {
        let question = *question;
        if !matches!(question, QueryType::Exact)
            && !matches!(question, QueryType::Range(percent) | QueryType::Partial(percent) if percent < 50.0)
        {
            continue;
        }
        let mut source = QuerySource::new(table, theta, settings.seed, stream)?;
        let queries = source.draw(question, question.supply(settings.quick).min(200_000));
        let advice = index.advise(&queries.sample(), &AdviseOptions::new(budget, spec.clone()))?;
        let picked = advice.picked().placement;
        let within = |system: &&IndexSystem| system.placed().dram_bytes <= budget && !system.is_volatile();
        let seconds = |system: &IndexSystem| results.seconds(question, &system.name);
        let systems = results.systems.iter().filter(within);
        let Some(best) = systems.min_by(|a, b| seconds(a).total_cmp(&seconds(b))) else {
            continue;
        };
        let known = results
            .system(&picked.to_string())
            .filter(|at| within(&&results.systems[*at]));
        let (measured, beside) = match known {
            Some(at) => (seconds(&results.systems[at]), seconds(best)),
            None => {
                let mut system = tier.place(file, picked, Some(budget))?;
                // Caches that follow the queries are to have seen some.
                system.warm_up(&source.draw(question, question.supply(settings.quick)))?;
                let queries = source.draw(question, question.supply(settings.quick));
                let rounds = settings.repetitions(5);
                let least = if settings.quick { 0.005 } else { 0.15 };
                let both = tiers::compare(&[best, &system], &queries, rounds, least)?;
                (both[1].time.median(), both[0].time.median())
            }
        };
        let name = if measured < beside {
            picked.to_string()
        } else {
            best.name.clone()
        };
        picks.push(Pick {
            question,
            advice,
            measured,
            best: (name, measured.min(beside)),
        });
    }
    Ok(picks)
}

/// Reports the predicted and the measured seconds per query of each pick, and by how many percent it is
/// slower than the best placement. Predictions that are not finite are left out.
pub(super) fn report(
    report: &mut Reporter<'_>,
    results: &PlacementResults,
    picks: &[Pick],
) -> Result<(), BenchError> {
    for pick in picks {
        let (advised, ratio) = (pick.advice.picked(), pick.measured / pick.best.1);
        let config = config! {
            "layout": results.layout, "question": pick.question.to_string(), "dram": pick.advice.dram,
            "placement": advised.placement.to_string(), "best": pick.best.0, "queries": pick.advice.queries,
        };
        let predicted = advised.time.unwrap_or(f64::NAN);
        for (metric, value, unit) in [
            ("predicted", predicted, "s/query"),
            ("measured", pick.measured, "s/query"),
            ("over the best", (ratio - 1.0) * 100.0, "%"),
        ] {
            if value.is_finite() {
                report.value("advisor", &config, metric, value, unit)?;
            }
        }
    }
    Ok(())
}
