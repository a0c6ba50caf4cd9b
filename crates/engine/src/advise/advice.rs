//! Advice on the placement of an index for given statements, or for those that ran: [`advise`].

use std::sync::Arc;

use halocline_catalog::context::EngineContext;
use halocline_catalog::selections;
use halocline_catalog::{Catalog, OpenIndex};
use halocline_elf::{Advice, AdviseOptions, Query, TableIndex};
use halocline_emulator::{DeviceProfile, EmulatedSpec};
use halocline_media::MediumKind;
use halocline_sql::cancel::CancelOnDrop;
use halocline_sql::stack::{OnLargeStack, StackSize};
use halocline_sql::{EngineError, size};

use super::selections::SelectionRecorder;
use crate::Placement;
use crate::session::DatabaseSession;
use crate::statement::{StatementQuery, parse};

/// Advice on the placement of an index; see [`Database::advise`](crate::Database::advise).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IndexAdvice {
    /// The index.
    pub index: String,
    /// The prediction for each placement, and the choice among them.
    pub advice: Advice,
    /// A description of the queries.
    pub source: String,
    /// A description of the medium that the prediction assumes.
    pub medium: String,
    /// The statement that places the index as advised.
    pub statement: String,
}

/// Returns the medium that predictions assume for a pool: the emulated one if there is one, persistent memory
/// for DAX, and otherwise DRAM, since a page-cache file is as fast once it has been read.
pub(crate) fn medium_of(kind: MediumKind, emulated: Option<&EmulatedSpec>) -> EmulatedSpec {
    let profile = match (emulated, kind) {
        (Some(spec), _) => return spec.clone(),
        (None, MediumKind::Dax) => DeviceProfile::optane(),
        (None, _) => DeviceProfile::dram(),
    };
    // Relative times would require a measurement of the host, which no statement starts on its own.
    EmulatedSpec {
        absolute: true,
        ..EmulatedSpec::new(profile)
    }
}

/// Advises on an index with `dram` bytes for the given statements. Without any, for the recent queries of
/// this process, or for synthetic ones.
///
/// # Errors
/// No such index; a statement cannot be planned; none of them has a condition on the index's columns.
pub(crate) async fn advise(
    session: &DatabaseSession,
    engine: &Arc<EngineContext>,
    name: &str,
    statements: &[String],
    dram: u64,
    medium: Option<&EmulatedSpec>,
) -> Result<IndexAdvice, EngineError> {
    let catalog = session.catalog(engine)?;
    let open = catalog.indexes().iter().find(|index| index.name == name);
    let open = open.ok_or_else(|| catalog.no_index(name))?;
    let index = match &open.index {
        Ok(index) => Arc::clone(index),
        Err(reason) => {
            return Err(EngineError::Query(format!(
                "index '{name}' cannot be read: {reason}"
            )));
        }
    };
    let index = if index.is_volatile() {
        built(&catalog, open).await?
    } else {
        index
    };
    let (sample, source) = match statements {
        [] => {
            let table = catalog.table(index.table())?;
            open.placement.sample(&index, &table.table)?
        }
        statements => {
            let longest = statements.iter().max_by_key(|statement| statement.len());
            let stack = StackSize::for_text(longest.map_or("", String::as_str));
            let recorder = OnLargeStack::new(stack, record(session, &catalog, name, statements)).await?;
            of_statements(&recorder, &index, statements.len())?
        }
    };
    let kind = engine.pool.kind();
    let spec = medium_of(kind, medium.or(engine.options.medium.as_ref()));
    let described = match (medium, &engine.options.medium) {
        (None, None) if kind != MediumKind::Dax => {
            format!("{kind}, as fast as DRAM; name the medium that is meant, if it is another")
        }
        _ => describe(&spec),
    };
    let options = AdviseOptions::new(dram, spec);
    let advised = tokio::task::spawn_blocking(move || index.advise(&sample, &options)).await;
    let advice = advised.map_err(|error| EngineError::Query(format!("the advice failed: {error}")))??;
    Ok(IndexAdvice {
        index: name.to_owned(),
        statement: statement_for(name, &advice),
        advice,
        source,
        medium: described,
    })
}

/// Returns a volatile index with its trees, which are built if necessary: the advice runs queries on them.
///
/// # Errors
/// The trees cannot be built, or another thread is building them.
async fn built(catalog: &Catalog, open: &OpenIndex) -> Result<Arc<TableIndex>, EngineError> {
    if let Some(table) = &open.table {
        let (index, table) = (open.clone(), catalog.table(table)?);
        let end = CancelOnDrop::default();
        let cancel = end.flag();
        let placed = tokio::task::spawn_blocking(move || index.place(&table.table, true, &cancel)).await;
        placed.map_err(|error| EngineError::Query(format!("the build failed: {error}")))?;
    }
    let reason = || open.not_built().unwrap_or_default();
    open.now().ok_or_else(|| {
        EngineError::Query(format!(
            "{}; give it another placement to have it stored",
            reason()
        ))
    })
}

/// Plans the statements and records the selections that the index could answer.
async fn record(
    session: &DatabaseSession,
    catalog: &Arc<Catalog>,
    name: &str,
    statements: &[String],
) -> Result<Arc<SelectionRecorder>, EngineError> {
    let recorder = Arc::new(SelectionRecorder::new(name));
    for (number, text) in statements.iter().enumerate() {
        let wrong = |error: EngineError| EngineError::Query(format!("query {}: {error}", number + 1));
        recorder.next_statement();
        let statement = parse(text, &[]).map_err(wrong)?;
        if let Some(StatementQuery::Planned(parsed)) = statement.into_query() {
            session
                .plan_only(catalog, parsed, Arc::<SelectionRecorder>::clone(&recorder))
                .await
                .map_err(wrong)?;
        }
    }
    Ok(recorder)
}

/// Returns the selections for which the planner chose the index, or, if there are none, all that the index
/// could answer; and a description of them.
fn of_statements(
    recorder: &SelectionRecorder,
    index: &TableIndex,
    statements: usize,
) -> Result<(Vec<Vec<Query>>, String), EngineError> {
    let recorded = recorder.take();
    let by_index = recorded.iter().filter(|selection| selection.chosen).count();
    let used: Vec<_> = recorded
        .iter()
        .filter(|selection| selection.chosen || by_index == 0)
        .collect();
    let mut with_any: Vec<usize> = used.iter().map(|selection| selection.statement).collect();
    with_any.dedup();
    let mut source = format!(
        "{} of {statements} queries use the index, in {} selections",
        with_any.len(),
        used.len()
    );
    if by_index == 0 {
        source += "; without being told to, the planner would scan the table for each of them";
    } else if recorded.len() > by_index {
        source += &format!(
            "; {} others could, but are cheaper without it",
            recorded.len() - by_index
        );
    }
    if used.is_empty() {
        let text = format!(
            "none of the {statements} queries has a condition on a column of index '{}'; give queries that it is to \
             answer",
            index.name()
        );
        return Err(EngineError::Query(text));
    }
    let selections = used.iter().map(|noted| &noted.selection);
    Ok((selections::sample(selections, index), source))
}

/// Describes a medium without its clock, which does not affect the advice.
fn describe(spec: &EmulatedSpec) -> String {
    let to = if spec.absolute {
        "times as in its profile"
    } else {
        "times relative to this host's DRAM"
    };
    let cache = spec.cache.bytes() >> 20;
    format!("{}, {to}, below a cache of {cache} MiB", spec.profile.name)
}

fn statement_for(name: &str, advice: &Advice) -> String {
    let name = quoted(name);
    let placement = advice.picked().placement;
    match placement {
        Placement::SlowOnly => format!("ALTER INDEX {name} SET (placement = '{placement}')"),
        _ => format!(
            "ALTER INDEX {name} SET (placement = '{placement}', dram = '{}')",
            size::exact(advice.dram)
        ),
    }
}

/// Returns a name as SQL reads it.
pub(super) fn quoted(name: &str) -> String {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.chars().all(word) && !name.starts_with(|c: char| c.is_ascii_digit()) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}
