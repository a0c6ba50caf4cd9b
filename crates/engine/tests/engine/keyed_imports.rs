//! Tables with a primary key: many rows, from statements, files and batches.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use halocline_engine::ImportOptions;

use super::support::{new_pool, query, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_are_inserted_and_streamed() {
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (id bigint PRIMARY KEY, v text)").await;
    run(
        &db,
        "INSERT INTO t SELECT i * 3, 'value ' || i FROM generate_series(1, 50000) AS s(i)",
    )
    .await;
    assert_eq!(
        query(&db, "SELECT count(*), min(id), max(id) FROM t").await,
        ["50000|3|150000"]
    );
    assert_eq!(
        query(&db, "SELECT v FROM t WHERE id = 30000").await,
        ["value 10000"]
    );
    let last = query(&db, "SELECT id FROM t WHERE id > 149990").await;
    assert_eq!(last, ["149991", "149994", "149997", "150000"]);
    let sum = query(&db, "SELECT sum(id) FROM t WHERE id BETWEEN 30 AND 60").await;
    assert_eq!(sum, ["495"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_and_batches_are_added() {
    let (dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t (id int PRIMARY KEY, name text NOT NULL, score double DEFAULT 1.5)",
    )
    .await;
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let good = file("good.csv", "id,name,score\n3,c,0.5\n1,a,\n2,\"b, c\",7\n");
    let options = ImportOptions::default();
    let never = std::sync::atomic::AtomicBool::new(false);
    let import = |path: &PathBuf, options: &ImportOptions| {
        db.import("t", std::slice::from_ref(path), options, &mut |_| (), &never)
    };
    let taken = import(&good, &options).unwrap_err().to_string();
    assert!(taken.contains("table 't' exists already"), "{taken}");
    let append = options.clone().with_append(true);
    assert_eq!(import(&good, &append).unwrap().rows, 3);
    let all = "SELECT id, name, score FROM t";
    let rows = ["1|a|NULL", "2|b, c|7.000000000e0", "3|c|5.000000000e-1"];
    assert_eq!(query(&db, all).await, rows);
    let again = file("again.csv", "id,name,score\n4,d,1\n2,b,1\n");
    let twice = import(&again, &append).unwrap_err().to_string();
    assert!(
        twice.contains("primary key (2) already; import into a table without"),
        "{twice}"
    );
    let sorted = import(&again, &append.clone().with_cluster(vec!["name".to_owned()]))
        .unwrap_err()
        .to_string();
    assert!(sorted.contains("in the order of its primary key"), "{sorted}");
    let bad = file("bad.csv", "id,name,score\n4,d,1\nfive,e,1\n");
    let value = import(&bad, &append).unwrap_err().to_string();
    assert!(value.contains("bad.csv") && value.contains('3'), "{value}");
    assert_eq!(query(&db, all).await, rows, "nothing of a failed import is there");
    run(&db, "BEGIN").await;
    let copied = run(
        &db,
        &format!(
            "COPY t FROM '{}'",
            file("more.csv", "id,name,score\n9,z,9\n").display()
        ),
    )
    .await;
    assert_eq!(copied, "copied 1 row");
    assert_eq!(query(&db.session(), "SELECT count(*) FROM t").await, ["3"]);
    run(&db, "COMMIT").await;
    let batch = RecordBatch::try_from_iter([
        ("name", Arc::new(StringArray::from(vec!["n"])) as ArrayRef),
        ("id", Arc::new(Int32Array::from(vec![10]))),
    ])
    .unwrap();
    assert_eq!(db.insert("t", &batch).unwrap(), 1);
    let twice = db.insert("t", &batch).unwrap_err().to_string();
    assert!(twice.contains("primary key (10) already"), "{twice}");
    let found = query(&db, "SELECT id, score FROM t WHERE id > 3").await;
    assert_eq!(found, ["9|9.000000000e0", "10|1.500000000e0"]);
}
