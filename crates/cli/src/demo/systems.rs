//! The systems that answer the demo's queries, and their comparison.
//!
//! Invariants: systems that are compared run in turns, one turn to warm up and [`RUNS`] that are measured;
//! their median counts; an answer that differs in any run is an error.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

use arrow_array::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use halocline_engine::{Database, EngineError, PreparedStatement, ScalarValue};
use halocline_measure::{Samples, answer};
use halocline_terminal::CliError;
use tokio::runtime::Runtime;

use crate::sql;

/// Number of measured runs of a query on each system.
pub(crate) const RUNS: usize = 7;

/// How [`compare`] measures, for people.
pub(crate) const MEDIANS: &str =
    "Equal answers.\n   Medians of 7 turns; in each, a query runs twice, and the second run counts.";
const _: () = assert!(RUNS == 7, "MEDIANS has the number");

/// A system under its name in messages.
pub(crate) struct ComparedSystem {
    name: &'static str,
    engine: QueryEngine,
}

enum QueryEngine {
    Pool(Database),
    Prepared(PreparedStatement),
    DataFusion(SessionContext),
}

/// The answer of a query, and the time each system took for it.
pub(crate) struct ComparedQuery<const N: usize> {
    /// The last answer, one line per row, sorted.
    pub(crate) answer: Vec<String>,
    /// Median milliseconds by system.
    pub(crate) milliseconds: [f64; N],
}

impl ComparedSystem {
    /// Returns a session of its own on a pool, with a mode of `halocline.index`.
    pub(crate) fn pool(name: &'static str, database: &Database, index_mode: &str) -> Result<Self, CliError> {
        let engine = QueryEngine::Pool(session(database, index_mode)?);
        Ok(Self { name, engine })
    }

    /// Returns a statement that is prepared in a session of its own, with a mode of `halocline.index`. It
    /// answers queries by their values.
    pub(crate) fn prepared(
        name: &'static str,
        database: &Database,
        index_mode: &str,
        statement: &str,
    ) -> Result<Self, CliError> {
        let session = session(database, index_mode)?;
        let prepared = runtime()?.block_on(session.prepare(statement))?;
        let engine = QueryEngine::Prepared(prepared);
        Ok(Self { name, engine })
    }

    /// Returns DataFusion over Parquet files, each under the name of a table. Its settings are the defaults,
    /// but literals with a point are decimals.
    pub(crate) fn datafusion(files: &[(&str, PathBuf)], threads: Option<u32>) -> Result<Self, CliError> {
        let mut config = SessionConfig::new();
        if let Some(threads) = threads {
            config = config.with_target_partitions(threads as usize);
        }
        // Both systems then compare decimals with decimals, which also lets DataFusion use its statistics.
        config.options_mut().sql_parser.parse_float_as_decimal = true;
        let context = SessionContext::new_with_config(config);
        for (table, file) in files {
            let path = file.to_str().ok_or_else(|| {
                CliError::with_hint(
                    format!("the path {} is not UTF-8", file.display()),
                    "choose another --dir",
                )
            })?;
            let register = context.register_parquet(*table, path, ParquetReadOptions::default());
            runtime()?.block_on(register).map_err(of_datafusion)?;
        }
        Ok(Self {
            name: "DataFusion",
            engine: QueryEngine::DataFusion(context),
        })
    }

    /// Runs a query, a prepared one with these values; returns its sorted lines and the milliseconds from its
    /// text or values to its last row.
    fn ask(&self, text: &str, values: &[ScalarValue]) -> Result<(Vec<String>, f64), CliError> {
        let start = Instant::now();
        let batches = match &self.engine {
            QueryEngine::Pool(session) => collect(session, text)?,
            QueryEngine::Prepared(statement) => {
                let batches: Result<_, EngineError> = runtime()?
                    .block_on(async { statement.execute(values.iter().cloned()).await?.collect().await });
                batches?
            }
            QueryEngine::DataFusion(context) => {
                let batches: Result<_, DataFusionError> =
                    runtime()?.block_on(async { context.sql(text).await?.collect().await });
                batches.map_err(of_datafusion)?
            }
        };
        let elapsed = start.elapsed();
        let mut lines = answer::lines(&batches)?;
        lines.sort_unstable();
        Ok((lines, elapsed.as_secs_f64() * 1e3))
    }

    /// Returns true if the plan of a query has an operator of that name.
    pub(crate) fn plans(&self, operator: &str, text: &str) -> Result<bool, CliError> {
        let (lines, _) = self.ask(&format!("EXPLAIN {text}"), &[])?;
        Ok(lines.iter().any(|line| line.contains(operator)))
    }
}

/// Runs a query on all systems in turns: by its text, on a prepared statement by its values.
///
/// # Errors
/// A system fails, or two answers differ.
pub(crate) fn compare<const N: usize>(
    text: &str,
    values: &[ScalarValue],
    systems: &[ComparedSystem; N],
) -> Result<ComparedQuery<N>, CliError> {
    let mut times = [(); N].map(|()| Samples::default());
    let mut answer = vec![];
    for run in 0..=RUNS {
        for (at, (system, times)) in systems.iter().zip(&mut times).enumerate() {
            // The turn of another system has filled the caches of the CPU with other data.
            system.ask(text, values)?;
            let (lines, milliseconds) = system.ask(text, values)?;
            if run > 0 {
                times.push(milliseconds);
            }
            if at == 0 {
                answer = lines;
            } else if answer != lines {
                return Err(CliError::failed(format!(
                    "answers differ for {text}: {} from {}, {} from {}",
                    answer.join("; "),
                    systems[0].name,
                    lines.join("; "),
                    system.name
                )));
            }
        }
    }
    Ok(ComparedQuery {
        answer,
        milliseconds: times.map(|times| times.median()),
    })
}

fn session(database: &Database, index_mode: &str) -> Result<Database, CliError> {
    let session = database.session();
    collect(&session, &format!("SET halocline.index = '{index_mode}'"))?;
    Ok(session)
}

/// Runs a statement on a pool and returns all of its rows.
pub(crate) fn collect(database: &Database, text: &str) -> Result<Vec<RecordBatch>, CliError> {
    let batches: Result<_, EngineError> =
        runtime()?.block_on(async { database.sql(text).await?.collect().await });
    Ok(batches?)
}

/// Returns the numbers in the only row of an answer; NULL is 0.
pub(crate) fn numbers(answer: &[String]) -> Vec<u64> {
    let values = answer.first().map(|line| line.split('|')).into_iter().flatten();
    values.map(|value| value.parse().unwrap_or(0)).collect()
}

/// Names DataFusion, which is run beside us, as the source of an error.
fn of_datafusion(error: DataFusionError) -> CliError {
    CliError::failed(format!("DataFusion: {error}"))
}

fn runtime() -> Result<&'static Runtime, CliError> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    match RUNTIME.get() {
        Some(runtime) => Ok(runtime),
        None => {
            let runtime = sql::runtime()?;
            Ok(RUNTIME.get_or_init(|| runtime))
        }
    }
}
