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
        let schema = table.schema();
        let names = |columns: &[usize]| -> Vec<&str> {
            let columns = columns.iter();
            columns.map(|at| schema.field(*at).name().as_str()).collect()
        };
        let sorted = |mut names: Vec<&str>| -> Vec<String> {
            names.sort_unstable();
            names.into_iter().map(str::to_owned).collect()
        };
        let given: Vec<&str> = named.iter().map(String::as_str).collect();
        let wanted = sorted(given.clone());
        let key = names(table.definition().key());
        if sorted(key.clone()) == wanted {
            return Ok(Self::Key);
        }
        let mut unique = table.unique().iter();
        if let Some(position) = unique.position(|constraint| sorted(names(constraint.columns())) == wanted) {
            return Ok(Self::Unique(position));
        }
        let mut text = format!(
            "INSERT INTO {}: ON CONFLICT ({}) does not name the primary key, which is ({})",
            table.name(),
            given.join(", "),
            key.join(", ")
        );
        for constraint in table.unique() {
            text += &format!(", nor UNIQUE ({})", names(constraint.columns()).join(", "));
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
