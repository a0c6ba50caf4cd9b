//! Imports into a pool: all formats give the same table, and a malformed file leaves the pool as it was.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_ipc::writer::FileWriter;
use halocline_engine::{
    Database, DatabaseOptions, EngineError, Format, ImportFault, ImportOptions, Place, TableEncoding,
};
use halocline_workloads::TpchTable;

use super::support::{import, new_pool, query, run, write_parquet};

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
        assert_eq!(matches!(fault.place, Place::Line(_)), expected_line, "{error}");
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
    let options = ImportOptions {
        sample_rows: Some(1),
        ..ImportOptions::default()
    };
    assert_eq!(
        try_import(&db, "x", std::slice::from_ref(&path), &options).unwrap(),
        3
    );
    assert_eq!(
        query(&db, "SELECT a, b FROM x ORDER BY a").await,
        ["1|2", "3|4", "5|six"]
    );
    let schema = Some(ImportOptions::parse_schema("a int, b int").unwrap());
    let options = ImportOptions {
        schema,
        ..ImportOptions::default()
    };
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
    let options = ImportOptions {
        batch_rows: 100,
        ..ImportOptions::default()
    };
    let mut stop = |_: &halocline_engine::ImportProgress| cancel.store(true, Ordering::Relaxed);
    let result = db.import("orders", &files[..1], &options, &mut stop, &cancel);
    assert!(matches!(result, Err(EngineError::Cancelled)), "{result:?}");
    assert!(db.info().unwrap().tables.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_table_cannot_hold_is_told_with_its_column() {
    let (dir, db) = new_pool();
    let path = dir.path().join("wide.csv");
    std::fs::write(&path, "d\n12345678901234567890123.5\n").unwrap();
    let schema = Some(ImportOptions::parse_schema("d decimal(38,1)").unwrap());
    let options = ImportOptions {
        schema,
        format: Format::Csv,
        ..ImportOptions::default()
    };
    let EngineError::Import(error) = try_import(&db, "t", &[path], &options).unwrap_err() else {
        panic!()
    };
    assert_eq!(error.column.as_deref(), Some("d"));
    assert!(
        matches!(error.fault, ImportFault::Other(ref text) if text.contains("64 bits")),
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

/// A sort on import is that of the table, however little memory there is; plain columns give the same answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn imports_are_sorted_and_stored_as_asked() {
    let (dir, db) = new_pool();
    let file = orders(dir.path()).swap_remove(0);
    let small = DatabaseOptions {
        memory: Some(1 << 20),
        ..DatabaseOptions::default()
    };
    let little = Database::create(&dir.path().join("little.pool"), &small).unwrap();
    let options = ImportOptions {
        cluster: vec!["o_orderdate".into(), "o_orderkey".into()],
        encoding: TableEncoding::Plain,
        ..ImportOptions::default()
    };
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
    let again = ImportOptions {
        append: true,
        cluster: vec![],
        ..options.clone()
    };
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
        let options = ImportOptions {
            cluster,
            ..again.clone()
        };
        let error = try_import(&db, table, std::slice::from_ref(&file), &options).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    run(&db, "CREATE TABLE made WITH (sort = 'o_orderdate, o_orderkey', encoding = 'plain') AS SELECT * FROM orders").await;
    assert_eq!(query(&db, "SELECT * FROM made").await, expected);
    assert_eq!(db.check(&mut |_| ()).unwrap().problems.len(), 0);
}
