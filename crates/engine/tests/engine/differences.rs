//! "Differences" in docs/sql.md: each line of its tables is run, and the answer is the one that it states.

use std::fs;
use std::path::Path;

use arrow_schema::{DataType, Field, TimeUnit};

use super::support::{error, lines as rows_of, new_pool, query};

/// The heading of the second table, whose lines are files instead of queries.
const FILES: &str = "### CSV files in place";

/// Returns the cells of the rows of the first or the second table below the heading.
fn lines(of_files: bool) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql.md");
    let text = fs::read_to_string(&path).unwrap();
    let section = text.split("\n## Differences\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let (queries, files) = section.split_once(FILES).unwrap();
    let table = if of_files { files } else { queries };
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let cells = |line: &str| {
        let inner = line.trim_matches('|').replace("\\|", "\u{1}");
        inner
            .split('|')
            .map(|cell| cell.trim().replace('\u{1}', "|"))
            .collect()
    };
    rows.map(cells).collect()
}

/// Returns what a cell has in its first pair of backticks.
fn code(cell: &str) -> &str {
    cell.split('`')
        .nth(1)
        .unwrap_or_else(|| panic!("no code in '{cell}'"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_difference_is_as_stated() {
    let (_dir, db) = new_pool();
    let lines = lines(false);
    assert!(lines.len() > 40);
    for cells in lines {
        let (sql, here) = (code(&cells[0]), code(&cells[1]));
        match here.strip_prefix("error: ") {
            Some(part) => {
                let said = error(&db, sql).await;
                assert!(said.contains(part), "{sql}: {said}");
            }
            None => assert_eq!(query(&db, sql).await.join(", "), here, "{sql}"),
        }
    }
}

/// Returns a column with its type in SQL.
fn column(field: &Field) -> String {
    let data_type = match field.data_type() {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int64 => "bigint".to_owned(),
        DataType::UInt64 => "bigint unsigned".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Date32 => "date".to_owned(),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => "timestamp".to_owned(),
        DataType::Decimal128(digits, scale) => format!("decimal({digits},{scale})"),
        DataType::Utf8View => "varchar".to_owned(),
        other => panic!("{other} is none of the types of the table"),
    };
    format!("{} {data_type}", field.name())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_difference_of_csv_files_is_as_stated() {
    let (dir, db) = new_pool();
    let lines = lines(true);
    assert!(lines.len() > 15);
    for (i, cells) in lines.iter().enumerate() {
        let (text, here) = (code(&cells[0]), code(&cells[1]));
        let path = dir.path().join(format!("{i}.csv"));
        fs::write(&path, format!("{}\n", text.replace("\\n", "\n"))).unwrap();
        let sql = format!("SELECT * FROM '{}'", path.display());
        if let Some(part) = here.strip_prefix("error: ") {
            let said = error(&db, &sql).await;
            assert!(said.contains(part), "{text}: {said}");
            continue;
        }
        let batches = db.sql(&sql).await.unwrap().collect().await.unwrap();
        let schema = batches[0].schema();
        let columns: Vec<String> = schema.fields().iter().map(|field| column(field)).collect();
        let found = format!("{}: {}", columns.join(", "), rows_of(&batches).join(", "));
        assert_eq!(found, here, "{text}");
    }
}
