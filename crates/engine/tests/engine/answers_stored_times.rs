//! Timestamps without time zone that are put into columns with one: they are read in the session's zone.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use halocline_engine::{Database, ImportOptions};
use tempfile::TempDir;

use super::support::{new_pool, query, run, write_parquet};

/// Noon of a summer's day in Berlin, in UTC.
const NOON: &str = "2024-06-01 10:00:00";

/// Times of a clock of Berlin: in summer, in winter, left out, twice, with a zone of its own.
const CLOCK: [(&str, &str); 6] = [
    ("2024-06-01 12:00:00", NOON),
    ("2024-01-01 12:00:00", "2024-01-01 11:00:00"),
    ("2024-03-31 02:30:00", "2024-03-31 01:30:00"),
    ("2024-10-27 02:30:00", "2024-10-27 01:30:00"),
    ("2024-06-01 12:00:00+00", "2024-06-01 12:00:00"),
    ("2024-06-01T12:00:00Z", "2024-06-01 12:00:00"),
];

/// A database whose session has the zone of Berlin.
async fn berlin() -> (TempDir, Database) {
    let (dir, db) = new_pool();
    run(&db, "SET TIME ZONE 'Europe/Berlin'").await;
    (dir, db)
}

/// Checks that a table has the instants of some times in UTC, by their keys.
async fn holds(db: &Database, table: &str, expected: &[(usize, &str)]) {
    for (key, utc) in expected {
        let text = format!("SELECT t = TIMESTAMPTZ '{utc}+00' FROM {table} WHERE k = {key}");
        assert_eq!(query(db, &text).await, ["true"], "{table}, {key}: {utc}");
    }
    let count = query(db, &format!("SELECT count(*) FROM {table}")).await;
    assert_eq!(count, [expected.len().to_string()], "{table}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_are_read_in_the_zone_of_the_session() {
    let (_dir, db) = berlin().await;
    for (table, key) in [("p", ""), ("q", " PRIMARY KEY")] {
        run(&db, &format!("CREATE TABLE {table} (k int{key}, t timestamptz)")).await;
        let mut expected = Vec::new();
        for (i, (clock, utc)) in CLOCK.iter().enumerate() {
            let cell = match i % 2 {
                0 => format!("'{clock}'"),
                _ => format!("TIMESTAMPTZ '{clock}'"),
            };
            run(&db, &format!("INSERT INTO {table} VALUES ({i}, {cell})")).await;
            // Rows that are planned as a query.
            let (one, two) = (100 + i, 200 + i);
            run(
                &db,
                &format!("INSERT INTO {table} SELECT {one}, concat('{clock}', '')"),
            )
            .await;
            run(
                &db,
                &format!("INSERT INTO {table} VALUES ({two}, {cell}), (300 + {i}, {cell})"),
            )
            .await;
            expected.extend([(i, *utc), (one, *utc), (two, *utc), (300 + i, *utc)]);
        }
        holds(&db, table, &expected).await;
        run(&db, &format!("UPDATE {table} SET t = '2024-06-01 12:00:00'")).await;
        let all_noon: Vec<(usize, &str)> = expected.iter().map(|(key, _)| (*key, NOON)).collect();
        holds(&db, table, &all_noon).await;
        run(
            &db,
            &format!("UPDATE {table} SET t = TIMESTAMP '2024-01-01 12:00:00' WHERE k = 0"),
        )
        .await;
        let winter = format!("SELECT t = TIMESTAMPTZ '2024-01-01 11:00:00Z' FROM {table} WHERE k = 0");
        assert_eq!(query(&db, &winter).await, ["true"]);
    }
    run(
        &db,
        "INSERT INTO q VALUES (0, NULL) ON CONFLICT (k) DO UPDATE SET t = '2024-06-01 12:00:00'",
    )
    .await;
    let noon = format!("SELECT t = TIMESTAMPTZ '{NOON}Z' FROM q WHERE k = 0");
    assert_eq!(query(&db, &noon).await, ["true"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_parameters_and_new_tables_are_read_in_the_zone_of_the_session() {
    let (_dir, db) = berlin().await;
    for (table, key) in [("p", ""), ("q", " PRIMARY KEY")] {
        run(
            &db,
            &format!("CREATE TABLE {table} (k int{key}, t timestamptz DEFAULT '2024-06-01 12:00:00')"),
        )
        .await;
        run(&db, &format!("INSERT INTO {table} (k) VALUES (1)")).await;
        run(
            &db,
            &format!("PREPARE add_{table} AS INSERT INTO {table} VALUES ($1, $2)"),
        )
        .await;
        run(&db, &format!("EXECUTE add_{table} (2, '2024-06-01 12:00:00')")).await;
        run(
            &db,
            &format!("ALTER TABLE {table} ADD COLUMN u timestamptz DEFAULT '2024-06-01 12:00:00'"),
        )
        .await;
        holds(&db, table, &[(1, NOON), (2, NOON)]).await;
        let added = format!("SELECT count(*) FROM {table} WHERE u = t");
        assert_eq!(query(&db, &added).await, ["2"]);
    }
    run(
        &db,
        "CREATE TABLE r (k int PRIMARY KEY, t timestamptz) AS SELECT 1, '2024-06-01 12:00:00'",
    )
    .await;
    holds(&db, "r", &[(1, NOON)]).await;
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["2024-06-01 12:00:00"]));
    let keys: ArrayRef = Arc::new(arrow_array::Int32Array::from(vec![3]));
    let batch = RecordBatch::try_from_iter([("k", keys), ("t", texts)]).unwrap();
    for table in ["p", "q"] {
        db.insert(table, &batch).unwrap();
        holds(&db, table, &[(1, NOON), (2, NOON), (3, NOON)]).await;
    }
}

fn files(dir: &TempDir) -> [PathBuf; 2] {
    let text = dir.path().join("times.csv");
    let lines = CLOCK.iter().enumerate();
    let lines = lines.map(|(i, (clock, _))| format!("{i},{clock}\n"));
    std::fs::write(&text, format!("k,t\n{}", lines.collect::<String>())).unwrap();
    let parquet = dir.path().join("times.parquet");
    let micros = 1_717_243_200_000_000;
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![micros]));
    let keys: ArrayRef = Arc::new(arrow_array::Int32Array::from(vec![0]));
    write_parquet(
        &parquet,
        [RecordBatch::try_from_iter([("k", keys), ("t", times)]).unwrap()],
    );
    [text, parquet]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_from_reads_in_the_zone_of_the_session_and_import_in_utc() {
    let (dir, db) = berlin().await;
    let [text, parquet] = files(&dir);
    let expected: Vec<(usize, &str)> = CLOCK.iter().enumerate().map(|(i, (_, utc))| (i, *utc)).collect();
    for (table, key) in [("p", ""), ("q", " PRIMARY KEY")] {
        let create = format!("CREATE TABLE {table} (k int{key}, t timestamptz)");
        run(&db, &create).await;
        run(&db, &format!("COPY {table} FROM '{}'", text.display())).await;
        holds(&db, table, &expected).await;
        run(&db, &format!("TRUNCATE TABLE {table}")).await;
        run(&db, &format!("COPY {table} FROM '{}'", parquet.display())).await;
        holds(&db, table, &[(0, NOON)]).await;
        for (zone, utc) in [
            (None, "2024-06-01 12:00:00"),
            (Some("Asia/Tokyo".parse().unwrap()), "2024-06-01 03:00:00"),
        ] {
            for file in [&text, &parquet] {
                run(&db, &format!("TRUNCATE TABLE {table}")).await;
                let options = ImportOptions::default().with_append(true).with_time_zone(zone);
                let (files, cancel) = ([file.clone()], AtomicBool::new(false));
                db.import(table, &files, &options, &mut |_| (), &cancel).unwrap();
                let same = format!("SELECT t = TIMESTAMPTZ '{utc}+00' FROM {table} WHERE k = 0");
                assert_eq!(query(&db, &same).await, ["true"], "{utc}");
            }
        }
    }
}
