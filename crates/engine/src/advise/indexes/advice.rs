//! The steps of the advice: planning the queries, sampling the tables, forecasting and choosing indexes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::sql::parser::Statement as Parsed;
use halocline_catalog::Catalog;
use halocline_catalog::context::EngineContext;
use halocline_sql::EngineError;
use halocline_sql::cancel::CancelOnDrop;
use halocline_sql::stack::{OnLargeStack, StackSize};

use super::super::advice::medium_of;
use super::candidates;
use super::choose::{Choice, ChoiceCandidate};
use super::costs::{IndexForecast, TableWorkload};
use super::outcome::Outcome;
use super::recorder::{QueryScan, WorkloadRecorder};
use super::result::{IndexSetAdvice, IndexSetOptions};
use super::workload::{WorkloadQuery, named};
use crate::session::DatabaseSession;
use crate::statement::{BoxedStatement, StatementQuery, parse};

/// An index is proposed if it saves at least this share of the cost of the workload.
const MIN_GAIN: f64 = 0.01;
/// The largest candidate has to save this share more, others in proportion to their sizes: of two that save
/// about the same, the smaller one is proposed.
const SIZE_GAIN: f64 = 0.01;

/// Proposes indexes for a workload; see [`Database::advise_indexes`](crate::Database::advise_indexes).
///
/// # Errors
/// The workload has no query; a query cannot be planned; a table cannot be read.
pub(crate) async fn advise_indexes(
    session: &DatabaseSession,
    engine: &Arc<EngineContext>,
    workload: &[WorkloadQuery],
    options: &IndexSetOptions,
) -> Result<IndexSetAdvice, EngineError> {
    if workload.is_empty() {
        return Err(EngineError::Query(
            "there is no query to advise on; give SELECT statements".into(),
        ));
    }
    if let Some(query) = workload
        .iter()
        .find(|query| !(query.weight.is_finite() && query.weight > 0.0))
    {
        let text = format!(
            "{}: the weight {} is not a positive number",
            query.label, query.weight
        );
        return Err(EngineError::Query(text));
    }
    let catalog = session.catalog(engine)?;
    let longest = workload.iter().max_by_key(|query| query.text.len());
    let stack = StackSize::for_text(longest.map_or("", |query| query.text.as_str()));
    let scans = OnLargeStack::new(stack, record(session, &catalog, workload)).await?;
    // An index is placed in DRAM only if its medium is slower.
    let spec = medium_of(
        engine.pool.kind(),
        options.medium.as_ref().or(engine.options.medium.as_ref()),
    );
    let dram = options.dram.filter(|_| spec.profile.device != spec.profile.dram);
    let (workload, space) = (workload.to_vec(), options.space);
    let end = CancelOnDrop::default();
    let cancel = end.flag();
    let work = move || advise(&catalog, &workload, scans, space, dram, &cancel);
    let advised = tokio::task::spawn_blocking(work).await;
    advised.map_err(|error| EngineError::Query(format!("the advice failed: {error}")))?
}

/// Plans the queries and returns their table references.
async fn record(
    session: &DatabaseSession,
    catalog: &Arc<Catalog>,
    workload: &[WorkloadQuery],
) -> Result<Vec<QueryScan>, EngineError> {
    let recorder = Arc::new(WorkloadRecorder::default());
    for (number, query) in workload.iter().enumerate() {
        let wrong = |error: EngineError| named(&query.label, &error);
        recorder.begin(number);
        let statement = parse(&query.text, &[]).map_err(wrong)?;
        if let Some(parsed) = planned_part(statement) {
            session
                .plan_only(catalog, parsed, Arc::<WorkloadRecorder>::clone(&recorder))
                .await
                .map_err(wrong)?;
        }
    }
    Ok(recorder.take())
}

/// Returns the query that a statement is, explains, copies or inserts; `None` if it has none.
fn planned_part(statement: BoxedStatement) -> Option<Parsed> {
    match statement.into_query()? {
        StatementQuery::Planned(Parsed::Explain(explain)) => Some(*explain.statement),
        StatementQuery::Planned(parsed) | StatementQuery::Stored(parsed) => Some(parsed),
    }
}

/// A candidate: the table and the forecast, by position.
pub(super) type Candidate = (usize, usize);

/// Samples the tables, forecasts candidates, chooses among them and describes the choice.
fn advise(
    catalog: &Catalog,
    workload: &[WorkloadQuery],
    scans: Vec<QueryScan>,
    space: u64,
    dram: Option<u64>,
    cancel: &AtomicBool,
) -> Result<IndexSetAdvice, EngineError> {
    let parts = scans.len();
    let mut by_table: BTreeMap<String, Vec<(usize, f64, QueryScan)>> = BTreeMap::new();
    for (part, scan) in scans.into_iter().enumerate() {
        let weight = workload[scan.query].weight;
        let name = scan.open.table.name().to_owned();
        by_table.entry(name).or_default().push((part, weight, scan));
    }
    let (mut tables, mut forecasts) = (Vec::new(), Vec::new());
    for (_, scans) in by_table {
        let Some((_, _, first)) = scans.first() else {
            continue;
        };
        let open = Arc::clone(&first.open);
        let table = TableWorkload::new(open, scans, cancel)?.ok_or(EngineError::Cancelled)?;
        forecasts.push(candidates::forecasts(&table, cancel).ok_or(EngineError::Cancelled)?);
        tables.push(table);
    }
    let mut choice = Choice {
        base: vec![0.0; parts],
        space,
        ..Choice::default()
    };
    for scan in tables.iter().flat_map(|table| &table.scans) {
        choice.base[scan.part] = scan.now.0 * scan.weight;
    }
    let cost: f64 = choice.base.iter().sum();
    let sizes = forecasts.iter().flatten().map(|forecast| forecast.bytes);
    let largest = sizes.max().unwrap_or(0).max(1) as f64;
    let mut all: Vec<Candidate> = Vec::new();
    for (table, of_table) in forecasts.iter().enumerate() {
        for (number, forecast) in of_table.iter().enumerate() {
            all.push((table, number));
            let penalty = cost * (MIN_GAIN + SIZE_GAIN * forecast.bytes as f64 / largest);
            choice
                .candidates
                .push(candidate(&tables[table], forecast, penalty));
        }
    }
    let (chosen, _) = choice.solve(cancel).ok_or(EngineError::Cancelled)?;
    let chosen: Vec<Candidate> = chosen.into_iter().map(|at| all[at]).collect();
    let outcome = Outcome {
        catalog,
        workload,
        tables: &tables,
        forecasts: &forecasts,
        chosen: &chosen,
        space,
    };
    Ok(outcome.describe(dram))
}

/// Returns what the choice needs of a forecast.
fn candidate(table: &TableWorkload, forecast: &IndexForecast, penalty: f64) -> ChoiceCandidate {
    let gains = forecast.costs.iter().filter_map(|(at, cost)| {
        let scan = &table.scans[*at];
        (*cost < scan.now.0).then_some((scan.part, cost * scan.weight))
    });
    ChoiceCandidate {
        bytes: forecast.bytes,
        penalty,
        costs: gains.collect(),
    }
}
