//! The constraint that `ON CONFLICT` names: the primary key, a unique constraint, or any of them.

use halocline_keyed::{KeyedRow, KeyedTable};
use halocline_sql::EngineError;

use super::keyed_changes::KeyedChanges;

/// The constraints whose violation `ON CONFLICT` handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConflictTarget {
    /// All of them.
    Any,
    /// The primary key.
    Key,
    /// The unique constraint of this position.
    Unique(usize),
}

impl ConflictTarget {
    /// Returns the constraint with these columns, in any order.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn of_columns(table: &KeyedTable, named: &[String]) -> Result<Self, EngineError> {
        let mut wanted: Vec<&str> = named.iter().map(String::as_str).collect();
        let given = wanted.join(", ");
        wanted.sort_unstable();
        let is_wanted = |columns: &[usize]| {
            let mut names = names_of(table, columns);
            names.sort_unstable();
            names == wanted
        };
        let key = table.definition().key();
        if is_wanted(key) {
            return Ok(Self::Key);
        }
        let mut unique = table.unique().iter();
        if let Some(position) = unique.position(|constraint| is_wanted(constraint.columns())) {
            return Ok(Self::Unique(position));
        }
        let mut text = format!(
            "INSERT INTO {}: ON CONFLICT ({given}) does not name the primary key, which is ({})",
            table.name(),
            names_of(table, key).join(", ")
        );
        for constraint in table.unique() {
            text += &format!(
                ", nor UNIQUE ({})",
                names_of(table, constraint.columns()).join(", ")
            );
        }
        Err(EngineError::Query(text))
    }

    /// Returns the key of a row with which a row to insert conflicts: one that was there, or one that the
    /// statement writes unless its changes are spilled.
    ///
    /// # Errors
    /// The store cannot be read; the row is too long; the changes cannot be spilled.
    pub(super) fn owner(
        self,
        row: &KeyedRow,
        changes: &mut KeyedChanges<'_>,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        if self != Self::Key {
            let position = match self {
                Self::Unique(position) => Some(position),
                Self::Any | Self::Key => None,
            };
            for (of, entry) in changes.entries_of(row)? {
                if position.is_none_or(|position| position == of)
                    && let Some(owner) = changes.entry_owner(&entry)?
                {
                    return Ok(Some(owner));
                }
            }
        }
        let has_key = !matches!(self, Self::Unique(_)) && changes.has(&row.key)?;
        Ok(has_key.then(|| row.key.clone()))
    }
}

/// Returns the names of columns.
fn names_of<'a>(table: &'a KeyedTable, columns: &[usize]) -> Vec<&'a str> {
    let columns = columns.iter();
    columns
        .map(|at| table.schema().field(*at).name().as_str())
        .collect()
}
