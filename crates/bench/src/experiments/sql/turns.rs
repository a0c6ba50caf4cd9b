//! A query asked of several sessions in turn.

use halocline_measure::answer;

use super::SqlSession;
use crate::{BenchError, Samples};

/// A session, and what it is called in errors.
pub(in crate::experiments) struct NamedSession<'a> {
    pub(in crate::experiments) name: String,
    pub(in crate::experiments) session: &'a SqlSession,
    /// The scale factor of its tables: sessions over the same rows must answer alike.
    pub(in crate::experiments) scale_factor: f64,
}

/// Times of one query, by session.
#[derive(Debug)]
pub(in crate::experiments) struct QueryTimes {
    /// Milliseconds.
    pub(in crate::experiments) times: Vec<Samples>,
    /// Rows of the answer.
    pub(in crate::experiments) rows: Vec<usize>,
    /// Lines that the emulated medium served, the median of the repetitions.
    pub(in crate::experiments) lines: Vec<f64>,
}

/// Asks a query of each session once, to warm up and to compare the answers, then `rounds` times of all in
/// turn.
///
/// # Errors
/// A session fails, or answers something else than the first one over the same rows.
pub(in crate::experiments) fn ask_in_turn(
    query: &str,
    sql: &str,
    sessions: &[NamedSession<'_>],
    rounds: usize,
) -> Result<QueryTimes, BenchError> {
    let mut answers: Vec<Vec<String>> = vec![];
    for named in sessions {
        let mut lines = answer::lines(&named.session.ask(sql)?.batches)?;
        // Rows that are equal in what they are ordered by come in any order.
        lines.sort_unstable();
        answers.push(lines);
    }
    ensure_same(query, sessions, &answers)?;
    let mut times = vec![Samples::default(); sessions.len()];
    let mut lines = times.clone();
    for _ in 0..rounds.max(1) {
        for ((named, times), lines) in sessions.iter().zip(&mut times).zip(&mut lines) {
            let asked = named.session.ask(sql)?;
            times.push(asked.milliseconds);
            lines.push(asked.lines as f64);
        }
    }
    Ok(QueryTimes {
        times,
        rows: answers.iter().map(Vec::len).collect(),
        lines: lines.iter().map(Samples::median).collect(),
    })
}

/// Fails unless sessions over the same rows give the same answer.
fn ensure_same(
    query: &str,
    sessions: &[NamedSession<'_>],
    answers: &[Vec<String>],
) -> Result<(), BenchError> {
    for (at, named) in sessions.iter().enumerate() {
        let same_rows = |first: &usize| sessions[*first].scale_factor == named.scale_factor;
        let Some(first) = (0..at).find(same_rows) else {
            continue;
        };
        if answers[first] != answers[at] {
            return Err(BenchError::Disagreement {
                what: format!("query {query}"),
                left_system: sessions[first].name.clone(),
                left: answers[first].join("\n"),
                right_system: named.name.clone(),
                right: answers[at].join("\n"),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use halocline_engine::{Database, DatabaseOptions};

    use super::*;

    fn session(value: i64) -> SqlSession {
        let database = Database::in_memory(&DatabaseOptions::default()).unwrap();
        let statements = [
            "CREATE TABLE t (v BIGINT)".to_owned(),
            format!("INSERT INTO t VALUES ({value})"),
        ];
        SqlSession::new(&database, 1, &statements).unwrap()
    }

    fn named(session: &SqlSession, scale_factor: f64) -> NamedSession<'_> {
        NamedSession {
            name: format!("at {scale_factor}"),
            session,
            scale_factor,
        }
    }

    #[test]
    fn sessions_over_the_same_rows_must_agree() {
        let (one, two) = (session(1), session(2));
        let ask = |sessions: &[NamedSession<'_>]| ask_in_turn("1", "SELECT v FROM t", sessions, 2);
        let asked = ask(&[named(&one, 1.0), named(&two, 2.0), named(&one, 1.0)]).unwrap();
        assert_eq!((asked.rows, asked.lines), (vec![1; 3], vec![0.0; 3]));
        assert!(asked.times.iter().all(|times| times.len() == 2));
        let refused = ask(&[named(&one, 1.0), named(&two, 1.0)]).unwrap_err();
        assert!(matches!(refused, BenchError::Disagreement { .. }), "{refused}");
    }
}
