//! The queries, asked of all variants in turn.

use halocline_workloads::{SsbQuery, ssb_queries};

use super::system::SsbSession;
use crate::{BenchError, Samples, answer};

/// Times and answers of one query.
pub(super) struct QueryTimes {
    pub(super) query: &'static SsbQuery,
    /// Milliseconds of each variant.
    pub(super) times: Vec<Samples>,
    /// Rows of the answer of each variant.
    pub(super) rows: Vec<usize>,
    /// By variant, true if it was planned as a star join.
    pub(super) star: Vec<bool>,
}

/// Asks all queries.
pub(super) fn all(systems: &[SsbSession], rounds: usize) -> Result<Vec<QueryTimes>, BenchError> {
    ssb_queries()
        .iter()
        .map(|query| one(query, systems, rounds))
        .collect()
}

fn one(query: &'static SsbQuery, systems: &[SsbSession], rounds: usize) -> Result<QueryTimes, BenchError> {
    let mut measured = QueryTimes {
        query,
        times: vec![Samples::default(); systems.len()],
        rows: vec![],
        star: vec![],
    };
    let mut answers: Vec<Vec<String>> = vec![];
    for system in systems {
        let (_, plan) = system.ask(&format!("EXPLAIN {}", query.sql))?;
        let is_star = answer::lines(&plan)?.concat().contains("StarJoin");
        measured.star.push(is_star);
        let (_, batches) = system.ask(query.sql)?;
        let mut lines = answer::lines(&batches)?;
        // Rows that are equal in what they are ordered by come in any order.
        lines.sort_unstable();
        measured.rows.push(lines.len());
        answers.push(lines);
    }
    agree(query, systems, &answers)?;
    for _ in 0..rounds.max(1) {
        for (system, times) in systems.iter().zip(&mut measured.times) {
            times.push(system.ask(query.sql)?.0);
        }
    }
    Ok(measured)
}

/// Answers over the same rows must be the same.
fn agree(query: &SsbQuery, systems: &[SsbSession], answers: &[Vec<String>]) -> Result<(), BenchError> {
    let scale = |system: usize| systems[system].variant.stored.scale_factor;
    for at in 1..systems.len() {
        let first = (0..at).find(|first| scale(*first) == scale(at));
        let Some(first) = first.filter(|first| answers[*first] != answers[at]) else {
            continue;
        };
        let variants: Vec<_> = systems.iter().map(|system| system.variant.clone()).collect();
        return Err(BenchError::Disagreement {
            what: format!("query {}", query.name),
            left_system: variants[first].label(&variants),
            left: answers[first].join("\n"),
            right_system: variants[at].label(&variants),
            right: answers[at].join("\n"),
        });
    }
    Ok(())
}
