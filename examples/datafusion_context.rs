//! Tables of a pool in programs that use DataFusion: in a context of their own, and with the DataFrame
//! interface.
//!
//! `cargo run --release -p halocline --example datafusion_context`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use halocline::datafusion::arrow::array::AsArray;
use halocline::datafusion::arrow::datatypes::{DataType, Int64Type};
use halocline::datafusion::functions_aggregate::expr_fn::count;
use halocline::datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use halocline::datafusion::prelude::{SessionContext, col, lit};
use halocline::{Database, DatabaseOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let db = Database::create(&directory.path().join("visits.pool"), &DatabaseOptions::default())?;
    db.sql(
        "CREATE TABLE visits AS SELECT i AS id, i % 24 AS hour, i % 7 AS day
         FROM generate_series(1, 100000) AS s(i)",
    )
    .await?;
    db.sql("CREATE INDEX by_day ON visits USING elf (day, hour)")
        .await?;

    // A context of the program's own: the table beside others, with filters pushed down into the index.
    let context = SessionContext::new();
    context.register_table("visits", db.table_provider("visits")?)?;
    let names = context
        .sql("SELECT * FROM (VALUES (0, 'Sunday'), (6, 'Saturday')) AS n(day, name)")
        .await?;
    context.register_table("names", names.into_view())?;
    let weekend = "SELECT name, count(*) AS visits FROM visits JOIN names ON visits.day = names.day
                   WHERE hour = 12 GROUP BY name ORDER BY name";
    context.sql(weekend).await?.show().await?;

    // The database's context: all its tables, its settings and rules. A function is added, and a query built
    // without SQL.
    let context = db.context()?;
    let double = create_udf(
        "double",
        vec![DataType::Int64],
        DataType::Int64,
        Volatility::Immutable,
        std::sync::Arc::new(|values: &[ColumnarValue]| {
            let values = ColumnarValue::values_to_arrays(values)?;
            let values = values[0]
                .as_primitive::<Int64Type>()
                .unary::<_, Int64Type>(|value| 2 * value);
            Ok(ColumnarValue::Array(std::sync::Arc::new(values)))
        }),
    );
    let frame = context
        .table("visits")
        .await?
        .filter(col("day").eq(lit(3)))?
        .aggregate(vec![double.call(vec![col("hour")])], vec![count(col("id"))])?
        .sort_by(vec![col("count(visits.id)")])?
        .limit(0, Some(3))?;
    frame.show().await?;
    Ok(())
}
