//! Databases and plain DataFusion over the same rows.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use datafusion::execution::SessionStateBuilder;
use datafusion::optimizer::Optimizer;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use halocline_engine::{Database, DatabaseOptions, ImportOptions, ImportReport};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tempfile::TempDir;

/// A new pool in its own directory.
pub(crate) fn new_pool() -> (TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::create(&dir.path().join("test.pool"), &DatabaseOptions::default()).unwrap();
    (dir, db)
}

/// Plain DataFusion with two partitions, without the rule that moves filters of physical plans: it finds
/// columns by name, so that a condition on one side of an outer join may be moved to the other side.
pub(crate) fn plain_datafusion() -> SessionContext {
    plain_datafusion_without(&[])
}

/// The same without some rules for logical plans.
pub(crate) fn plain_datafusion_without(rules: &[&str]) -> SessionContext {
    let mut physical = PhysicalOptimizer::new().rules;
    physical.retain(|rule| rule.name() != "FilterPushdown");
    let mut logical = Optimizer::new().rules;
    logical.retain(|rule| !rules.contains(&rule.name()));
    let state = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(2))
        .with_default_features()
        .with_optimizer_rules(logical)
        .with_physical_optimizer_rules(physical)
        .build();
    SessionContext::new_with_state(state)
}

/// Opens the pool of a directory.
pub(crate) fn reopen(dir: &TempDir, options: &DatabaseOptions) -> Database {
    Database::open(&dir.path().join("test.pool"), options).unwrap()
}

/// Imports files with default options.
pub(crate) fn import(db: &Database, table: &str, files: &[PathBuf]) -> ImportReport {
    let mut last = 0;
    let mut progress = |at: &halocline_engine::ImportProgress| {
        assert!(at.rows >= last && at.bytes <= at.total_bytes, "{at:?}");
        last = at.rows;
    };
    db.import(
        table,
        files,
        &ImportOptions::default(),
        &mut progress,
        &AtomicBool::new(false),
    )
    .unwrap()
}

/// Writes batches to a Parquet file, without statistics: they leave NaN out, and DataFusion then loses rows
/// that are NaN.
pub(crate) fn write_parquet(path: &Path, batches: impl IntoIterator<Item = RecordBatch>) {
    let mut batches = batches.into_iter().peekable();
    let schema = batches.peek().unwrap().schema();
    let properties = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, schema, Some(properties)).unwrap();
    for batch in batches {
        writer.write(&batch).unwrap();
    }
    writer.close().unwrap();
}

/// Plain DataFusion over Parquet files.
pub(crate) async fn plain(tables: &[(&str, &Path)]) -> SessionContext {
    let context = plain_datafusion();
    for (name, path) in tables {
        let options = ParquetReadOptions::default();
        context
            .register_parquet(*name, path.to_str().unwrap(), options)
            .await
            .unwrap();
    }
    context
}

/// The rows as text, a line each, as they came. Floats are rounded to ten digits, since sums of them depend
/// on the order of the rows.
pub(crate) fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        let floats: Vec<bool> = batch
            .schema()
            .fields()
            .iter()
            .map(|f| f.data_type().is_floating())
            .collect();
        for row in 0..batch.num_rows() {
            let cell = |(column, float): (&ArrayFormatter<'_>, &bool)| {
                let text = column.value(row).to_string();
                match text.parse::<f64>() {
                    Ok(value) if *float => format!("{value:.9e}"),
                    _ => text,
                }
            };
            lines.push(
                columns
                    .iter()
                    .zip(&floats)
                    .map(cell)
                    .collect::<Vec<_>>()
                    .join("|"),
            );
        }
    }
    lines
}

/// The rows of a query as text.
pub(crate) async fn query(db: &Database, text: &str) -> Vec<String> {
    match db.sql(text).await {
        Ok(result) => lines(&result.collect().await.unwrap_or_else(|e| panic!("{text}: {e}"))),
        Err(error) => panic!("{text}: {error}"),
    }
}

/// Runs a statement without rows and returns its message.
pub(crate) async fn run(db: &Database, text: &str) -> String {
    match db.sql(text).await {
        Ok(result) => result.message().unwrap_or_default().to_string(),
        Err(error) => panic!("{text}: {error}"),
    }
}

/// The error of a statement, whenever it comes.
pub(crate) async fn error(db: &Database, text: &str) -> String {
    match db.sql(text).await {
        Err(error) => error.to_string(),
        Ok(result) => match result.collect().await {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{text} was answered"),
        },
    }
}

/// The rows of a query in any order, or that it overflows: which row does so first is left open.
pub(super) async fn outcome(db: &Database, text: &str) -> Result<Vec<String>, &'static str> {
    let rows = match db.sql(text).await {
        Ok(result) => result.collect().await,
        Err(error) => Err(error),
    };
    match rows {
        Ok(rows) => {
            let mut rows = lines(&rows);
            rows.sort_unstable();
            Ok(rows)
        }
        Err(error) if error.to_string().contains("is not a value of type") => Err("overflow"),
        Err(error) => panic!("{text}: {error}"),
    }
}

/// At most `most` of some texts.
pub(super) fn some<'a>(rng: &mut StdRng, from: &[&'a str], most: usize) -> Vec<&'a str> {
    let number = rng.random_range(0..=most);
    from.choose_multiple(rng, number).copied().collect()
}
