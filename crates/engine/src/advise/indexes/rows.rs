//! The advice as rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use datafusion::error::DataFusionError;
use halocline_sql::EngineError;

use super::result::{IndexSetAdvice, ProposedIndex, QueryForecast, UnusedIndex};

/// A row of the advice.
#[derive(Default)]
struct AdviceRow {
    kind: &'static str,
    name: String,
    statement: Option<String>,
    bytes: Option<u64>,
    queries: Option<u64>,
    /// Seconds.
    before: Option<f64>,
    after: Option<f64>,
    note: Option<String>,
}

impl IndexSetAdvice {
    /// Returns the advice as rows, as `ADVISE` does: proposed indexes, unused ones, queries, and the sum of
    /// all queries.
    ///
    /// # Errors
    /// The rows do not make a batch.
    pub fn to_batch(&self) -> Result<RecordBatch, EngineError> {
        let mut rows: Vec<AdviceRow> = self.proposed.iter().map(proposed).collect();
        rows.extend(self.unused.iter().map(unused));
        rows.extend(self.queries.iter().map(query));
        rows.push(AdviceRow {
            kind: "total",
            name: String::new(),
            bytes: Some(self.proposed.iter().map(|index| index.bytes).sum()),
            queries: Some(self.queries.len() as u64),
            before: Some(self.before),
            after: Some(self.after),
            note: self.proposed.is_empty().then(|| "no index pays".into()),
            ..AdviceRow::default()
        });
        batch(&rows)
    }
}

fn proposed(index: &ProposedIndex) -> AdviceRow {
    AdviceRow {
        kind: "create index",
        name: index.name.clone(),
        statement: Some(index.statement.clone()),
        bytes: Some(index.bytes),
        queries: Some(index.queries as u64),
        note: Some(format!("saves {:.2} ms", index.gain * 1e3)),
        ..AdviceRow::default()
    }
}

fn unused(index: &UnusedIndex) -> AdviceRow {
    let note = if index.is_replaced {
        "not used beside the proposed indexes"
    } else {
        "no query uses it"
    };
    AdviceRow {
        kind: "unused index",
        name: index.name.clone(),
        statement: Some(index.statement.clone()),
        bytes: Some(index.bytes),
        note: Some(note.into()),
        ..AdviceRow::default()
    }
}

fn query(query: &QueryForecast) -> AdviceRow {
    AdviceRow {
        kind: "query",
        name: query.label.clone(),
        statement: Some(query.text.clone()),
        before: Some(query.before),
        after: Some(query.after),
        note: Some(query.note()),
        ..AdviceRow::default()
    }
}

impl QueryForecast {
    /// Returns the indexes that the query is predicted to use, or the reason why none pays.
    #[must_use]
    pub fn note(&self) -> String {
        match self.indexes.as_slice() {
            [] => format!("no index pays: {}", self.reasons.join("; ")),
            indexes => format!("uses {}", indexes.join(", ")),
        }
    }
}

fn batch(rows: &[AdviceRow]) -> Result<RecordBatch, EngineError> {
    let text = |of: fn(&AdviceRow) -> Option<String>| -> ArrayRef {
        Arc::new(StringArray::from_iter(rows.iter().map(of)))
    };
    let number = |of: fn(&AdviceRow) -> Option<u64>| -> ArrayRef {
        Arc::new(UInt64Array::from_iter(rows.iter().map(of)))
    };
    let time = |of: fn(&AdviceRow) -> Option<f64>| -> ArrayRef {
        Arc::new(Float64Array::from_iter(
            rows.iter().map(|row| of(row).map(|seconds| seconds * 1e3)),
        ))
    };
    let columns: [(&str, DataType, ArrayRef); 8] = [
        ("kind", DataType::Utf8, text(|row| Some(row.kind.into()))),
        ("name", DataType::Utf8, text(|row| Some(row.name.clone()))),
        ("statement", DataType::Utf8, text(|row| row.statement.clone())),
        ("bytes", DataType::UInt64, number(|row| row.bytes)),
        ("queries", DataType::UInt64, number(|row| row.queries)),
        ("before_ms", DataType::Float64, time(|row| row.before)),
        ("after_ms", DataType::Float64, time(|row| row.after)),
        ("note", DataType::Utf8, text(|row| row.note.clone())),
    ];
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, kind, _)| Field::new(*name, kind.clone(), true))
        .collect();
    let columns = columns.into_iter().map(|(_, _, column)| column).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
    Ok(batch.map_err(DataFusionError::from)?)
}
