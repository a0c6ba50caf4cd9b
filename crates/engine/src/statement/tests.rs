//! Tests of the parsing of statements, and of the errors for unsupported ones.

use std::any::Any;

use halocline_columns::TableEncoding;

use super::copy_from::CopyFromStatement;
use super::copy_to::CopyToStatement;
use super::create_external_table::CreateExternalTableStatement;
use super::create_index::CreateIndexStatement;
use super::create_table::CreateTableStatement;
use super::create_table_as::CreateTableAsStatement;
use super::drop_index::DropIndexStatement;
use super::drop_table::DropTableStatement;
use super::insert::InsertStatement;
use super::parsing;
use super::select::DataFusionStatement;
use super::set::SetStatement;
use super::statement_kind::BoxedStatement;
use super::table_changes::InsertSource;
use super::update::UpdateStatement;
use crate::{EngineError, ImportFormat, IndexSpec, Layout, Order, QuoteOption};

fn parse(text: &str) -> Result<BoxedStatement, EngineError> {
    parsing::parse(text, &[])
}

/// Parses a statement of a type.
fn parse_as<T: 'static>(text: &str) -> T {
    let statement: Box<dyn Any> = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    *statement.downcast::<T>().unwrap_or_else(|_| panic!("{text}"))
}

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn index_statements_are_read_whole() {
    let text = "CREATE INDEX IF NOT EXISTS I ON public.T USING elf (A, \"B\") WITH (layout = 'published', order = given)";
    let create: CreateIndexStatement = parse_as(text);
    let expected = IndexSpec::new("i", "t", ["a", "B"])
        .with_layout(Layout::Published)
        .with_order(Order::Given);
    assert_eq!(create.spec, expected);
    assert!(create.if_not_exists && create.placed.is_nothing());
    let drop: DropIndexStatement = parse_as("DROP INDEX i");
    assert!(!drop.0.if_exists);
}

#[test]
fn whose_statement_is_it() {
    for text in [
        "SELECT 1",
        "EXPLAIN ANALYZE SELECT 1",
        "SHOW TABLES",
        "DESCRIBE t",
        "SHOW halocline.index",
        "VALUES (1)",
    ] {
        let _: DataFusionStatement = parse_as(text);
    }
    let _: CopyToStatement = parse_as("COPY t TO 'x.csv'");
    let _: SetStatement = parse_as("SET halocline.index = off");
    let _: CreateExternalTableStatement = parse_as("CREATE EXTERNAL TABLE e STORED AS CSV LOCATION 'x'");
    let create: CreateTableAsStatement = parse_as("CREATE TABLE t AS SELECT 1");
    assert!(!create.0.spec.or_replace);
    let create: CreateTableAsStatement = parse_as("CREATE OR REPLACE TABLE t AS SELECT 1;");
    assert!(create.0.spec.or_replace);
    let drop: DropTableStatement = parse_as("DROP TABLE IF EXISTS a, b");
    assert!(drop.0.if_exists);
}

#[test]
fn changes_are_read_whole() {
    let clustered = "CREATE TABLE t (a int NOT NULL, b varchar) WITH (cluster = 'A, \"B\"')";
    let CreateTableStatement(create) = parse_as(clustered);
    assert_eq!(create.spec.cluster, Some(vec!["a".to_string(), "B".to_string()]));
    assert!(!create.schema.field(0).is_nullable() && create.schema.field(1).is_nullable());
    let sorted = "CREATE TABLE t WITH (SORT = 'a', encoding = 'Plain') AS SELECT 1 AS a";
    let CreateTableAsStatement(create) = parse_as(sorted);
    assert_eq!(create.spec.cluster, Some(vec!["a".to_string()]));
    assert_eq!(create.spec.encoding, TableEncoding::Plain);
    let literals = |text: &str| {
        let InsertStatement(insert) = parse_as(text);
        matches!(insert.source, InsertSource::Literals(_))
    };
    assert!(literals(
        "INSERT INTO t (a, b) VALUES (-1, 'x'), (NULL, TRUE), (1.5, DATE '2020-01-01')"
    ));
    for text in [
        "INSERT INTO t VALUES (1 + 1)",
        "INSERT INTO t SELECT 1",
        "INSERT INTO t VALUES (1) LIMIT 1",
        "INSERT INTO t VALUES (now())",
    ] {
        assert!(!literals(text), "{text}");
    }
    let update = "UPDATE public.t AS x SET A = 1, x.b = a + 1 WHERE x.a IN (SELECT a FROM t)";
    let UpdateStatement(update) = parse_as(update);
    assert_eq!((update.table.as_str(), update.alias.as_str()), ("t", "x"));
    let columns: Vec<&str> = update
        .assignments
        .iter()
        .map(|(column, _)| column.as_str())
        .collect();
    assert_eq!(columns, ["a", "b"]);
    let copy = "copy T from 'a.csv' (format csv, header false, delimiter ';', null '-')";
    let CopyFromStatement(copy) = parse_as(copy);
    assert_eq!(
        (copy.table.as_str(), copy.options.format),
        ("t", ImportFormat::Csv)
    );
    assert_eq!(
        (copy.options.header, copy.options.delimiter),
        (Some(false), Some(b';'))
    );
    assert_eq!(copy.options.nulls, ["-"]);
    let copy = "COPY t FROM 'a.csv' WITH (HEADER, QUOTE none, NULL 'NA', NULL '', DELIMITER tab);";
    let CopyFromStatement(copy) = parse_as(copy);
    assert_eq!(
        (copy.options.header, copy.options.delimiter),
        (Some(true), Some(b'\t'))
    );
    assert_eq!(
        (copy.options.quote, copy.options.nulls.len()),
        (QuoteOption::None, 2)
    );
    let copy = "COPY t FROM 'a.csv' CSV HEADER QUOTE AS '\"'";
    let CopyFromStatement(copy) = parse_as(copy);
    assert_eq!(
        (copy.options.header, copy.options.quote),
        (Some(true), QuoteOption::Char(b'"'))
    );
    for (text, what) in [
        ("ALTER TABLE t ADD COLUMN a int DEFAULT 1", "AddColumn"),
        ("ALTER TABLE t RENAME TO u", "Rename("),
        ("ALTER TABLE t RENAME COLUMN a TO b", "RenameColumn"),
        ("ALTER TABLE t CLUSTER BY (a, b)", "Cluster([\"a\", \"b\"])"),
        ("DELETE FROM t", "Delete"),
        ("TRUNCATE t", "Truncate"),
        ("TRUNCATE TABLE t", "Truncate"),
        ("BEGIN", "Begin"),
        ("START TRANSACTION", "Begin"),
        ("BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE", "Begin"),
        ("COMMIT", "Commit"),
        ("END", "Commit"),
        ("ROLLBACK", "Rollback"),
        ("abort work ;", "Rollback"),
        ("VACUUM", "VacuumStatement { table: None, full: false }"),
        (
            "VACUUM FULL t",
            "VacuumStatement { table: Some(\"t\"), full: true }",
        ),
    ] {
        let read = format!("{:?}", parse(text).unwrap_or_else(|e| panic!("{text}: {e}")));
        assert!(read.contains(what), "{text}: {read}");
    }
}

#[test]
fn what_is_not_offered_says_what_to_do() {
    for (text, part) in [
        (
            "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DELETE",
            "MERGE is not supported; ",
        ),
        (
            "INSERT INTO t VALUES (1) RETURNING a",
            "ask for the rows with a SELECT",
        ),
        (
            "INSERT INTO t VALUES (1) ON CONFLICT ON CONSTRAINT x DO NOTHING",
            "name the columns of the primary key",
        ),
        ("UPDATE t SET a = 1 FROM u", "take the value from a subquery"),
        ("UPDATE t SET (a, b) = (1, 2)", "assign the columns one by one"),
        ("UPDATE t SET a = 1, a = 2", "column 'a' is assigned twice"),
        ("DELETE FROM t USING u", "select the rows with a subquery"),
        ("DELETE FROM t LIMIT 1", "select the rows in WHERE"),
        (
            "ALTER TABLE t DROP PRIMARY KEY",
            "ALTER TABLE … DROP PRIMARY is not supported; ",
        ),
        (
            "ALTER TABLE t ADD COLUMN a int, RENAME TO u",
            "send it on its own",
        ),
        (
            "ALTER TABLE t ADD PRIMARY KEY (a)",
            "CREATE TABLE u (PRIMARY KEY (…)) AS SELECT",
        ),
        (
            "ALTER TABLE t ADD CHECK (a > 0) NOT VALID",
            "correct the rows first",
        ),
        (
            "CREATE TABLE t (a int REFERENCES u)",
            "a foreign key is not supported; ",
        ),
        (
            "CREATE TABLE t (a int, UNIQUE NULLS NOT DISTINCT (a))",
            "declare the columns NOT NULL",
        ),
        ("CREATE TABLE t (a int, UNIQUE (a, a))", "name each column once"),
        ("CREATE TABLE t (CHECK (a > 0)) AS SELECT 1 AS a", "ADD CHECK"),
        (
            "CREATE TABLE t (a int) WITH (fill = 'x')",
            "there are WITH (cluster = 'column, column'), also called sort, and WITH (encoding = 'plain')",
        ),
        (
            "CREATE TABLE t (a int) WITH (sort = 'a', cluster = 'a')",
            "name it once",
        ),
        (
            "CREATE TABLE t (a int) WITH (encoding = 'best')",
            "is chosen or plain, not 'best'",
        ),
        ("COPY t (a) FROM 'x.csv'", "the file has all columns"),
        (
            "COPY t FROM 'x.csv' (ESCAPE '!')",
            "the option ESCAPE '!' of COPY",
        ),
        (
            "COPY t FROM 'x.csv' (QUOTE 'ab')",
            "the option QUOTE 'ab' of COPY",
        ),
        ("COPY t FROM 'x.csv' (HEADER false", "among the options of COPY"),
        ("COPY t FROM STDIN", "COPY FROM anything but a file"),
        (
            "CREATE TABLE t (a int) AS SELECT 1",
            "name and cast the columns in the SELECT",
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT 1",
            "this form of CREATE VIEW is not supported; ",
        ),
        ("BEGIN READ ONLY", "each query sees one version"),
        ("ROLLBACK TO a", "a statement that fails takes back only itself"),
        ("VACUUM SORT ONLY t", "write VACUUM, VACUUM table or"),
        ("CREATE SCHEMA s", "CREATE SCHEMA is not supported; "),
        ("GRANT SELECT ON t TO u", "GRANT is not supported; "),
        (
            "CREATE INDEX i ON t USING btree (a)",
            "there is one type: USING elf",
        ),
        ("CREATE UNIQUE INDEX i ON t USING elf (a)", "it adds a constraint"),
        ("CREATE INDEX i ON t (a + 1)", "index a column of its own"),
        ("CREATE INDEX i ON t (a DESC)", "an Elf has none"),
        (
            "CREATE INDEX i ON t (a) WITH (layout = 'best')",
            "layout = 'packed' or 'published'",
        ),
        ("EXPLAIN CREATE TABLE t AS SELECT 1", "explain the SELECT alone"),
        ("CREATE TABLE other.t AS SELECT 1", "a pool has one schema"),
        ("SELECT 1; SELECT 2", "has 2 statements"),
        ("  -- nothing", "there is no statement"),
        ("SELEC 1", "Expected: an SQL statement, found: SELEC"),
    ] {
        assert!(error(text).contains(part), "{text}: {}", error(text));
    }
}
