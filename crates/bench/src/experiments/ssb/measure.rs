//! The queries, asked of all variants in turn.

use halocline_measure::answer;
use halocline_workloads::{SsbQuery, ssb_queries};

use super::system::SsbSession;
use crate::BenchError;
use crate::experiments::sql::{NamedSession, QueryTimes, ask_in_turn};

/// Times and answers of one query.
pub(super) struct MeasuredQuery {
    pub(super) query: &'static SsbQuery,
    /// By variant.
    pub(super) asked: QueryTimes,
    /// By variant, true if it was planned as a star join.
    pub(super) star: Vec<bool>,
}

/// Asks all queries.
pub(super) fn all(systems: &[SsbSession], rounds: usize) -> Result<Vec<MeasuredQuery>, BenchError> {
    let variants: Vec<_> = systems.iter().map(|system| system.variant.clone()).collect();
    let sessions: Vec<NamedSession<'_>> = systems
        .iter()
        .map(|system| NamedSession {
            name: system.variant.label(&variants),
            session: &system.session,
            scale_factor: system.variant.stored.scale_factor,
        })
        .collect();
    ssb_queries()
        .iter()
        .map(|query| {
            let mut star = vec![];
            for system in systems {
                let plan = system.session.ask(&format!("EXPLAIN {}", query.sql))?;
                star.push(answer::lines(&plan.batches)?.concat().contains("StarJoin"));
            }
            let asked = ask_in_turn(query.name, query.sql, &sessions, rounds)?;
            Ok(MeasuredQuery { query, asked, star })
        })
        .collect()
}
