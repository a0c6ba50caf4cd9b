//! The statements, types and functions of SQL that a database accepts, and its settings, as the references in
//! `docs/sql.md` and `docs/settings.md` list them.
//!
//! The statements are those of the list by which they are parsed. Tests compare the types with the type
//! tables, and the reference with the lists, so that neither can gain or lose an entry without the other.

use std::collections::BTreeSet;

use halocline_catalog::settings::{SETTINGS, Scope};

pub use crate::keywords::{KEYWORDS, is_keyword};
use crate::statement::STATEMENT_KINDS;

/// A kind of statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatementForm {
    /// The heading under which the reference describes it.
    pub name: &'static str,
    /// A statement of this kind.
    pub example: &'static str,
}

/// A type of SQL that a column of a table can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqlType {
    /// Its names, the preferred one first.
    pub names: &'static [&'static str],
    /// The Arrow type that stores it, in Arrow's notation.
    pub arrow: &'static str,
}

/// A setting of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingRow {
    /// Its name.
    pub name: String,
    /// The values that it can have.
    pub values: &'static str,
    /// Its default.
    pub default: &'static str,
    /// `session`, or `database` if all sessions share it.
    pub scope: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
}

/// Returns the names of the functions that are added to those of DataFusion.
pub fn functions() -> BTreeSet<String> {
    halocline_sql::functions::names()
}

/// Returns all settings, in the order of the reference.
pub fn settings() -> impl Iterator<Item = SettingRow> {
    SETTINGS.iter().map(|setting| SettingRow {
        name: format!("halocline.{}", setting.name),
        values: setting.values,
        default: setting.default_text,
        scope: match setting.scope {
            Scope::Session => "session",
            Scope::Database => "database",
        },
        meaning: setting.help,
    })
}

const fn sql(names: &'static [&'static str], arrow: &'static str) -> SqlType {
    SqlType { names, arrow }
}

/// All kinds of statements, in the order of the reference.
pub const STATEMENTS: [StatementForm; STATEMENT_KINDS.len()] = {
    let mut forms = [StatementForm {
        name: "",
        example: "",
    }; STATEMENT_KINDS.len()];
    let mut at = 0;
    // Iterators cannot be used in constants.
    while at < STATEMENT_KINDS.len() {
        forms[at] = StatementForm {
            name: STATEMENT_KINDS[at].name,
            example: STATEMENT_KINDS[at].example,
        };
        at += 1;
    }
    forms
};

/// All types of SQL, in the order of the reference. Types with parameters are listed with one choice of them.
pub const SQL_TYPES: [SqlType; 23] = [
    sql(&["boolean", "bool"], "Boolean"),
    sql(&["tinyint"], "Int8"),
    sql(&["smallint", "int2"], "Int16"),
    sql(&["int", "integer", "int4"], "Int32"),
    sql(&["bigint", "int8"], "Int64"),
    sql(&["tinyint unsigned"], "UInt8"),
    sql(&["smallint unsigned", "int2 unsigned"], "UInt16"),
    sql(&["int unsigned", "integer unsigned", "int4 unsigned"], "UInt32"),
    sql(&["bigint unsigned", "int8 unsigned"], "UInt64"),
    sql(&["real", "float4", "float"], "Float32"),
    sql(&["double", "double precision", "float8"], "Float64"),
    sql(
        &["decimal(15, 2)", "numeric(15, 2)", "dec(15, 2)"],
        "Decimal128(15, 2)",
    ),
    sql(&["date", "date32"], "Date32"),
    sql(&["time"], "Time64(ns)"),
    sql(&["timestamp(0)", "datetime(0)"], "Timestamp(s)"),
    sql(&["timestamp(3)", "datetime(3)"], "Timestamp(ms)"),
    sql(&["timestamp(6)", "datetime(6)"], "Timestamp(µs)"),
    sql(
        &[
            "timestamp",
            "timestamp(9)",
            "datetime",
            "timestamp without time zone",
        ],
        "Timestamp(ns)",
    ),
    sql(
        &["timestamp with time zone", "timestamptz"],
        "Timestamp(ns, \"+00:00\")",
    ),
    sql(
        &["varchar", "text", "string", "character varying", "char varying"],
        "Utf8",
    ),
    sql(&["char(10)", "character(10)"], "Utf8"),
    sql(&["bytea", "blob"], "Binary"),
    sql(&["binary(16)", "varbinary(16)"], "Binary"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use datafusion::sql::sqlparser::ast;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use halocline_sql::sql_types::data_type;
    use halocline_sql::syntax::SqlDialect;

    /// Returns the names of the variants of the parser's `DataType` that `data_type` accepts, from its
    /// source.
    fn accepted() -> BTreeSet<String> {
        let source = include_str!("../../sql/src/sql_types.rs");
        let body = source
            .split_once("fn data_type(")
            .and_then(|(_, rest)| rest.split_once("other =>"))
            .expect("the source of data_type")
            .0;
        let names = body.split("SqlType::").skip(1);
        names
            .map(|rest| rest.chars().take_while(char::is_ascii_alphanumeric).collect())
            .collect()
    }

    fn parsed_type(name: &str) -> ast::DataType {
        let parser = Parser::new(&SqlDialect).try_with_sql(name);
        parser.and_then(|mut parser| parser.parse_data_type()).unwrap()
    }

    #[test]
    fn every_type_that_can_be_stored_is_listed() {
        let mut listed = BTreeSet::new();
        for sql in SQL_TYPES.iter().flat_map(|sql| sql.names) {
            let variant = format!("{:?}", parsed_type(sql));
            listed.insert(variant.chars().take_while(char::is_ascii_alphanumeric).collect());
        }
        assert_eq!(listed, accepted());
    }

    #[test]
    fn listed_types_are_stored_as_said() {
        for sql in SQL_TYPES {
            for name in sql.names {
                let stored = data_type(&parsed_type(name)).unwrap();
                assert_eq!(stored.to_string(), sql.arrow, "{name}");
            }
        }
    }
}
