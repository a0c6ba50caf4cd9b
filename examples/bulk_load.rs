//! Loading files: a CSV file and a Parquet file become one table, with progress; a file with a value that
//! does not fit is refused as a whole.
//!
//! `cargo run --release -p halocline --example bulk_load`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::fmt::Write;
use std::sync::atomic::AtomicBool;

use halocline::{Database, DatabaseOptions, ImportOptions, ImportProgress, ImportReport};

const ROWS: usize = 200_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let (csv, parquet) = (
        directory.path().join("first.csv"),
        directory.path().join("more.parquet"),
    );
    let mut text = String::from("id,city,price\n");
    for id in 0..ROWS {
        writeln!(
            text,
            "{id},{},{}.{:02}",
            ["Paris", "Lima", ""][id % 3],
            id % 900,
            id % 100
        )?;
    }
    std::fs::write(&csv, text)?;

    let db = Database::create(&directory.path().join("shop.pool"), &DatabaseOptions::default())?;
    // The types are inferred: a column is a number only if each of its values prints the same again.
    let report = import(&db, &csv, false)?;
    println!(
        "{} rows of {} columns from CSV",
        report.rows,
        report.columns.len()
    );

    // COPY writes a Parquet file, which is then appended to the table.
    let copy = format!(
        "COPY (SELECT id + {ROWS} AS id, city, price FROM sales) TO '{}'",
        parquet.display()
    );
    db.sql(&copy).await?.collect().await?;
    let report = import(&db, &parquet, true)?;
    println!("{} rows from Parquet", report.rows);

    // All or nothing: the error names the file, the line and the column, and the table is as it was.
    std::fs::write(&csv, "id,city,price\n1,Rome,3.50\nmany,Rome,4.00\n")?;
    println!(
        "refused: {}",
        import(&db, &csv, true).expect_err("a text in a column of numbers")
    );
    let table = &db.info()?.tables[0];
    assert_eq!(table.rows, 2 * ROWS as u64);
    println!(
        "table {}: {} rows in {} bytes",
        table.name, table.rows, table.bytes
    );
    Ok(())
}

fn import(db: &Database, file: &std::path::Path, append: bool) -> Result<ImportReport, Box<dyn Error>> {
    let options = ImportOptions::default().with_append(append);
    let mut progress = |progress: &ImportProgress| {
        print!(
            "\r{} rows, {} of {} bytes ",
            progress.rows, progress.bytes, progress.total_bytes
        );
    };
    // Another thread can end the import by setting this.
    let cancel = AtomicBool::new(false);
    Ok(db.import("sales", &[file.to_owned()], &options, &mut progress, &cancel)?)
}
