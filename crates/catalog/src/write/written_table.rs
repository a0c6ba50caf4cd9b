//! Tables as statements that write see them: [`WrittenTable`].

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use halocline_columns::Table;
use halocline_keyed::KeyedTable;

/// The columns of a table that a statement writes.
pub trait WrittenTable: Sync {
    /// Returns the name of the table.
    fn name(&self) -> &str;

    /// Returns its columns.
    fn schema(&self) -> &SchemaRef;

    /// Returns the default of a column as an array of one value; NULL if there is none.
    fn default_value(&self, column: usize) -> Option<&ArrayRef>;
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
}
