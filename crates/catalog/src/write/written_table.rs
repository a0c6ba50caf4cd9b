//! Tables as statements that write see them: [`WrittenTable`].

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use halocline_columns::{Table, TableRules};
use halocline_keyed::KeyedTable;

/// The columns of a table that a statement writes.
pub trait WrittenTable: Sync {
    /// Returns the name of the table.
    fn name(&self) -> &str;

    /// Returns its columns.
    fn schema(&self) -> &SchemaRef;

    /// Returns the default of a column as an array of one value; NULL if there is none.
    fn default_value(&self, column: usize) -> Option<&ArrayRef>;

    /// Returns the rules that its rows obey.
    fn rules(&self) -> &Arc<TableRules>;
}

impl WrittenTable for Table {
    fn name(&self) -> &str {
        Table::name(self)
    }

    fn schema(&self) -> &SchemaRef {
        Table::schema(self)
    }

    fn default_value(&self, column: usize) -> Option<&ArrayRef> {
        Table::default_value(self, column)
    }

    fn rules(&self) -> &Arc<TableRules> {
        Table::rules(self)
    }
}

impl WrittenTable for KeyedTable {
    fn name(&self) -> &str {
        KeyedTable::name(self)
    }

    fn schema(&self) -> &SchemaRef {
        KeyedTable::schema(self)
    }

    fn default_value(&self, column: usize) -> Option<&ArrayRef> {
        self.definition().default_value(column)
    }

    fn rules(&self) -> &Arc<TableRules> {
        self.definition().rules()
    }
}
