//! Parameters of statements: values of every type arrive unchanged, in every kind of statement, and what does
//! not match is refused.

use arrow_array::RecordBatch;
use datafusion::common::ScalarValue;
use halocline_engine::{Database, DatabaseOptions, EngineError, params};

use super::support::run;

fn in_memory() -> Database {
    Database::in_memory(&DatabaseOptions::default()).unwrap()
}

async fn rows(db: &Database, text: &str, values: Vec<ScalarValue>) -> RecordBatch {
    let result = db
        .sql_with(text, values)
        .await
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let batches = result.collect().await.unwrap();
    arrow_select::concat::concat_batches(&batches[0].schema(), &batches).unwrap()
}

async fn value(db: &Database, text: &str, values: Vec<ScalarValue>) -> ScalarValue {
    let batch = rows(db, text, values).await;
    assert_eq!((batch.num_rows(), batch.num_columns()), (1, 1), "{text}");
    ScalarValue::try_from_array(batch.column(0), 0).unwrap()
}

async fn refused(db: &Database, text: &str, values: Vec<ScalarValue>) -> String {
    match db.sql_with(text, values).await {
        Err(error @ EngineError::Parameter { .. }) => error.to_string(),
        Err(error) => panic!("{text}: {error}"),
        Ok(_) => panic!("{text}: it ran"),
    }
}

/// Values, most of them at the ends of their types, and the types of columns that hold them.
fn samples() -> Vec<(&'static str, ScalarValue)> {
    vec![
        ("boolean", ScalarValue::from(false)),
        ("tinyint", ScalarValue::from(i8::MIN)),
        ("int", ScalarValue::from(-17i32)),
        ("bigint", ScalarValue::from(i64::MIN)),
        ("bigint", ScalarValue::from(i64::MAX)),
        ("bigint unsigned", ScalarValue::from(u64::MAX)),
        ("double", ScalarValue::from(0.1f64)),
        ("double", ScalarValue::from(-5e-324f64)),
        ("double", ScalarValue::from(f64::MAX)),
        ("double", ScalarValue::from(f64::INFINITY)),
        ("real", ScalarValue::from(0.1f32)),
        (
            "decimal(38,2)",
            ScalarValue::Decimal128(Some(i128::from(i64::MAX) * 1_000), 38, 2),
        ),
        ("decimal(9,0)", ScalarValue::Decimal128(Some(-5), 9, 0)),
        ("decimal(5,5)", ScalarValue::Decimal128(Some(1), 5, 5)),
        ("date", ScalarValue::Date32(Some(-719_162))),
        ("time", ScalarValue::Time64Nanosecond(Some(86_399_999_999_999))),
        (
            "timestamp(6)",
            ScalarValue::TimestampMicrosecond(Some(253_402_300_799_999_999), None),
        ),
        ("timestamp(9)", ScalarValue::TimestampNanosecond(Some(-1), None)),
        ("varchar", ScalarValue::from("")),
        (
            "varchar",
            ScalarValue::from("it's \"a\" $1; -- \\ ? text\n\u{1F980}"),
        ),
        ("bytea", ScalarValue::Binary(Some(vec![0, 0x27, 255]))),
        ("int", ScalarValue::Int32(None)),
    ]
}

#[tokio::test]
async fn values_arrive_unchanged() {
    let db = in_memory();
    for (column, given) in samples() {
        run(&db, &format!("CREATE TABLE t (v {column}, n int)")).await;
        let inserted = db.sql_with("INSERT INTO t VALUES ($1, 1)", [given.clone()]).await;
        inserted.unwrap_or_else(|error| panic!("{given:?} in a column of type {column}: {error}"));
        let stored = value(&db, "SELECT v FROM t", vec![]).await;
        let expected = given.cast_to(&stored.data_type()).unwrap();
        assert_eq!(stored, expected, "{column}");
        if !given.is_null() {
            let count = "SELECT count(*) FROM t WHERE v = $1";
            let count = value(&db, count, vec![given.clone()]).await;
            assert_eq!(count, ScalarValue::from(1i64), "{given:?}");
        }
        run(&db, "DROP TABLE t").await;
    }
}

#[tokio::test]
async fn every_kind_of_statement_takes_them() {
    let db = in_memory();
    run(&db, "CREATE TABLE t (a int, b varchar DEFAULT 'none')").await;
    let insert = "INSERT INTO t VALUES ($2, $1), ($2 + 1, upper($1)), (3, DEFAULT)";
    db.sql_with(insert, params!["x", 1]).await.unwrap();
    let update = "UPDATE t SET b = $1 || b WHERE a IN ($2, $3)";
    db.sql_with(update, params!["new ", 1, 3]).await.unwrap();
    db.sql_with("DELETE FROM t WHERE a BETWEEN $1 AND $1", [2])
        .await
        .unwrap();
    let all = "SELECT string_agg(b, ', ' ORDER BY a) FROM t";
    assert_eq!(value(&db, all, vec![]).await.to_string(), "new x, new none");

    db.sql_with("CREATE TABLE u AS SELECT a, $1 AS c FROM t", [0.5])
        .await
        .unwrap();
    let joined = "WITH w AS (SELECT $1 AS k) SELECT sum(c) FROM u JOIN w ON a > k LIMIT $2";
    let sum = value(
        &db,
        joined,
        vec![ScalarValue::from(2i64), ScalarValue::from(1i64)],
    )
    .await;
    assert_eq!(sum, ScalarValue::from(0.5));
    let plan = rows(
        &db,
        "EXPLAIN SELECT * FROM t WHERE a = $1",
        vec![ScalarValue::from(3i64)],
    )
    .await;
    assert!(plan.num_rows() > 0);
}

#[tokio::test]
async fn question_marks_are_parameters_in_the_order_of_the_text() {
    let db = in_memory();
    let text = "SELECT ? || '?' || ? WHERE 2 BETWEEN ? AND ? LIMIT ?";
    let text = value(&db, text, params!["a", "b", 1, 3, 1].to_vec()).await;
    assert_eq!(text.to_string(), "a?b");
}

#[tokio::test]
async fn what_does_not_match_is_refused() {
    let db = in_memory();
    run(&db, "CREATE TABLE t (a int)").await;
    let one = || vec![ScalarValue::from(1i64)];
    let text = refused(&db, "SELECT $1 + $2", one()).await;
    assert!(
        text.starts_with("parameter $2: it has no value, 1 are given"),
        "{text}"
    );
    let text = refused(
        &db,
        "SELECT $2",
        vec![ScalarValue::from(1i64), ScalarValue::from(2i64)],
    )
    .await;
    assert!(
        text.starts_with("parameter $1: it is not in the statement"),
        "{text}"
    );
    for text in ["SELECT ?1", "SELECT $0", "SELECT $name"] {
        let text = refused(&db, text, one()).await;
        assert!(text.contains("write parameters as $1, $2"), "{text}");
    }
    let text = refused(&db, "SELECT ? + $1", one()).await;
    assert!(text.contains("use one kind"), "{text}");
    for text in [
        "SELECT 1",
        "ABORT",
        "ALTER INDEX i SET (placement = 'static')",
        "DROP TABLE t",
        "BEGIN",
    ] {
        refused(&db, text, one()).await;
    }
    let list = ScalarValue::List(ScalarValue::new_list_nullable(
        &[],
        &arrow_schema::DataType::Int32,
    ));
    let text = refused(&db, "SELECT $1", vec![list]).await;
    assert!(text.contains("a value of type List"), "{text}");
    let text = refused(&db, "INSERT INTO t VALUES ($1)", vec![]).await;
    assert!(text.contains("sql_with"), "{text}");
    assert_eq!(
        value(&db, "SELECT count(*) FROM t", vec![]).await,
        ScalarValue::from(0i64)
    );
}
