//! Advice on sets of indexes, and on the placement of an index.

use crate::common::{Home, assert_error, stderr, stdout};

/// A pool with an index and a file of queries.
fn home() -> Home {
    let home = Home::with_table();
    home.ok(&["index", "p", "t", "--on", "day,id", "--order", "given"]);
    let queries = (1..28).map(|day| {
        format!("SELECT name FROM t WHERE day = DATE '2026-01-{day:02}' AND id < 500; -- a comment\n")
    });
    home.write(
        "queries.sql",
        queries.collect::<String>() + "SELECT count(*) FROM t;",
    );
    home
}

const ADVISE: [&str; 9] = [
    "advise",
    "p",
    "t_elf",
    "--dram",
    "1MiB",
    "--medium",
    "emulated:optane:absolute:cache=1",
    "--queries",
    "queries.sql",
];

#[test]
fn advice_explains_itself() {
    let text = stdout(&home().ok(&ADVISE));
    for part in [
        "static+dynamic",
        "hybrid",
        "volatile",
        "built anew after the pool was opened",
        "queries  27 of 28 queries use the index",
        "medium   optane, times as in its profile, below a cache of 1 MiB",
        "pick     slow-only: ",
        "apply    ALTER INDEX t_elf SET (placement = 'slow-only');",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

#[test]
fn advice_for_programs_is_rows() {
    let home = home();
    let mut arguments = ADVISE.to_vec();
    arguments.extend(["--output", "json"]);
    let run = home.ok(&arguments);
    let rows: Vec<serde_json::Value> = stdout(&run)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&rows[0]["placement"], &rows[0]["picked"]),
        (&"slow-only".into(), &true.into())
    );
    assert!(
        rows.iter()
            .skip(1)
            .all(|row| row["picked"] == false && row["time_ns"].is_number())
    );
    assert!(stderr(&run).contains("apply "), "{}", stderr(&run));
}

#[test]
fn a_page_cache_file_is_as_fast_as_dram() {
    let text = stdout(&home().ok(&["advise", "p", "t_elf", "--dram", "64KiB"]));
    assert!(text.contains("as fast as DRAM"), "{text}");
    assert!(
        text.contains("made-up queries") && text.contains("pick     slow-only"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_advised_on_says_what_to_do() {
    let home = home();
    home.write("none.sql", "-- nothing\n");
    home.write("others.sql", "SELECT * FROM t WHERE price > 5");
    let fails =
        |index: &str, file: &str| home.fails(1, &["advise", "p", index, "--dram", "1M", "--queries", file]);
    assert_error(&fails("u", "queries.sql"), &["there is no index 'u'", "hint: "]);
    assert_error(&fails("t_elf", "missing.sql"), &["missing.sql cannot be read"]);
    assert_error(&fails("t_elf", "none.sql"), &["no query in none.sql", "SELECT"]);
    assert_error(&fails("t_elf", "others.sql"), &["none of the 1 queries", "t_elf"]);
    home.fails(2, &["advise", "p", "t_elf"]);
    home.fails(2, &["advise", "p", "t_elf", "--dram", "0"]);
}

/// A pool with a larger table, whose columns are independent.
fn with_facts() -> Home {
    let home = Home::with_table();
    home.ok(&[
        "sql",
        "p",
        "CREATE TABLE facts AS SELECT v AS id, v * 7919 % 1009 AS a, v * 104729 % 997 AS b, v % 10 AS c \
         FROM generate_series(1, 40000) AS s(v); CREATE INDEX unused ON t (day)",
    ]);
    home.write(
        "facts.sql",
        "-- weight: 3\nSELECT id FROM facts WHERE a = 5 AND b = 17;\nSELECT count(*) FROM facts WHERE c < 9;\n",
    );
    home
}

#[test]
fn a_set_of_indexes_is_proposed() {
    let home = with_facts();
    let run = home.ok(&["advise", "p", "--queries", "facts.sql", "--space", "64MiB"]);
    let text = stdout(&run);
    for part in [
        "facts.sql:2",
        "facts.sql:3",
        "uses facts_",
        "no index pays: selects 90 % of the rows of facts",
        "apply    CREATE INDEX facts_",
        "unused   DROP INDEX unused; -- ",
        " of 64.0 MiB",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    // The statement is ready to be run, and the index is used.
    let apply = text
        .lines()
        .find_map(|line| line.strip_prefix("apply    "))
        .unwrap();
    home.ok(&["sql", "p", apply]);
    let plan = stdout(&home.ok(&["sql", "p", "EXPLAIN SELECT id FROM facts WHERE a = 5 AND b = 17"]));
    assert!(plan.contains("index=facts_"), "{plan}");
    let again = stdout(&home.ok(&["advise", "p", "--queries", "facts.sql", "--space", "64MiB"]));
    assert!(
        again.starts_with("no index pays") && again.contains("which is there"),
        "{again}"
    );
}

#[test]
fn a_set_of_indexes_for_programs_is_rows() {
    let home = with_facts();
    let run = home.ok(&[
        "advise",
        "p",
        "--queries",
        "facts.sql",
        "--space",
        "1GiB",
        "--output",
        "json",
    ]);
    let rows: Vec<serde_json::Value> = stdout(&run)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<&str> = rows.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["create index", "unused index", "query", "query", "total"]);
    assert!(rows[0]["bytes"].as_u64().unwrap() > 0 && rows[0]["queries"] == 1);
    assert!(rows[2]["after_ms"].as_f64().unwrap() < rows[2]["before_ms"].as_f64().unwrap());
    assert_eq!(rows[3]["after_ms"], rows[3]["before_ms"]);
}

#[test]
fn a_bad_workload_is_named() {
    let home = with_facts();
    for (text, parts) in [
        (
            "SELECT 1;\nSELECT * FROM nowhere",
            ["bad.sql:2: there is no table 'nowhere'", "error"],
        ),
        ("SELECT 1;\n\nSELECT FROM", ["bad.sql:3: ", "error"]),
        (
            "-- weight: 0\nSELECT 1",
            ["bad.sql:2: '0' is not a weight", "error"],
        ),
        ("SELECT 'x", ["bad.sql: the quote that opens in line 1", "error"]),
        ("-- nothing", ["no query in bad.sql", "hint: "]),
    ] {
        home.write("bad.sql", text);
        let run = home.fails(1, &["advise", "p", "--queries", "bad.sql", "--space", "1M"]);
        assert_error(&run, &parts);
    }
    // A size of nothing, no queries, no limit, and both kinds of advice at once.
    home.fails(2, &["advise", "p", "--queries", "facts.sql", "--space", "0"]);
    home.fails(2, &["advise", "p", "--space", "1M"]);
    home.fails(2, &["advise", "p", "--queries", "facts.sql"]);
    home.fails(
        2,
        &[
            "advise",
            "p",
            "t_elf",
            "--queries",
            "facts.sql",
            "--space",
            "1M",
            "--dram",
            "1M",
        ],
    );
}
