//! A model of the tables.

use std::collections::BTreeMap;

use crate::script::Statement;

/// Rows by `id`: the other columns, as text.
pub(crate) type Rows = BTreeMap<i64, Vec<String>>;

/// One table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// Names of the columns, `id` first.
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Rows,
    /// Names of its indexes, sorted.
    pub(crate) indexes: Vec<String>,
}

/// Tables by name.
pub(crate) type Tables = BTreeMap<String, Table>;

/// The tables as committed, and as the open transaction sees them.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    committed: Tables,
    open: Option<Tables>,
}

/// The text of a new row.
pub(crate) fn text(id: i64) -> String {
    format!("row {id}")
}

impl Model {
    /// Two empty tables: `t`, and `k`, which has a primary key.
    pub(crate) fn new() -> Self {
        let empty = Table {
            columns: ["id", "v", "s"].map(str::to_owned).to_vec(),
            ..Table::default()
        };
        Self {
            committed: ["t", "k"].map(|name| (name.to_owned(), empty.clone())).into(),
            open: None,
        }
    }

    pub(crate) fn committed(&self) -> &Tables {
        &self.committed
    }

    /// The rows that the next statement sees.
    pub(crate) fn seen(&self) -> &Tables {
        self.open.as_ref().unwrap_or(&self.committed)
    }

    pub(crate) fn in_transaction(&self) -> bool {
        self.open.is_some()
    }

    /// The program has ended, and with it its transaction.
    pub(crate) fn roll_back(&mut self) {
        self.open = None;
    }

    pub(crate) fn apply(&mut self, statement: &Statement) {
        match statement {
            Statement::Begin => self.open = Some(self.committed.clone()),
            Statement::Commit => self.committed = self.open.take().unwrap(),
            Statement::Rollback => self.open = None,
            Statement::Vacuum { .. } => {}
            other => change(self.open.as_mut().unwrap_or(&mut self.committed), other),
        }
    }
}

fn change(tables: &mut Tables, statement: &Statement) {
    if let Statement::CopyTable = statement {
        let mut copy = tables["t"].clone();
        copy.indexes.clear();
        tables.insert("u".to_owned(), copy);
        return;
    }
    if let Statement::DropTable = statement {
        tables.remove("u");
        return;
    }
    if let Statement::Keyed(keyed) = statement {
        keyed.apply(&mut tables.get_mut("k").unwrap().rows);
        return;
    }
    let t = tables.get_mut("t").unwrap();
    match statement {
        Statement::Insert { first, rows, default }
        | Statement::InsertMany { first, rows, default }
        | Statement::Copy {
            first, rows, default, ..
        } => {
            for id in *first..*first + *rows {
                let mut values = vec![(id % 7).to_string(), text(id)];
                values.extend(default.clone());
                t.rows.insert(id, values);
            }
        }
        Statement::DeleteRange { from, to } => t.rows.retain(|id, _| !(*from..*to).contains(id)),
        Statement::DeleteEvery { modulus } => t.rows.retain(|id, _| id % modulus != 0),
        Statement::Update { from, to } => {
            for (_, values) in t.rows.range_mut(*from..*to) {
                values[0] = (values[0].parse::<i64>().unwrap() + 1000).to_string();
            }
        }
        Statement::Truncate => t.rows.clear(),
        Statement::AddColumn { name, default } => {
            t.columns.push(name.clone());
            t.rows
                .values_mut()
                .for_each(|values| values.push(default.to_string()));
        }
        Statement::RenameColumn { from, to } => {
            let column = t.columns.iter_mut().find(|name| *name == from).unwrap();
            column.clone_from(to);
        }
        Statement::CreateIndex { name } => {
            t.indexes.push(name.clone());
            t.indexes.sort();
        }
        Statement::DropIndex { name } => t.indexes.retain(|index| index != name),
        Statement::Begin
        | Statement::Commit
        | Statement::Rollback
        | Statement::Vacuum { .. }
        | Statement::CopyTable
        | Statement::DropTable
        | Statement::Keyed(_) => unreachable!("not a change of t"),
    }
}

/// Describes the differences in a few lines.
pub(crate) fn difference(expected: &Tables, found: &Tables) -> String {
    let mut text = format!(
        "tables {:?} expected, {:?} found\n",
        expected.keys(),
        found.keys()
    );
    for (name, table) in expected {
        let Some(other) = found.get(name) else { continue };
        text += &format!(
            "{name}: {:?} {:?} {} rows expected, {:?} {:?} {} rows found\n",
            table.columns,
            table.indexes,
            table.rows.len(),
            other.columns,
            other.indexes,
            other.rows.len()
        );
        let differs = |id: &&i64| table.rows.get(id) != other.rows.get(id);
        for id in table.rows.keys().chain(other.rows.keys()).filter(differs).take(5) {
            text += &format!("  {id}: {:?}, {:?}\n", table.rows.get(id), other.rows.get(id));
        }
    }
    text
}
