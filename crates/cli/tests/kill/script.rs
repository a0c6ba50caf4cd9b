//! Random statements of every kind, and the script they make.

use std::fmt::Write;

use crate::common::Home;
use crate::keyed::KeyedChange;
use crate::model::{Model, text};
use halocline_workloads::SplitMix64;

/// Rows beyond which statements that delete become likely.
const MANY_ROWS: usize = 12_000;
/// Columns that `t` may have.
const MAX_COLUMNS: usize = 6;

/// One statement. `default` are the values that columns added later take in new rows.
#[derive(Debug, Clone)]
pub(crate) enum Statement {
    Begin,
    Commit,
    Rollback,
    /// A few rows: a record of the log.
    Insert {
        first: i64,
        rows: i64,
        default: Vec<String>,
    },
    /// Many rows: a segment.
    InsertMany {
        first: i64,
        rows: i64,
        default: Vec<String>,
    },
    /// Rows from a file.
    Copy {
        file: String,
        first: i64,
        rows: i64,
        default: Vec<String>,
    },
    DeleteRange {
        from: i64,
        to: i64,
    },
    DeleteEvery {
        modulus: i64,
    },
    Update {
        from: i64,
        to: i64,
    },
    Truncate,
    AddColumn {
        name: String,
        default: i64,
    },
    RenameColumn {
        from: String,
        to: String,
    },
    CreateIndex {
        name: String,
    },
    DropIndex {
        name: String,
    },
    CopyTable,
    DropTable,
    Vacuum {
        full: bool,
    },
    /// A change of the table with a primary key.
    Keyed(KeyedChange),
}

impl Statement {
    pub(crate) fn sql(&self) -> String {
        match self {
            Self::Begin => "BEGIN".to_owned(),
            Self::Commit => "COMMIT".to_owned(),
            Self::Rollback => "ROLLBACK".to_owned(),
            Self::Insert { first, rows, default } => {
                let rows: Vec<String> = (*first..*first + *rows)
                    .map(|id| format!("({})", values(id, default, "'")))
                    .collect();
                format!("INSERT INTO t VALUES {}", rows.join(", "))
            }
            Self::InsertMany { first, rows, default } => {
                let more: String = default.iter().map(|value| format!(", {value}")).collect();
                let last = first + rows - 1;
                format!(
                    "INSERT INTO t SELECT i, i % 7, 'row ' || i{more} FROM generate_series({first}, {last}) AS g(i)"
                )
            }
            Self::Copy { file, .. } => format!("COPY t FROM '{file}'"),
            Self::DeleteRange { from, to } => format!("DELETE FROM t WHERE id >= {from} AND id < {to}"),
            Self::DeleteEvery { modulus } => format!("DELETE FROM t WHERE id % {modulus} = 0"),
            Self::Update { from, to } => {
                format!("UPDATE t SET v = v + 1000 WHERE id >= {from} AND id < {to}")
            }
            Self::Truncate => "TRUNCATE t".to_owned(),
            Self::AddColumn { name, default } => {
                format!("ALTER TABLE t ADD COLUMN {name} bigint DEFAULT {default}")
            }
            Self::RenameColumn { from, to } => format!("ALTER TABLE t RENAME COLUMN {from} TO {to}"),
            Self::CreateIndex { name } => format!("CREATE INDEX {name} ON t USING elf (v, id)"),
            Self::DropIndex { name } => format!("DROP INDEX {name}"),
            Self::CopyTable => "CREATE TABLE u AS SELECT * FROM t".to_owned(),
            Self::DropTable => "DROP TABLE u".to_owned(),
            Self::Vacuum { full: false } => "VACUUM".to_owned(),
            Self::Vacuum { full: true } => "VACUUM FULL t".to_owned(),
            Self::Keyed(change) => change.sql(),
        }
    }
}

/// The values of a row, separated by commas.
fn values(id: i64, default: &[String], quote: &str) -> String {
    let mut row = format!("{id}, {}, {quote}{}{quote}", id % 7, text(id));
    for value in default {
        row += &format!(", {value}");
    }
    row
}

/// Writes a script of random statements that all succeed on the model's tables, and the files they read.
pub(crate) fn write(home: &Home, rng: &mut SplitMix64, model: &Model, statements: usize) -> Vec<Statement> {
    let mut model = model.clone();
    let mut script = Vec::new();
    let mut sql = String::new();
    while script.len() < statements {
        let Some(statement) = draw(rng, &model) else {
            continue;
        };
        if let Statement::Copy {
            file,
            first,
            rows,
            default,
        } = &statement
        {
            let header = model.seen()["t"].columns.join(",");
            let lines: Vec<String> = (*first..*first + *rows)
                .map(|id| values(id, default, "").replace(", ", ","))
                .collect();
            home.write(file, format!("{header}\n{}\n", lines.join("\n")));
        }
        model.apply(&statement);
        writeln!(sql, "{};", statement.sql()).unwrap();
        script.push(statement);
    }
    if model.in_transaction() {
        script.push(Statement::Rollback);
        sql += "ROLLBACK;\n";
    }
    home.write("script.sql", sql);
    script
}

/// A random statement; `None` if the one drawn is not possible now.
fn draw(rng: &mut SplitMix64, model: &Model) -> Option<Statement> {
    let t = &model.seen()["t"];
    let ids = t.rows.first_key_value().map_or(0, |(id, _)| *id)
        ..t.rows.last_key_value().map_or(0, |(id, _)| id + 1);
    let span = (ids.end - ids.start) as u64;
    let inside = model.in_transaction();
    let first = ids.end;
    let default = || vec!["5".to_owned(); t.columns.len() - 3];
    let range = |rng: &mut SplitMix64, width: u64| {
        let from = ids.start + rng.below(span.max(1)) as i64;
        (from, from + 1 + rng.below(width) as i64)
    };
    let has_index = !t.indexes.is_empty();
    let has_copy = model.seen().contains_key("u");
    let statement = match rng.below(130) {
        0..24 => Statement::Insert {
            first,
            rows: 1 + rng.below(5) as i64,
            default: default(),
        },
        24..32 => Statement::InsertMany {
            first,
            rows: 1100 + rng.below(2000) as i64,
            default: default(),
        },
        32..37 => {
            // Rows that are gone leave their ids to others: the number alone would not be one file.
            let file = format!("rows-{first}-{}.csv", rng.below(1 << 32));
            Statement::Copy {
                file,
                first,
                rows: 1 + rng.below(1500) as i64,
                default: default(),
            }
        }
        37..49 => {
            let (from, to) = range(rng, 8);
            Statement::DeleteRange { from, to }
        }
        49..53 => {
            let (from, to) = range(rng, 4000);
            Statement::DeleteRange { from, to }
        }
        53..65 => {
            let (from, to) = range(rng, 8);
            Statement::Update { from, to }
        }
        65..69 => {
            let (from, to) = range(rng, 3000);
            Statement::Update { from, to }
        }
        69..72 => Statement::DeleteEvery {
            modulus: if t.rows.len() > MANY_ROWS { 2 } else { 50 },
        },
        72..73 => Statement::Truncate,
        73..75 if t.columns.len() < MAX_COLUMNS => {
            let name = format!("c{}", t.columns.len());
            Statement::AddColumn {
                name,
                default: rng.below(100) as i64,
            }
        }
        75..77 => {
            let from = t.columns[2].clone();
            let to = if from == "s" { "renamed" } else { "s" }.to_owned();
            Statement::RenameColumn { from, to }
        }
        77..79 if !has_index => Statement::CreateIndex { name: "x".to_owned() },
        79..80 if has_index => Statement::DropIndex {
            name: t.indexes[0].clone(),
        },
        80..82 if !has_copy => Statement::CopyTable,
        82..85 if has_copy => Statement::DropTable,
        85..89 if !inside => Statement::Vacuum {
            full: rng.below(3) == 0,
        },
        89..94 if !inside => Statement::Begin,
        94..98 if inside => Statement::Commit,
        98..100 if inside => Statement::Rollback,
        100..130 => Statement::Keyed(KeyedChange::draw(rng, &model.seen()["k"].rows, inside)?),
        _ => return None,
    };
    Some(statement)
}
