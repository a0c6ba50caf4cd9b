//! Definitions and changes of tables as parsed, the same for all kinds of tables.

use std::path::PathBuf;

use arrow_schema::{DataType, Field, SchemaRef};
use datafusion::sql::sqlparser::ast::{Expr, Query};
use halocline_columns::TableRule;
use halocline_import::ImportOptions;
use halocline_sql::EngineError;
use halocline_sql::table_spec::TableSpec;

use super::constraints::NewConstraint;

/// A table to create with a list of columns.
#[derive(Debug)]
pub(crate) struct NewTable {
    pub(super) spec: TableSpec,
    /// Its columns.
    pub(super) schema: SchemaRef,
    /// The default of each.
    pub(super) defaults: Vec<Option<Expr>>,
    /// The columns of its primary key; empty if it has no key.
    pub(super) key: Vec<String>,
    /// The rules that its rows obey.
    pub(super) rules: Vec<TableRule>,
}

/// A table to create with the rows of a query.
#[derive(Debug)]
pub(crate) struct NewTableAs {
    pub(super) spec: TableSpec,
    /// The columns; those of the query if there is no list of them.
    pub(super) schema: Option<SchemaRef>,
    /// The default of each listed column.
    pub(super) defaults: Vec<Option<Expr>>,
    /// The columns of its primary key; empty if it has no key.
    pub(super) key: Vec<String>,
    /// The rules that its rows obey.
    pub(super) rules: Vec<TableRule>,
    /// Its rows.
    pub(super) query: Box<Query>,
}

/// Rows to add.
#[derive(Debug)]
pub(crate) struct Insert {
    /// The table.
    pub(super) table: String,
    /// The columns that are given; all in their order if none is named.
    pub(super) columns: Vec<String>,
    /// The rows.
    pub(super) source: InsertSource,
    /// The action for rows whose primary key is there.
    pub(super) on_conflict: OnConflict,
}

/// The action for rows to insert whose primary key is there.
#[derive(Debug)]
pub(crate) enum OnConflict {
    /// The statement fails.
    Fail,
    /// The rows are left out.
    Nothing(Option<Vec<String>>),
    /// The rows replace those that are there.
    Replace,
    /// The rows that are there are changed.
    Update {
        /// The columns of the primary key, if they are named.
        key: Option<Vec<String>>,
        /// Columns and their new values, in which `excluded` stands for the row to insert.
        assignments: Vec<(String, Expr)>,
        /// The condition on the rows that are changed; all if there is none.
        selection: Option<Box<Expr>>,
    },
}

/// The source of new rows.
#[derive(Debug)]
pub(crate) enum InsertSource {
    /// Values that need no planning, row by row.
    Literals(Vec<Vec<Expr>>),
    /// Anything else.
    Query(Box<Query>),
}

/// Rows to change.
#[derive(Debug)]
pub(crate) struct Update {
    /// The table.
    pub(super) table: String,
    /// The alias of the table in the statement, or its name.
    pub(super) alias: String,
    /// Columns and their new values.
    pub(super) assignments: Vec<(String, Expr)>,
    /// The condition on the rows; all if there is none.
    pub(super) selection: Option<Expr>,
}

/// Rows to delete.
#[derive(Debug)]
pub(crate) struct Delete {
    /// The table.
    pub(super) table: String,
    /// The alias of the table in the statement, or its name.
    pub(super) alias: String,
    /// The condition on the rows; all if there is none.
    pub(super) selection: Option<Expr>,
}

/// A file to add to a table.
#[derive(Debug)]
pub(crate) struct CopyFrom {
    /// The table.
    pub(super) table: String,
    /// The file.
    pub(super) file: PathBuf,
    /// Options for reading it.
    pub(super) options: ImportOptions,
}

/// A change of a table's definition.
#[derive(Debug)]
pub(crate) struct Alter {
    /// The table.
    pub(super) table: String,
    /// Do nothing if it is not there.
    pub(super) if_exists: bool,
    /// The alterations, which take effect together.
    pub(super) what: Alterations,
}

/// The alterations of one statement.
#[derive(Debug)]
pub(crate) enum Alterations {
    /// Another name for the table.
    Rename(String),
    /// Others, one after the other.
    Definition(Vec<Alteration>),
}

/// An alteration of the definition of a table.
#[derive(Debug)]
pub(crate) enum Alteration {
    /// One more column, the last.
    AddColumn {
        /// The column.
        field: Field,
        /// Its default, and its value in the rows there are; NULL if none.
        default: Option<Box<Expr>>,
        /// Most characters of a text.
        length: Option<u64>,
        /// Constraints that are written after it.
        constraints: Vec<NewConstraint>,
        /// Do nothing if there is one of its name.
        if_not_exists: bool,
    },
    /// A column less.
    DropColumn {
        /// Its name.
        column: String,
        /// Do nothing if there is none.
        if_exists: bool,
    },
    /// Another name for a column.
    RenameColumn {
        /// Its name.
        from: String,
        /// Its new name.
        to: String,
    },
    /// Another type of a column.
    SetType {
        /// Its name.
        column: String,
        /// The type.
        data_type: DataType,
        /// Most characters of a text.
        length: Option<u64>,
        /// Its new values; the old ones, cast, if there is none.
        using: Option<Box<Expr>>,
    },
    /// Another default of a column; NULL if none.
    SetDefault {
        /// Its name.
        column: String,
        /// The default.
        default: Option<Box<Expr>>,
    },
    /// Allows or forbids NULL in a column.
    SetNullable {
        /// Its name.
        column: String,
        /// True if it may.
        nullable: bool,
    },
    /// One more constraint.
    AddConstraint(NewConstraint),
    /// A constraint less.
    DropConstraint {
        /// Its name.
        name: String,
        /// Do nothing if there is none.
        if_exists: bool,
    },
    /// The columns whose order rows are kept in from now on; none of them: as they come.
    Cluster(Vec<String>),
}

/// Returns the error for a name that is taken.
pub(super) fn taken(kind: &'static str, name: &str) -> EngineError {
    EngineError::Exists {
        kind,
        name: name.to_string(),
        instead: "choose another name",
    }
}
