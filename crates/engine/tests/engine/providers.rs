//! Tables of a pool in DataFusion contexts outside of the engine.

use arrow_array::RecordBatch;
use datafusion::physical_plan::displayable;
use datafusion::prelude::{SessionContext, col, lit};
use halocline_engine::Database;

use super::support::{new_pool, run};

async fn sample() -> (tempfile::TempDir, Database) {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t AS SELECT i AS id, i % 10 AS g, i % 1000 AS h FROM generate_series(1, 100000) AS s(i)",
    )
    .await;
    run(&db, "CREATE INDEX by_g ON t USING elf (g, h)").await;
    (dir, db)
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

#[tokio::test]
async fn a_table_answers_in_a_context_of_its_own() {
    let (_dir, db) = sample().await;
    let context = SessionContext::new();
    context
        .register_table("mine", db.table_provider("t").unwrap())
        .unwrap();
    let frame = context
        .sql("SELECT id FROM mine WHERE g = 3 AND h = 123")
        .await
        .unwrap();
    let plan = frame.clone().create_physical_plan().await.unwrap();
    let plan = displayable(&*plan).indent(true).to_string();
    assert!(plan.contains("by_g"), "{plan}");
    assert_eq!(rows(&frame.collect().await.unwrap()), 100);

    // It is a snapshot.
    run(&db, "DELETE FROM t WHERE g = 3").await;
    let again = context.sql("SELECT id FROM mine WHERE g = 3").await.unwrap();
    assert_eq!(rows(&again.collect().await.unwrap()), 10_000);
    assert!(db.table_provider("missing").is_err());
}

#[tokio::test]
async fn the_context_of_a_database_has_its_tables_and_takes_others() {
    let (_dir, db) = sample().await;
    let context = db.context().unwrap();
    let frame = context.table("t").await.unwrap();
    let frame = frame
        .filter(col("g").eq(lit(3)).and(col("h").eq(lit(123))))
        .unwrap();
    assert_eq!(rows(&frame.collect().await.unwrap()), 100);

    let other = SessionContext::new();
    let view = other.sql("SELECT 3 AS k, 'three' AS name").await.unwrap();
    context.register_table("names", view.into_view()).unwrap();
    let joined = "SELECT name FROM t JOIN names ON g = k WHERE h < 10";
    assert_eq!(
        rows(&context.sql(joined).await.unwrap().collect().await.unwrap()),
        100
    );
}
