//! Names of columns and relations that the rewriting adds to a plan, unique within the plan.

use datafusion::common::{Column, TableReference};

/// Numbers below are those of common table expressions.
const FIRST_NUMBER: usize = 1 << 32;

/// Generates names for one plan.
#[derive(Debug, Default)]
pub(super) struct FreshNames {
    used: usize,
    /// Number of times that the values of a domain have been put into the plan.
    pub(super) instances: usize,
}

impl FreshNames {
    /// Returns a name that no other column or relation of the plan has.
    pub(super) fn next(&mut self) -> String {
        self.used += 1;
        format!("__sq_{}", self.used)
    }

    /// Returns a number that no other query of the statement that is evaluated once has.
    pub(super) fn number(&mut self) -> usize {
        self.used += 1;
        FIRST_NUMBER + self.used
    }

    /// Returns an unqualified column of a new name.
    pub(super) fn column(&mut self) -> Column {
        Column::new_unqualified(self.next())
    }

    /// Returns a new relation.
    pub(super) fn relation(&mut self) -> TableReference {
        TableReference::bare(self.next())
    }
}
