//! Arrow record batches in and out, without SQL text for the rows.
//!
//! `cargo run --release -p halocline --example arrow_in_out`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;

use futures::StreamExt;
use halocline::datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, StringArray};
use halocline::datafusion::arrow::datatypes::Float64Type;
use halocline::datafusion::arrow::record_batch::RecordBatch;
use halocline::{Database, DatabaseOptions, EngineError};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let db = Database::in_memory(&DatabaseOptions::default())?;
    db.sql("CREATE TABLE trades (id bigint, symbol text, price double DEFAULT 1.0)")
        .await?;

    // Columns go by name. A batch of up to some 1,000 rows is one record of the log; a larger one becomes a
    // segment of its own.
    for first in (0..100_000).step_by(10_000) {
        let ids = first..first + 10_000;
        let symbols = ids.clone().map(|id| ["HAL", "OCL", "INE"][id as usize % 3]);
        let prices = ids.clone().map(|id| id as f64 / 8.0);
        let columns: [(&str, ArrayRef); 3] = [
            ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
            ("symbol", Arc::new(StringArray::from_iter_values(symbols))),
            ("price", Arc::new(Float64Array::from_iter_values(prices))),
        ];
        db.insert("trades", &RecordBatch::try_from_iter(columns)?)?;
    }
    // A column that the batch lacks takes its default.
    let one: ArrayRef = Arc::new(Int64Array::from_iter_values([-1]));
    db.insert("trades", &RecordBatch::try_from_iter([("id", one)])?)?;

    // Rows come as a stream: memory does not grow with the answer, and to drop the stream ends the query.
    let result = db
        .sql("SELECT price FROM trades WHERE symbol = 'OCL' OR id < 0")
        .await?;
    println!("columns: {}", result.schema());
    let (mut rows, mut sum, mut stream) = (0, 0.0, result.stream());
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        rows += batch.num_rows();
        sum += batch
            .column(0)
            .as_primitive::<Float64Type>()
            .iter()
            .flatten()
            .sum::<f64>();
    }
    println!("{rows} rows, sum of prices {sum}");

    // A batch that does not fit is refused, with the table, the column and the reason.
    let wrong: ArrayRef = Arc::new(StringArray::from_iter_values(["many"]));
    match db.insert("trades", &RecordBatch::try_from_iter([("price", wrong)])?) {
        Err(error @ EngineError::Value { .. }) => println!("refused: {error}"),
        other => panic!("a text in a column of numbers: {other:?}"),
    }
    Ok(())
}
