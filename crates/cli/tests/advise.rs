//! Advice on the placement of an index.

mod common;

use common::{Home, assert_error, stderr, stdout};

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
