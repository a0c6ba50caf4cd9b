//! The reference in `docs/` lists what the engine has: every statement, every type, every function of its own,
//! every setting with its default.

use std::fs;
use std::path::Path;

use halocline_engine::reference::{SQL_TYPES, STATEMENTS, functions, settings};

use super::support::{new_pool, query, run};

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The part of a document below a heading, up to the next one of the same level or a higher one.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let level = heading.split(' ').next().unwrap();
    let start = text
        .find(&format!("\n{heading}\n"))
        .unwrap_or_else(|| panic!("there is no heading '{heading}'"));
    let body = &text[start + heading.len() + 2..];
    let ends = (1..=level.len()).filter_map(|hashes| body.find(&format!("\n{} ", "#".repeat(hashes))));
    &body[..ends.min().unwrap_or(body.len())]
}

/// The rows of the tables in a text, without headers: their cells.
fn rows(text: &str) -> Vec<Vec<String>> {
    let lines: Vec<&str> = text.lines().collect();
    let is_header = |at: usize| lines.get(at + 1).is_some_and(|next| next.starts_with("|---"));
    let cells = |line: &str| {
        let inner = line.trim_matches('|');
        inner.split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    (0..lines.len())
        .filter(|at| lines[*at].starts_with('|') && !lines[*at].starts_with("|---") && !is_header(*at))
        .map(|at| cells(lines[at]))
        .collect()
}

/// The words of a cell that are set as code.
fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_statement_has_a_heading() {
    let text = document("sql.md");
    let headings: Vec<&str> = section(&text, "## Statements")
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .collect();
    let names: Vec<&str> = STATEMENTS.iter().map(|statement| statement.name).collect();
    assert_eq!(headings, names);
}

#[test]
fn every_type_has_a_row() {
    let text = document("sql.md");
    let rows = rows(section(&text, "## Types"));
    let written: Vec<(Vec<&str>, Vec<&str>)> = rows
        .iter()
        .map(|cells| (code(&cells[0]), code(&cells[1])))
        .collect();
    let listed: Vec<(Vec<&str>, Vec<&str>)> = SQL_TYPES
        .iter()
        .map(|sql| (sql.names.to_vec(), vec![sql.arrow]))
        .collect();
    assert_eq!(written, listed);
}

#[test]
fn every_function_of_its_own_is_described() {
    let text = document("sql.md");
    let section = section(&text, "### Names of DuckDB and PostgreSQL");
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: Vec<&str> = section
        .lines()
        .flat_map(code)
        .flat_map(|code| code.split(|c: char| !is_letter(c)))
        .collect();
    for name in functions() {
        assert!(words.contains(&name.as_str()), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_of_a_function_has_its_result() {
    let (_dir, db) = new_pool();
    let text = document("sql.md");
    let rows = rows(section(&text, "### Names of DuckDB and PostgreSQL"));
    assert!(rows.len() > 25);
    for cells in rows {
        let (call, result) = (code(&cells[0])[0], code(&cells[1])[0]);
        assert_eq!(query(&db, &format!("SELECT {call}")).await, [result], "{call}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_listed_type_can_be_stored() {
    let (_dir, db) = new_pool();
    for (at, name) in SQL_TYPES.iter().flat_map(|sql| sql.names).enumerate() {
        run(&db, &format!("CREATE TABLE t{at} (c {name})")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_setting_has_a_row_with_its_default() {
    let (_dir, db) = new_pool();
    let sql =
        "SELECT name, value FROM information_schema.df_settings WHERE name LIKE 'halocline.%' ORDER BY name";
    let settings = query(&db, sql).await;
    let text = document("settings.md");
    // A default that depends on the machine is written in words.
    let of_machine = |name: &str| {
        let value = settings
            .iter()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('|'));
        value.unwrap_or_default().to_owned()
    };
    let default = |cells: &[String]| match code(&cells[2]).first() {
        Some(default) => (*default).to_owned(),
        None => of_machine(code(&cells[0])[0]),
    };
    let mut written: Vec<String> = rows(section(&text, "## Session settings"))
        .iter()
        .map(|cells| format!("{}|{}", code(&cells[0])[0], default(cells)))
        .collect();
    written.sort();
    assert_eq!(written, settings);
}

/// Returns the text of a cell without marks of code and links.
fn plain(cell: &str) -> String {
    let mut text = String::new();
    let mut rest = cell;
    while let Some((before, link)) = rest.split_once('[') {
        text.push_str(before);
        let (label, address) = link.split_once("](").unwrap_or((link, ")"));
        text.push_str(label);
        rest = address.split_once(')').map_or("", |(_, after)| after);
    }
    (text + rest).replace('`', "")
}

#[test]
fn the_rows_of_settings_are_those_of_the_list() {
    let text = document("settings.md");
    let written: Vec<String> = rows(section(&text, "## Session settings"))
        .iter()
        .map(|cells| plain(&cells.join(" | ")))
        .collect();
    let listed: Vec<String> = settings()
        .map(|row| [&row.name, row.values, row.default, row.scope, row.meaning].join(" | "))
        .collect();
    assert_eq!(written, listed);
}
