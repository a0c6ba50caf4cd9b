//! What is in the pool: `\d`, `\dt`, `\di`, and `.schema`.

use std::io::Write;

use halocline_engine::ddl;
use halocline_engine::{DatabaseInfo, IndexInfo, TableInfo, ViewInfo};
use halocline_terminal::CliError;
use halocline_terminal::output::plain_table;
use halocline_terminal::size::{display, grouped};

use super::commands::plain;
use super::run::Session;
use super::shell::Flow;
use crate::commands::write_keyed_columns;

/// Lists tables and indexes, or describes the table that the argument names.
pub(super) fn all(session: &Session, argument: &str) -> Result<Flow, CliError> {
    let info = session.database.info()?;
    match name(argument) {
        None => list(
            session,
            rows_of_tables(&info)
                .chain(rows_of_views(&info))
                .chain(rows_of_indexes(&info))
                .chain(damaged(&info)),
        ),
        Some(name) => table(session, &info, &name),
    }
}

/// Lists tables and views.
pub(super) fn tables(session: &Session) -> Result<Flow, CliError> {
    let info = session.database.info()?;
    list(session, rows_of_tables(&info).chain(rows_of_views(&info)))
}

/// Lists indexes.
pub(super) fn indexes(session: &Session) -> Result<Flow, CliError> {
    let info = session.database.info()?;
    list(session, rows_of_indexes(&info))
}

/// Prints the statements that create the tables, their indexes and the views, or those of one of them.
pub(super) fn schema(session: &Session, argument: &str) -> Result<Flow, CliError> {
    let info = session.database.info()?;
    let name = name(argument);
    let is_wanted = |table: &str| name.as_deref().is_none_or(|name| is_named(table, name));
    let tables = info.tables.iter().filter(|table| is_wanted(&table.name));
    let keyed = info.keyed_tables.iter().filter(|table| is_wanted(&table.name));
    let mut statements: Vec<String> = tables.map(ddl::create_table).collect();
    statements.extend(keyed.map(ddl::create_keyed_table));
    // Views may call macros.
    if name.is_none() {
        statements.extend(info.macros.iter().map(|found| format!("{};", found.statement)));
    }
    let views = info.views.iter().filter(|view| is_wanted(&view.name));
    let views: Vec<String> = views.map(statement_of_view).collect();
    if let (Some(name), true) = (&name, statements.is_empty() && views.is_empty()) {
        return Err(no_table(name));
    }
    let indexes = info.indexes.iter().filter(|index| is_wanted(&index.table));
    statements.extend(indexes.map(ddl::create_index));
    statements.extend(views);
    let mut out = session.out();
    for statement in statements {
        writeln!(out, "{statement}")?;
    }
    out.flush()?;
    Ok(Flow::Continue)
}

/// Returns the name that an argument gives, without quotes.
fn name(argument: &str) -> Option<String> {
    let argument = plain(argument);
    let quoted = argument.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let name = quoted.map_or_else(|| argument.to_owned(), |name| name.replace("\"\"", "\""));
    (!name.is_empty()).then_some(name)
}

/// Returns true if a table has a name, in any case of its letters if its own are lower-case.
fn is_named(table: &str, name: &str) -> bool {
    table == name || table == name.to_lowercase()
}

fn no_table(name: &str) -> CliError {
    CliError::with_hint(format!("there is no table {name}"), "\\d lists the tables")
}

type ObjectRow = [String; 5];

fn list(session: &Session, rows: impl Iterator<Item = ObjectRow>) -> Result<Flow, CliError> {
    let mut table = plain_table(5);
    table.set_header(["name", "kind", "rows", "in the pool", "columns"]);
    table.add_rows(rows);
    let mut out = session.out();
    writeln!(out, "{table}")?;
    out.flush()?;
    Ok(Flow::Continue)
}

fn rows_of_tables(info: &DatabaseInfo) -> impl Iterator<Item = ObjectRow> {
    let tables = info.tables.iter().map(|table| {
        let columns = table.columns.iter().map(|column| column.name.as_str());
        (
            &table.name,
            "table",
            table.rows,
            table.bytes,
            columns.collect::<Vec<_>>(),
        )
    });
    let keyed = info.keyed_tables.iter().map(|table| {
        let columns = table.columns.iter().map(|column| column.name.as_str());
        let columns = columns.collect::<Vec<_>>();
        (
            &table.name,
            "table with a primary key",
            table.rows,
            table.bytes,
            columns,
        )
    });
    tables.chain(keyed).map(|(name, kind, rows, bytes, columns)| {
        let columns = columns.join(", ");
        [
            name.clone(),
            kind.to_owned(),
            grouped(rows),
            display(bytes),
            columns,
        ]
    })
}

fn rows_of_views(info: &DatabaseInfo) -> impl Iterator<Item = ObjectRow> {
    info.views.iter().map(|view| {
        [
            view.name.clone(),
            "view".to_owned(),
            String::new(),
            String::new(),
            view.columns.join(", "),
        ]
    })
}

/// Returns the statement that creates a view.
fn statement_of_view(view: &ViewInfo) -> String {
    format!("{};", view.statement)
}

fn rows_of_indexes(info: &DatabaseInfo) -> impl Iterator<Item = ObjectRow> {
    info.indexes.iter().map(|index| {
        [
            index.name.clone(),
            format!("index on {}", index.table),
            grouped(index.rows),
            display(index.bytes),
            index.columns.join(", "),
        ]
    })
}

fn damaged(info: &DatabaseInfo) -> impl Iterator<Item = ObjectRow> {
    info.damaged.iter().map(|object| {
        [
            object.name.clone(),
            format!("damaged {}", object.kind),
            object.rows.map_or_else(String::new, grouped),
            String::new(),
            object.reason.clone(),
        ]
    })
}

fn table(session: &Session, info: &DatabaseInfo, name: &str) -> Result<Flow, CliError> {
    let mut out = session.out();
    if let Some(damaged) = info.damaged.iter().find(|object| is_named(&object.name, name)) {
        return Err(CliError::failed(format!(
            "{} {name} is damaged: {}",
            damaged.kind, damaged.reason
        )));
    }
    let mut keyed = info.keyed_tables.iter();
    if let Some(keyed) = keyed.find(|table| is_named(&table.name, name)) {
        write_keyed_columns(keyed, &mut out)?;
    } else if let Some(found) = info.tables.iter().find(|table| is_named(&table.name, name)) {
        let indexes = info.indexes.iter().filter(|index| index.table == found.name);
        write_columns(found, indexes, &mut out)?;
    } else if let Some(view) = info.views.iter().find(|view| is_named(&view.name, name)) {
        writeln!(out, "{}", statement_of_view(view))?;
    } else if let Some(index) = info.indexes.iter().find(|index| is_named(&index.name, name)) {
        write!(out, "on {}: ", index.table)?;
        write_index(index, &mut out)?;
    } else {
        return Err(no_table(name));
    }
    out.flush()?;
    Ok(Flow::Continue)
}

fn write_columns<'a>(
    found: &TableInfo,
    indexes: impl Iterator<Item = &'a IndexInfo>,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let mut table = plain_table(5);
    table.set_header(["column", "type", "null", "encoding", "in the pool"]);
    for column in &found.columns {
        table.add_row([
            column.name.clone(),
            column.r#type.clone(),
            if column.nullable { "yes" } else { "no" }.to_owned(),
            column.encoding.clone(),
            display(column.bytes),
        ]);
    }
    writeln!(out, "{table}")?;
    for index in indexes {
        write_index(index, out)?;
    }
    Ok(())
}

fn write_index(index: &IndexInfo, out: &mut impl Write) -> Result<(), CliError> {
    Ok(writeln!(
        out,
        "index {} ({}): {}, placement {}",
        index.name,
        index.columns.join(", "),
        display(index.bytes),
        index.placement_text()
    )?)
}
