//! Which statement is whose, and what is refused with which words.

use super::parse::{Statement, parse};
use crate::{IndexSpec, Layout, Order};

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn index_statements_are_read_whole() {
    let text = "CREATE INDEX IF NOT EXISTS I ON public.T USING elf (A, \"B\") WITH (layout = 'published', order = given)";
    let Statement::CreateIndex {
        spec,
        if_not_exists: true,
    } = parse(text).unwrap()
    else {
        panic!("{text}")
    };
    let columns = vec!["a".to_string(), "B".to_string()];
    let expected = IndexSpec {
        name: "i".into(),
        table: "t".into(),
        columns,
        layout: Layout::Published,
        order: Order::Given,
    };
    assert_eq!(spec, expected);
    assert!(matches!(
        parse("DROP INDEX i"),
        Ok(Statement::DropIndexes { if_exists: false, .. })
    ));
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
        "COPY t TO 'x.csv'",
    ] {
        assert!(matches!(parse(text), Ok(Statement::Plan(_))), "{text}");
    }
    assert!(matches!(
        parse("SET halocline.index = off"),
        Ok(Statement::Setting(_))
    ));
    assert!(matches!(
        parse("CREATE EXTERNAL TABLE e STORED AS CSV LOCATION 'x'"),
        Ok(Statement::External(_))
    ));
    assert!(matches!(
        parse("CREATE TABLE t AS SELECT 1"),
        Ok(Statement::CreateTable {
            or_replace: false,
            ..
        })
    ));
    assert!(matches!(
        parse("CREATE OR REPLACE TABLE t AS SELECT 1;"),
        Ok(Statement::CreateTable { or_replace: true, .. })
    ));
    assert!(matches!(
        parse("DROP TABLE IF EXISTS a, b"),
        Ok(Statement::DropTables { if_exists: true, .. })
    ));
}

#[test]
fn what_is_not_offered_says_what_to_do() {
    for (text, part) in [
        ("INSERT INTO t VALUES (1)", "INSERT is not supported; "),
        ("UPDATE t SET a = 1", "UPDATE is not supported; "),
        ("DELETE FROM t", "DELETE is not supported; "),
        ("TRUNCATE TABLE t", "TRUNCATE is not supported; "),
        ("ALTER TABLE t ADD COLUMN a int", "ALTER TABLE is not supported; "),
        (
            "CREATE TABLE t (a int)",
            "use CREATE TABLE … AS SELECT …, or import a file",
        ),
        (
            "CREATE TABLE t (a int) AS SELECT 1",
            "name and cast the columns in the SELECT",
        ),
        ("CREATE VIEW v AS SELECT 1", "CREATE VIEW is not supported; "),
        ("DROP VIEW v", "DROP VIEW is not supported; "),
        ("BEGIN", "each statement is a transaction of its own"),
        ("VACUUM", "VACUUM is not supported; "),
        ("PREPARE p AS SELECT 1", "PREPARE is not supported; "),
        ("CREATE SCHEMA s", "CREATE SCHEMA is not supported; "),
        ("GRANT SELECT ON t TO u", "GRANT is not supported; "),
        (
            "CREATE INDEX i ON t USING btree (a)",
            "there is one type: USING elf",
        ),
        ("CREATE UNIQUE INDEX i ON t (a)", "leave UNIQUE out"),
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
