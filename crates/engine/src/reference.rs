//! The statements and types of SQL that a database accepts, and its settings, as the references in
//! `docs/sql.md` and `docs/settings.md` list them.
//!
//! Tests compare the lists with the parser and the type tables, and the reference with the lists, so that
//! neither can gain or lose an entry without the other.

use halocline_catalog::settings::{SETTINGS, Scope};

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

const fn form(name: &'static str, example: &'static str) -> StatementForm {
    StatementForm { name, example }
}

const fn sql(names: &'static [&'static str], arrow: &'static str) -> SqlType {
    SqlType { names, arrow }
}

/// All kinds of statements, in the order of the reference.
pub const STATEMENTS: [StatementForm; 30] = [
    form("SELECT", "SELECT 1"),
    form("EXPLAIN", "EXPLAIN SELECT 1"),
    form("DESCRIBE", "DESCRIBE t"),
    form("SHOW", "SHOW TABLES"),
    form("SHOW FUNCTIONS", "SHOW FUNCTIONS"),
    form("SHOW INDEXES", "SHOW INDEXES"),
    form("CREATE TABLE", "CREATE TABLE t (a int)"),
    form("CREATE TABLE AS", "CREATE TABLE t AS SELECT 1 AS a"),
    form("ALTER TABLE", "ALTER TABLE t ADD COLUMN b int"),
    form("DROP TABLE", "DROP TABLE t"),
    form(
        "CREATE EXTERNAL TABLE",
        "CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION 'e.parquet'",
    ),
    form("INSERT", "INSERT INTO t VALUES (1)"),
    form("UPDATE", "UPDATE t SET a = 2 WHERE a = 1"),
    form("DELETE", "DELETE FROM t WHERE a = 1"),
    form("TRUNCATE", "TRUNCATE TABLE t"),
    form("COPY FROM", "COPY t FROM 't.csv'"),
    form("COPY TO", "COPY t TO 't.parquet'"),
    form("CREATE INDEX", "CREATE INDEX i ON t USING elf (a)"),
    form("ALTER INDEX", "ALTER INDEX i SET (placement = 'hybrid')"),
    form("DROP INDEX", "DROP INDEX i"),
    form("ADVISE", "ADVISE INDEXES FOR (SELECT a FROM t WHERE a = 1)"),
    form("BEGIN", "BEGIN"),
    form("COMMIT", "COMMIT"),
    form("ROLLBACK", "ROLLBACK"),
    form("PREPARE", "PREPARE p AS SELECT a FROM t WHERE a = $1"),
    form("EXECUTE", "EXECUTE p (1)"),
    form("DEALLOCATE", "DEALLOCATE p"),
    form("VACUUM", "VACUUM"),
    form("SET", "SET halocline.index = auto"),
    form("RESET", "RESET halocline.index"),
];

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

    use datafusion::sql::parser::Statement as Parsed;
    use datafusion::sql::sqlparser::ast;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use halocline_sql::parse::{Statement, parse};
    use halocline_sql::sql_types::data_type;
    use halocline_sql::syntax::SqlDialect;

    /// Returns the name of a statement in [`STATEMENTS`]. Exhaustive, so that a new kind fails to compile
    /// until it has one.
    fn name(statement: &Statement) -> &'static str {
        match statement {
            Statement::Plan(parsed) | Statement::Setting(parsed) => planned(parsed),
            Statement::CopyTo(_) => "COPY TO",
            Statement::ShowIndexes => "SHOW INDEXES",
            Statement::Advise(_) => "ADVISE",
            Statement::External(_) => "CREATE EXTERNAL TABLE",
            Statement::CreateTable { .. } | Statement::CreateKeyedAs { .. } => "CREATE TABLE AS",
            Statement::NewTable { .. } => "CREATE TABLE",
            Statement::Insert(_) => "INSERT",
            Statement::Update(_) => "UPDATE",
            Statement::Delete(_) => "DELETE",
            Statement::Truncate { .. } => "TRUNCATE",
            Statement::Alter(_) => "ALTER TABLE",
            Statement::CopyFrom(_) => "COPY FROM",
            Statement::Begin => "BEGIN",
            Statement::Commit => "COMMIT",
            Statement::Rollback => "ROLLBACK",
            Statement::Vacuum { .. } => "VACUUM",
            Statement::Prepare { .. } => "PREPARE",
            Statement::Execute { .. } => "EXECUTE",
            Statement::Deallocate { .. } => "DEALLOCATE",
            Statement::DropTables { .. } => "DROP TABLE",
            Statement::CreateIndex { .. } => "CREATE INDEX",
            Statement::PlaceIndex { .. } => "ALTER INDEX",
            Statement::DropIndexes { .. } => "DROP INDEX",
        }
    }

    fn planned(parsed: &Parsed) -> &'static str {
        match parsed {
            Parsed::Explain(_) => "EXPLAIN",
            Parsed::Reset(_) => "RESET",
            Parsed::Statement(statement) => match &**statement {
                ast::Statement::Query(_) => "SELECT",
                ast::Statement::ExplainTable { .. } => "DESCRIBE",
                ast::Statement::ShowFunctions { .. } => "SHOW FUNCTIONS",
                ast::Statement::ShowVariable { .. }
                | ast::Statement::ShowTables { .. }
                | ast::Statement::ShowColumns { .. } => "SHOW",
                ast::Statement::Set(_) => "SET",
                other => panic!("{other} is not in the reference"),
            },
            other => panic!("{other} is not in the reference"),
        }
    }

    #[test]
    fn each_example_is_a_statement_of_its_kind() {
        for statement in STATEMENTS {
            let parsed = parse(statement.example, &[]).unwrap();
            assert_eq!(name(&parsed), statement.name, "{}", statement.example);
        }
        let names: BTreeSet<_> = STATEMENTS.iter().map(|statement| statement.name).collect();
        assert_eq!(names.len(), STATEMENTS.len());
    }

    /// Names of the variants of the parser's `DataType` that `data_type` accepts, from its source.
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
