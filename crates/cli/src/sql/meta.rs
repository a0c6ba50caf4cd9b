//! The shell's own commands: `\d`, `\timing`, `\o`, `\echo`, `\help`, `\q`.

use std::io::{self, Write};

use clap::ValueEnum;
use halocline_terminal::CliError;
use halocline_terminal::output::plain_table;
use halocline_terminal::size::{display, grouped};

use super::run::Session;
use crate::args::OutputFormat;
use crate::commands::write_keyed_columns;

/// The text of `\help`.
pub(crate) const HELP: &str = "\
\\d            tables and indexes of the pool
\\d TABLE      columns of a table and its indexes
\\timing       print how long each statement takes, or stop it
\\o FORMAT     answers as table, csv or json
\\echo TEXT    print a text, to tell answers apart
\\help         this text
\\q            end (also Ctrl-D)

Statements end with a semicolon. Besides SELECT:
  CREATE TABLE t (a int NOT NULL, b text)  CREATE TABLE t AS SELECT …
  INSERT INTO t VALUES (1, 'x'), …         INSERT INTO t SELECT …
  UPDATE t SET b = 'y' WHERE a = 1         DELETE FROM t WHERE a = 1
  COPY t FROM 'data.csv'                   COPY t TO 'data.parquet'
  ALTER TABLE t ADD COLUMN c int DEFAULT 0 ALTER TABLE t RENAME COLUMN c TO d
  TRUNCATE t                               DROP TABLE t
  BEGIN                                    COMMIT or ROLLBACK
  VACUUM                                   merges segments, gives space back
  CREATE INDEX i ON t USING elf (a, b)     DROP INDEX i
  SHOW INDEXES                             with what of them is in DRAM
  ALTER INDEX i SET (placement = 'static', dram = '64MiB')
  EXPLAIN SELECT …                         shows whether an index is used, and why not
  ADVISE INDEXES FOR (SELECT …)            proposes indexes, and says why none pays
  SET halocline.index = off | auto | force
  SET halocline.compaction = off | auto
  SET halocline.dram_budget = '256MiB'     for the copies of all indexes
  SET halocline.verify = lazy | off | always   checksums of what queries read
  SET halocline.scrub = '10MiB/s' | off    verifies everything in the background
  SET halocline.lock_wait = '5s'           how long to wait for another writer
Files are read in place: SELECT * FROM 'data.parquet'";

/// Runs a command; false means that the shell is to end.
pub(crate) fn run(session: &mut Session, line: &str) -> Result<bool, CliError> {
    let mut words = line.trim_end_matches(';').split_whitespace();
    let command = words.next().unwrap_or_default();
    let argument = words.next();
    match (command, argument) {
        ("\\q" | "\\quit" | "\\exit", _) => return Ok(false),
        ("\\help" | "\\h" | "\\?", _) => writeln!(io::stdout(), "{HELP}")?,
        ("\\d", None) => describe_pool(session)?,
        ("\\d", Some(name)) => describe_table(session, name)?,
        ("\\timing", _) => {
            session.timing = !session.timing;
            writeln!(
                io::stdout(),
                "timing is {}",
                if session.timing { "on" } else { "off" }
            )?;
        }
        ("\\echo", _) => writeln!(io::stdout(), "{}", line["\\echo".len()..].trim())?,
        ("\\o", Some(format)) => {
            session.style.format = OutputFormat::from_str(format, true).map_err(|_| CliError::Usage {
                message: format!("there is no output format `{format}`"),
                hint: "choose table, csv or json".to_owned(),
            })?;
        }
        _ => {
            return Err(CliError::Usage {
                message: format!("there is no command `{line}`"),
                hint: "\\help lists the commands".to_owned(),
            });
        }
    }
    Ok(true)
}

fn describe_pool(session: &Session) -> Result<(), CliError> {
    let info = session.database.info()?;
    let mut table = plain_table(5);
    table.set_header(["name", "kind", "rows", "in the pool", "columns"]);
    for t in &info.tables {
        let columns: Vec<&str> = t.columns.iter().map(|column| column.name.as_str()).collect();
        table.add_row([
            t.name.clone(),
            "table".to_owned(),
            grouped(t.rows),
            display(t.bytes),
            columns.join(", "),
        ]);
    }
    for t in &info.keyed_tables {
        let columns: Vec<&str> = t.columns.iter().map(|column| column.name.as_str()).collect();
        table.add_row([
            t.name.clone(),
            "table with a primary key".to_owned(),
            grouped(t.rows),
            display(t.bytes),
            columns.join(", "),
        ]);
    }
    for i in &info.indexes {
        table.add_row([
            i.name.clone(),
            format!("index on {}", i.table),
            grouped(i.rows),
            display(i.bytes),
            i.columns.join(", "),
        ]);
    }
    for object in &info.damaged {
        table.add_row([
            object.name.clone(),
            format!("damaged {}", object.kind),
            object.rows.map_or_else(String::new, grouped),
            String::new(),
            object.reason.clone(),
        ]);
    }
    Ok(writeln!(io::stdout(), "{table}")?)
}

fn describe_table(session: &Session, name: &str) -> Result<(), CliError> {
    let info = session.database.info()?;
    if let Some(damaged) = info.damaged.iter().find(|object| object.name == name) {
        return Err(CliError::failed(format!(
            "{} {name} is damaged: {}",
            damaged.kind, damaged.reason
        )));
    }
    if let Some(keyed) = info.keyed_tables.iter().find(|table| table.name == name) {
        return Ok(write_keyed_columns(keyed, &mut io::stdout())?);
    }
    let Some(found) = info.tables.iter().find(|table| table.name == name) else {
        return Err(CliError::with_hint(
            format!("there is no table {name}"),
            "\\d lists the tables",
        ));
    };
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
    let mut out = io::stdout();
    writeln!(out, "{table}")?;
    for index in info.indexes.iter().filter(|index| index.table == name) {
        writeln!(
            out,
            "index {} ({}): {}, placement {}",
            index.name,
            index.columns.join(", "),
            display(index.bytes),
            index.placement_text()
        )?;
    }
    Ok(())
}
