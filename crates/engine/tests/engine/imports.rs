//! Imports into a pool: all formats give the same table, and a malformed file leaves the pool as it was.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_ipc::writer::FileWriter;
use halocline_engine::{
    Database, DatabaseOptions, EngineError, ImportFault, ImportFormat, ImportOptions, SourceLocation,
    TableEncoding,
};
use halocline_workloads::TpchTable;

use super::support::{error, import, new_pool, query, run, write_parquet};

fn try_import(
    db: &Database,
    table: &str,
    files: &[PathBuf],
    options: &ImportOptions,
) -> Result<u64, EngineError> {
    db.import(table, files, options, &mut |_| (), &AtomicBool::new(false))
        .map(|report| report.rows)
}

/// `orders` in every format.
fn orders(dir: &Path) -> Vec<PathBuf> {
    let batches: Vec<_> = TpchTable::Orders
        .reader(0.001, 0, 1)
        .map(Result::unwrap)
        .collect();
    let path = |name: &str| dir.join(name);
    write_parquet(&path("orders.parquet"), batches.iter().cloned());
    let mut arrow =
        FileWriter::try_new(File::create(path("orders.arrow")).unwrap(), &batches[0].schema()).unwrap();
    let (mut csv, mut tbl) = (String::new(), String::new());
    let names: Vec<String> = batches[0]
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    csv.push_str(&(names.join(",") + "\n"));
    for batch in &batches {
        arrow.write(batch).unwrap();
        for line in super::support::lines(std::slice::from_ref(batch)) {
            tbl.push_str(&(line.clone() + "|\n"));
            let quoted: Vec<String> = line.split('|').map(|v| format!("\"{v}\"")).collect();
            csv.push_str(&(quoted.join(",") + "\n"));
        }
    }
    arrow.finish().unwrap();
    File::create(path("orders.csv"))
        .unwrap()
        .write_all(csv.as_bytes())
        .unwrap();
    File::create(path("orders.tbl"))
        .unwrap()
        .write_all(tbl.as_bytes())
        .unwrap();
    ["orders.parquet", "orders.arrow", "orders.csv", "orders.tbl"]
        .map(path)
        .to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_formats_give_the_same_rows() {
    let (dir, db) = new_pool();
    let mut answers = Vec::new();
    for file in orders(dir.path()) {
        assert_eq!(import(&db, "orders", std::slice::from_ref(&file)).rows, 1500);
        let text = "SELECT o_orderkey, o_custkey, o_orderstatus, cast(o_totalprice AS decimal(15,2)), o_orderdate, o_clerk, o_comment FROM orders ORDER BY 1";
        answers.push((file, query(&db, text).await));
        run(&db, "DROP TABLE orders").await;
    }
    for (file, answer) in &answers[1..] {
        assert_eq!(answer, &answers[0].1, "{}", file.display());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_files_make_one_table() {
    let (dir, db) = new_pool();
    let files = orders(dir.path());
    assert_eq!(
        import(&db, "orders", &[files[0].clone(), files[1].clone()]).rows,
        3000
    );
    assert_eq!(
        query(&db, "SELECT count(*), count(DISTINCT o_orderkey) FROM orders").await,
        ["3000|1500"]
    );
    let again = try_import(&db, "orders", &files[..1], &ImportOptions::default())
        .unwrap_err()
        .to_string();
    assert_eq!(
        again,
        "table 'orders' exists already; drop it first, or import into a table of another name"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_malformed_file_leaves_the_pool_as_it_was() {
    let (dir, db) = new_pool();
    run(&db, "CREATE TABLE kept AS SELECT 1 AS i").await;
    let generation = db.info().unwrap().pool.generation;
    let good = orders(dir.path());
    for (at, file) in good.iter().enumerate() {
        let bytes = std::fs::read(file).unwrap();
        let bad = dir
            .path()
            .join(format!("bad.{}", file.extension().unwrap().display()));
        std::fs::write(&bad, &bytes[..bytes.len() * 3 / 4]).unwrap();
        let error = try_import(
            &db,
            "orders",
            &[file.clone(), bad.clone()],
            &ImportOptions::default(),
        )
        .unwrap_err();
        let EngineError::Import(fault) = &error else {
            panic!("{error}")
        };
        assert_eq!(fault.file, bad, "{error}");
        let expected_line = at >= 2;
        assert_eq!(
            matches!(fault.place, SourceLocation::Line(_)),
            expected_line,
            "{error}"
        );
        let info = db.info().unwrap();
        assert_eq!(
            (info.tables.len(), info.pool.generation),
            (1, generation),
            "{error}"
        );
    }
    assert!(db.check(&mut |_| ()).unwrap().problems.is_empty());
    assert_eq!(import(&db, "orders", &good[..1]).rows, 1500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn types_beyond_the_sample_are_found() {
    let (dir, db) = new_pool();
    let path = dir.path().join("x.csv");
    std::fs::write(&path, "a,b\n1,2\n3,4\n5,six\n").unwrap();
    let options = ImportOptions::default().with_sample_rows(Some(1));
    assert_eq!(
        try_import(&db, "x", std::slice::from_ref(&path), &options).unwrap(),
        3
    );
    assert_eq!(
        query(&db, "SELECT a, b FROM x ORDER BY a").await,
        ["1|2", "3|4", "5|six"]
    );
    let schema = Some(halocline_engine::parse_schema("a int, b int").unwrap());
    let options = ImportOptions::default().with_schema(schema);
    let error = try_import(&db, "y", &[path], &options).unwrap_err().to_string();
    assert!(
        error.ends_with("x.csv, line 4, column b: 'six' is not a value of type int"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_can_be_cancelled() {
    let (dir, db) = new_pool();
    let files = orders(dir.path());
    let cancel = AtomicBool::new(false);
    let options = ImportOptions::default().with_batch_rows(100);
    let mut stop = |_: &halocline_engine::ImportProgress| cancel.store(true, Ordering::Relaxed);
    let result = db.import("orders", &files[..1], &options, &mut stop, &cancel);
    assert!(matches!(result, Err(EngineError::Cancelled)), "{result:?}");
    assert!(db.info().unwrap().tables.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_table_cannot_hold_is_told_with_its_column() {
    let (dir, db) = new_pool();
    let path = dir.path().join("wide.csv");
    let digits = "1234567890123456789012345678901234567";
    std::fs::write(&path, format!("d\n{digits}.5\n{digits}8.5\n")).unwrap();
    let schema = Some(halocline_engine::parse_schema("d decimal(38,1)").unwrap());
    let options = ImportOptions::default()
        .with_schema(schema)
        .with_format(ImportFormat::Csv);
    let EngineError::Import(error) = try_import(&db, "t", &[path], &options).unwrap_err() else {
        panic!()
    };
    assert_eq!(error.column.as_deref(), Some("d"));
    assert!(
        error.to_string().contains("line 3") && error.to_string().contains("decimal(38,1)"),
        "{error}"
    );
    let path = dir.path().join("list.parquet");
    let lists =
        arrow_array::ListArray::from_iter_primitive::<arrow_array::types::Int32Type, _, _>([Some([Some(1)])]);
    write_parquet(
        &path,
        [arrow_array::RecordBatch::try_from_iter([("l", std::sync::Arc::new(lists) as _)]).unwrap()],
    );
    let EngineError::Import(error) = try_import(&db, "t", &[path], &ImportOptions::default()).unwrap_err()
    else {
        panic!()
    };
    assert!(matches!(error.fault, ImportFault::UnsupportedType(_)), "{error}");
    assert!(matches!(
        try_import(&db, "t", &[], &ImportOptions::default()),
        Err(EngineError::Query(_))
    ));
}

/// A sort on import is that of the table, however little memory there is; plain columns give the same
/// answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn imports_are_sorted_and_stored_as_asked() {
    let (dir, db) = new_pool();
    let file = orders(dir.path()).swap_remove(0);
    let small = DatabaseOptions::default().with_memory(Some(32 << 20));
    let little = Database::create(&dir.path().join("little.pool"), &small).unwrap();
    let options = ImportOptions::default()
        .with_cluster(vec!["o_orderdate".into(), "o_orderkey".into()])
        .with_encoding(TableEncoding::Plain);
    import(&db, "orders", std::slice::from_ref(&file));
    for (name, db) in [("sorted", &db), ("sorted", &little)] {
        assert_eq!(
            try_import(db, name, std::slice::from_ref(&file), &options).unwrap(),
            1500
        );
    }
    let expected = query(&db, "SELECT * FROM orders ORDER BY o_orderdate, o_orderkey").await;
    assert_eq!(query(&db, "SELECT * FROM sorted").await, expected);
    assert_eq!(query(&little, "SELECT * FROM sorted").await, expected);
    let tables = db.info().unwrap().tables;
    let sorted = tables.iter().find(|table| table.name == "sorted").unwrap();
    assert_eq!(sorted.cluster, ["o_orderdate", "o_orderkey"]);
    let encoding = |name: &str| {
        let column = sorted.columns.iter().find(|column| column.name == name);
        column.unwrap().encoding.as_str()
    };
    assert_eq!(
        (encoding("o_orderkey"), encoding("o_orderstatus")),
        ("plain", "dictionary, plain")
    );
    let again = options.clone().with_append(true).with_cluster(vec![]);
    assert_eq!(
        try_import(&db, "sorted", std::slice::from_ref(&file), &again).unwrap(),
        1500
    );
    for (cluster, table, part) in [
        (
            vec!["o_orderkey".to_string()],
            "sorted",
            "sorted by o_orderdate, o_orderkey",
        ),
        (vec![], "orders", "has the encoding chosen"),
        (vec!["o_orderkey".to_string()], "orders", "kept as they came"),
    ] {
        let options = again.clone().with_cluster(cluster);
        let error = try_import(&db, table, std::slice::from_ref(&file), &options).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    run(&db, "CREATE TABLE made WITH (sort = 'o_orderdate, o_orderkey', encoding = 'plain') AS SELECT * FROM orders").await;
    assert_eq!(query(&db, "SELECT * FROM made").await, expected);
    assert_eq!(db.check(&mut |_| ()).unwrap().problems.len(), 0);
}

/// Whatever the sample says, no value changes: a later one makes the import start over with all values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_beyond_the_sample_do_not_change() {
    let (dir, db) = new_pool();
    let path = dir.path().join("x.csv");
    std::fs::write(
        &path,
        "id,zip,n,t\n1,10115,1.50,true\n2,99999,2.75,false\n3,02139,10.5,True\n",
    )
    .unwrap();
    let options = ImportOptions::default().with_sample_rows(Some(2));
    let report = db
        .import(
            "x",
            std::slice::from_ref(&path),
            &options,
            &mut |_| (),
            &AtomicBool::new(false),
        )
        .unwrap();
    assert_eq!(
        query(&db, "SELECT id, zip, n, t FROM x ORDER BY id").await,
        [
            "1|10115|1.500000000e0|true",
            "2|99999|2.750000000e0|false",
            "3|02139|1.050000000e1|True"
        ]
    );
    let columns: Vec<String> = report.columns.iter().map(ToString::to_string).collect();
    assert_eq!(
        columns,
        [
            "id bigint: line 2: \"1\"",
            "zip varchar: line 4: \"02139\"",
            "n double: line 4: \"10.5\"",
            "t varchar: line 4: \"True\"",
        ]
    );
    assert_eq!(report.dialects.len(), 1);
}

/// A query over a CSV file sees the values that an import would store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_reads_csv_files_as_an_import_does() {
    let (dir, db) = new_pool();
    let path = dir.path().join("x.csv");
    std::fs::write(&path, "id;zip;note\n1;02139;\"\"\n2;10115;\n3;+1;\"a;b\"\n").unwrap();
    let file = path.display();
    let rows = ["1|02139|", "2|10115|NULL", "3|+1|a;b"];
    assert_eq!(
        query(&db, &format!("SELECT * FROM '{file}' ORDER BY id")).await,
        rows
    );
    assert_eq!(
        query(
            &db,
            &format!("SELECT count(*), max(id) FROM '{file}' WHERE id > 1")
        )
        .await,
        ["2|3"]
    );
    run(&db, &format!("CREATE TABLE made AS SELECT * FROM '{file}'")).await;
    assert_eq!(query(&db, "SELECT * FROM made ORDER BY id").await, rows);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_tells_null_and_the_empty_text_apart() {
    let (dir, db) = new_pool();
    let file = |name: &str| dir.path().join(name);
    run(&db, "CREATE TABLE t (id INT, s VARCHAR, u VARCHAR)").await;
    run(
        &db,
        "INSERT INTO t VALUES (1, '', NULL), (2, NULL, ''), (3, 'a,\"b', ''), \
         (4, '\u{E000}\u{E000}\u{E000}\u{E000}', ''), (NULL, '\"\"', 'x\n\"\"\ny')",
    )
    .await;
    let copied = |query: &str, name: &str| format!("COPY ({query}) TO '{}'", file(name).display());
    query(&db, &copied("SELECT * FROM t ORDER BY id NULLS LAST", "t.csv")).await;
    let text = std::fs::read_to_string(file("t.csv")).unwrap();
    let expected = "id,s,u\n1,\"\",\n2,,\"\"\n3,\"a,\"\"b\",\"\"\n\
        4,\u{E000}\u{E000}\u{E000}\u{E000},\"\"\n,\"\"\"\"\"\",\"x\n\"\"\"\"\ny\"\n";
    assert_eq!(text, expected);
    run(&db, "CREATE TABLE v (id INT, s VARCHAR, u VARCHAR)").await;
    run(&db, &format!("COPY v FROM '{}'", file("t.csv").display())).await;
    let differ = "SELECT count(*) FROM (SELECT * FROM t EXCEPT ALL SELECT * FROM v) AS d";
    assert_eq!(query(&db, differ).await, ["0"]);
    // Other files are as they were, and a null of one's own is written as given.
    query(&db, &copied("SELECT 1 AS a, CAST(NULL AS VARCHAR) AS b", "n.csv")).await;
    assert_eq!(std::fs::read_to_string(file("n.csv")).unwrap(), "a,b\n1,\n");
    let given =
        copied("SELECT 1 AS a, CAST(NULL AS VARCHAR) AS b", "g.csv") + " OPTIONS (format.null_value 'NA')";
    query(&db, &given).await;
    assert_eq!(std::fs::read_to_string(file("g.csv")).unwrap(), "a,b\n1,NA\n");
    query(
        &db,
        &copied("SELECT s FROM t WHERE id < 4 ORDER BY id", "one.csv"),
    )
    .await;
    assert_eq!(
        std::fs::read_to_string(file("one.csv")).unwrap(),
        "s\n\"\"\n\n\"a,\"\"b\"\n"
    );
    run(&db, "CREATE TABLE o (s VARCHAR)").await;
    run(&db, &format!("COPY o FROM '{}'", file("one.csv").display())).await;
    assert_eq!(
        query(&db, "SELECT s, s IS NULL FROM o ORDER BY s NULLS FIRST").await,
        ["NULL|true", "|false", "a,\"b|false"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_a_query_keep_their_values_wherever_they_are_named() {
    let (dir, db) = new_pool();
    let folder = dir.path().join("parts");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(
        folder.join("a.csv"),
        "zip,n,big\n02139,1,9223372036854775808\n10115,2,5\n",
    )
    .unwrap();
    std::fs::write(folder.join("b.csv"), "zip,n,big\n00501,3,7\n").unwrap();
    let expected = ["00501|3|7", "02139|1|9223372036854775808", "10115|2|5"];
    let folder = folder.display();
    let rows = "SELECT zip, n, big FROM e ORDER BY zip";
    assert_eq!(
        query(&db, &rows.replace(" e ", &format!(" '{folder}/*.csv' "))).await,
        expected
    );
    for (place, options) in [
        (format!("{folder}/*.csv"), ""),
        (
            format!("{folder}/"),
            "OPTIONS ('format.has_header' 'true', 'format.delimiter' ',')",
        ),
        // One that only DataFusion knows.
        (
            format!("{folder}/"),
            "OPTIONS ('format.has_header' 'true', 'format.newlines_in_values' 'true')",
        ),
    ] {
        run(
            &db,
            &format!("CREATE OR REPLACE EXTERNAL TABLE e STORED AS CSV LOCATION '{place}' {options}"),
        )
        .await;
        assert_eq!(query(&db, rows).await, expected, "{place} {options}");
    }
    run(
        &db,
        &format!("CREATE EXTERNAL TABLE IF NOT EXISTS e STORED AS CSV LOCATION '{folder}/a.csv'"),
    )
    .await;
    assert_eq!(query(&db, "SELECT count(*) FROM e").await, ["3"]);
    run(
        &db,
        &format!("CREATE OR REPLACE EXTERNAL TABLE e STORED AS CSV LOCATION '{folder}/'"),
    )
    .await;
    assert_eq!(
        query(&db, "SELECT sum(n), max(big) FROM e").await,
        ["6|9223372036854775808"]
    );
    let again = error(
        &db,
        &format!("CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{folder}/'"),
    )
    .await;
    assert!(again.contains("exists"), "{again}");
    run(&db, "DROP TABLE e").await;
}
