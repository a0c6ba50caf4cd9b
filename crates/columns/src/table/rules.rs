//! Rules that the rows of a table obey: conditions and lengths. A table only remembers them, for those who
//! make its rows; rows that are written are taken to obey them.
//!
//! Invariant of the durable form, which tables with a primary key share: every rule names its kind, and a
//! program refuses a table with a rule of a kind that it does not know. So new kinds need no new version.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use crate::Result;
use crate::table::table_edit::TableEdit;
use halocline_pool::Txn;
use serde::{Deserialize, Serialize};

/// A rule that each row of a table obeys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "lowercase")]
#[non_exhaustive]
pub enum TableRule {
    /// A condition is not false.
    Check {
        /// The name of the constraint, which no other one of the table has.
        name: String,
        /// The condition, as SQL.
        condition: String,
    },
    /// A text has at most this many characters.
    Length {
        /// The column.
        column: String,
        /// Most characters.
        characters: u64,
    },
    /// No two rows have the same values in some columns, unless one is NULL.
    Unique {
        /// The name of the constraint, which no other one of the table has.
        name: String,
        /// The columns.
        columns: Vec<String>,
        /// The number of the constraint in the store that leads from the values to the rows.
        number: u8,
    },
}

impl TableRule {
    /// Returns the name of a constraint; `None` for a length.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Check { name, .. } | Self::Unique { name, .. } => Some(name),
            Self::Length { .. } => None,
        }
    }
}

/// The rules of a table.
#[derive(Default)]
pub struct TableRules {
    rules: Vec<TableRule>,
    prepared: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl std::fmt::Debug for TableRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.rules).finish()
    }
}

impl PartialEq for TableRules {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules
    }
}

impl From<Vec<TableRule>> for TableRules {
    fn from(rules: Vec<TableRule>) -> Self {
        Self {
            rules,
            prepared: OnceLock::new(),
        }
    }
}

impl TableRules {
    /// Returns the rules.
    pub fn rules(&self) -> &[TableRule] {
        &self.rules
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the most characters of a column of texts, if they are limited.
    pub fn length_of(&self, name: &str) -> Option<u64> {
        self.rules.iter().find_map(|rule| match rule {
            TableRule::Length { column, characters } if column == name => Some(*characters),
            _ => None,
        })
    }

    /// Returns what `prepare` makes of the rules, which is kept with them: they belong to one table whose
    /// columns do not change.
    ///
    /// # Errors
    /// That of `prepare`.
    pub fn prepared<T: Any + Send + Sync, E>(
        &self,
        prepare: impl FnOnce(&[TableRule]) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let kept = self.prepared.get().cloned();
        if let Some(kept) = kept.and_then(|kept| kept.downcast().ok()) {
            return Ok(kept);
        }
        let prepared = Arc::new(prepare(&self.rules)?);
        // Another thread may have been faster, with the same result.
        let _ = self.prepared.set(Arc::<T>::clone(&prepared));
        Ok(prepared)
    }
}

/// Rules as they are stored, as JSON. They belong to the format of the pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredRules(Vec<serde_json::Value>);

impl StoredRules {
    /// Encodes rules.
    pub fn encode(rules: &[TableRule]) -> Self {
        let encoded = rules.iter().filter_map(|rule| serde_json::to_value(rule).ok());
        Self(encoded.collect())
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Decodes the rules; `None` if there is one that this program does not know.
    pub fn decode(&self) -> Option<Vec<TableRule>> {
        let rules = self.0.iter().cloned();
        rules.map(|rule| serde_json::from_value(rule).ok()).collect()
    }
}

/// Sets the rules of a table, in place of those there are. Rows that are there are not looked at.
///
/// # Errors
/// [`NoSuchTable`](crate::ColumnsError::NoSuchTable), [`NewerFormat`](crate::ColumnsError::NewerFormat),
/// [`Damaged`](crate::ColumnsError::Damaged), [`Pool`](crate::ColumnsError::Pool).
pub fn set_rules(txn: &Txn, table: &str, rules: &[TableRule]) -> Result<()> {
    let mut edit = TableEdit::load(txn, table)?;
    edit.meta.rules = StoredRules::encode(rules);
    edit.put(txn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_back_and_unknown_ones_are_noticed() {
        let rules = vec![
            TableRule::Check {
                name: "positive".into(),
                condition: "a > 0".into(),
            },
            TableRule::Length {
                column: "b".into(),
                characters: 3,
            },
            TableRule::Unique {
                name: "u".into(),
                columns: vec!["a".into(), "b".into()],
                number: 1,
            },
        ];
        let stored = StoredRules::encode(&rules);
        let json = r#"[{"rule":"check","name":"positive","condition":"a > 0"},
                       {"rule":"length","column":"b","characters":3},
                       {"rule":"unique","name":"u","columns":["a","b"],"number":1}]"#;
        let back: StoredRules = serde_json::from_str(json).unwrap();
        assert_eq!(stored, back);
        assert_eq!(back.decode(), Some(rules.clone()));
        let rules = TableRules::from(rules);
        assert_eq!((rules.length_of("b"), rules.length_of("a")), (Some(3), None));
        let newer: StoredRules = serde_json::from_str(r#"[{"rule":"odd","name":"x"}]"#).unwrap();
        assert_eq!(newer.decode(), None);
    }
}
