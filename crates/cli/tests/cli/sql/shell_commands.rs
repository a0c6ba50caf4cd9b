//! The shell's own commands, as scripts have them, too.

use std::fs;

use crate::common::{Home, assert_error, stdout};

/// Runs a script from a pipe, which must succeed, and returns what it prints.
fn printed(home: &Home, arguments: &[&str], script: &str) -> String {
    let mut command = home.command(&[&["sql"], arguments].concat());
    stdout(&command.write_stdin(script).assert().success())
}

#[test]
fn tables_and_indexes_are_listed() {
    let home = Home::with_table();
    home.ok(&["sql", "p", "CREATE INDEX by_day ON t USING elf (day, id)"]);
    for (command, has_table, has_index) in [
        ("\\d", true, true),
        ("\\dt", true, false),
        (".tables", true, false),
        ("\\di", false, true),
        (".indexes", false, true),
    ] {
        let text = printed(&home, &["p"], command);
        assert_eq!(text.contains("│ t "), has_table, "{command}\n{text}");
        assert_eq!(text.contains("by_day"), has_index, "{command}\n{text}");
    }
    let text = printed(&home, &["p"], "\\d T;\n");
    assert!(text.contains("price") && text.contains("index by_day"), "{text}");
    let text = printed(&home, &["p"], ".help\n");
    assert!(
        text.contains("\\dt, .tables") && text.contains("CREATE INDEX"),
        "{text}"
    );
}

#[test]
fn a_schema_makes_the_same_tables_again() {
    let home = Home::new();
    home.ok(&[
        "sql",
        "p",
        "CREATE TABLE a (id bigint NOT NULL, \"Größe\" decimal(5, 2) DEFAULT 0.5, note text DEFAULT 'it''s') WITH (sort = 'id');
         CREATE TABLE b (org text, n int, at timestamp(6), PRIMARY KEY (org, n));
         CREATE INDEX i ON a USING elf (note, id) WITH (order = 'given', placement = 'static', dram = '16MiB');
         CREATE MACRO twice(x) AS x * 2;
         CREATE VIEW z (n) AS SELECT twice(id) FROM a;
         CREATE VIEW c AS SELECT max(n) AS \"Most\" FROM z -- of all",
    ]);
    let schema = printed(&home, &["p"], ".schema");
    assert!(
        schema.contains("CREATE TABLE a (") && schema.contains("PRIMARY KEY (org, n)"),
        "{schema}"
    );
    home.write("schema.sql", &schema);
    home.ok(&["sql", "q", "-f", "schema.sql"]);
    assert_eq!(printed(&home, &["q"], ".schema"), schema);
    assert!(!printed(&home, &["p"], ".schema b").contains("TABLE a"));
    for command in ["\\d z", ".schema z"] {
        let view = printed(&home, &["p"], command);
        assert_eq!(
            view, "CREATE VIEW z (n) AS\nSELECT twice(id) FROM a;\n",
            "{command}"
        );
    }
    for command in ["\\d", "\\dt"] {
        assert!(printed(&home, &["p"], command).contains("│ z "), "{command}");
    }
    assert!(stdout(&home.ok(&["info", "p"])).contains("CREATE VIEW c AS"));
}

#[test]
fn scripts_read_scripts() {
    let home = Home::with_table();
    home.write("inner.sql", "SELECT 1 AS one;\n\\q\nSELECT 3 AS three;\n");
    home.write("outer.sql", "\\i inner.sql\nSELECT 2 AS two;\n");
    let text = printed(&home, &["p", "-f", "outer.sql", "--output", "csv"], "");
    assert_eq!(text, "one\n1\ntwo\n2\n");
    home.write("inner.sql", "\n\nSELECT nonsense;\n");
    assert_error(
        &home.fails(1, &["sql", "p", "-f", "outer.sql"]),
        &["outer.sql:1: inner.sql:3: "],
    );
    home.write("inner.sql", ".read inner.sql\n");
    assert_error(
        &home.fails(1, &["sql", "p", "-f", "outer.sql"]),
        &["within each other"],
    );
}

#[test]
fn answers_go_to_files() {
    let home = Home::with_table();
    let text = printed(
        &home,
        &["p", "--output", "csv"],
        "\\o a.csv\nSELECT 1 AS x;\nSELECT 2 AS y;\n\\o\nSELECT 3 AS z;\n",
    );
    assert_eq!(text, "z\n3\n");
    assert_eq!(fs::read_to_string(home.path("a.csv")).unwrap(), "x\n1\ny\n2\n");
    let run = home
        .command(&["sql", "p", "--read-only"])
        .write_stdin("\\o b.csv\n")
        .assert();
    assert_error(&run.code(1), &["read-only", "--allow-writing-files"]);
    assert!(!home.path("b.csv").exists());
}

#[test]
fn copies_need_no_quotes() {
    let home = Home::with_table();
    let script = "\\copy (SELECT id FROM t WHERE id < 3 ORDER BY id) to ids.csv\nCREATE TABLE ids (id bigint);\n\
                  \\copy ids from ids.csv\nSELECT sum(id) AS s FROM ids;\n";
    let text = printed(&home, &["p", "--output", "csv"], script);
    assert_eq!(text, "count\n3\ns\n3\n");
}

#[test]
fn answers_have_other_forms() {
    let home = Home::with_table();
    let script = "\\x\nSELECT 1 AS a, NULL AS b;\n\\x off\n\\chart SELECT 'bar' AS label, 7 AS n;\n.mode csv\nSELECT 2 AS c;\n";
    let text = printed(&home, &["p"], script);
    for part in ["-[ RECORD 1 ]-\na │ 1\nb │ NULL\n", "bar", "██", "c\n2\n"] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let query = "SELECT name, count(*) AS n FROM t GROUP BY name ORDER BY name";
    let text = stdout(&home.ok(&["sql", "p", query, "--output", "chart"]));
    assert!(text.contains("name 1") && text.contains('█'), "{text}");
    assert_error(
        &home.fails(
            1,
            &["sql", "p", "SELECT id, day, name FROM t", "--output", "chart"],
        ),
        &["a chart needs", "3 columns"],
    );
}

#[test]
fn plans_are_rows_where_there_is_no_terminal() {
    let home = Home::with_table();
    let explain = "EXPLAIN SELECT count(*) FROM t WHERE id < 10";
    let text = stdout(&home.ok(&["sql", "p", explain]));
    assert!(
        text.contains("plan_type") && text.contains("│ physical_plan"),
        "{text}"
    );
    assert!(home.csv("p", explain).starts_with("plan_type,plan\n"));
}
