//! Conditions on strings that have no codes: random ones, answered by every way and by plain DataFusion over
//! the same rows; and the plans that show who answers them.
//!
//! The table has segments with and without a dictionary, deleted rows, and rows in the log.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use halocline_engine::{Database, ImportOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

use super::same_answers::assert_same_answers;
use super::support::{new_pool, plain_datafusion_without, query, run, write_parquet};

/// Conditions tried per run.
const QUERIES: usize = 80;

const WORDS: [&str; 11] = [
    "",
    "s",
    "s99",
    "alpha",
    "al",
    "\u{e9}t\u{e9}",
    "\u{1F980}",
    "%_",
    "\\",
    "omega",
    "https://example.org/",
];

fn text(rng: &mut StdRng) -> String {
    let words = (0..rng.random_range(0..4)).map(|_| WORDS[rng.random_range(0..WORDS.len())]);
    let words: String = words.collect();
    match rng.random_range(0..6) {
        0 => words,
        1 => format!("{}{words}", rng.random_range(0..1000)),
        _ => format!("{words}{}", rng.random_range(0..200_000)),
    }
}

fn rows(rng: &mut StdRng, first: i64, rows: usize, distinct: usize) -> RecordBatch {
    let texts: Vec<String> = (0..distinct).map(|_| text(rng)).collect();
    let strings = (0..rows).map(|row| {
        let at = if distinct == rows {
            row
        } else {
            rng.random_range(0..distinct)
        };
        (rng.random_range(0..15) > 0).then(|| texts[at].clone())
    });
    let strings: ArrayRef = Arc::new(StringArray::from_iter(strings));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + rows as i64));
    RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("s", strings, true)]).unwrap()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The table `t`, and plain DataFusion over its rows.
async fn tables(rng: &mut StdRng, cluster: bool) -> (TempDir, Database, SessionContext) {
    let (dir, db) = new_pool();
    // More rows than strings are counted for, more than half of them distinct: no dictionary.
    for (number, (rows_of, distinct)) in [(12_000, 12_000), (9_000, 9_000), (3_000, 400)]
        .into_iter()
        .enumerate()
    {
        let path = dir.path().join(format!("{number}.parquet"));
        write_parquet(&path, [rows(rng, number as i64 * 100_000, rows_of, distinct)]);
        let options = ImportOptions::default().with_append(number > 0);
        let options = if cluster && number == 0 {
            options.with_cluster(vec!["id".into()])
        } else {
            options
        };
        db.import("t", &[path], &options, &mut |_| (), &AtomicBool::new(false))
            .unwrap();
    }
    run(&db, "DELETE FROM t WHERE id % 7 = 3 OR s LIKE '%omega%99'").await;
    for id in 900_000..900_040 {
        let value = if id % 9 == 0 {
            "NULL".into()
        } else {
            quoted(&text(rng))
        };
        run(&db, &format!("INSERT INTO t VALUES ({id}, {value})")).await;
    }
    run(&db, "DELETE FROM t WHERE id = 900003").await;
    let all = db
        .sql("SELECT id, s FROM t")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    let table = MemTable::try_new(all[0].schema(), vec![all]).unwrap();
    let plain = plain_datafusion();
    plain.register_table("t", Arc::new(table)).unwrap();
    (dir, db, plain)
}

/// Returns the model. Simplified, `s IN (…) AND s IN (…)` of lists that share nothing is false where `s` is NULL.
fn plain_datafusion() -> SessionContext {
    plain_datafusion_without(&["simplify_expressions"])
}

/// A piece of one of the texts, or another text.
fn piece(rng: &mut StdRng) -> String {
    let text: Vec<char> = text(rng).chars().collect();
    let from = rng.random_range(0..=text.len());
    let to = rng.random_range(from..=text.len().min(from + 5));
    text[from..to].iter().collect()
}

fn pattern(rng: &mut StdRng) -> String {
    let escape = |text: String| text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    let mut pattern = String::new();
    for _ in 0..rng.random_range(1..5) {
        match rng.random_range(0..5) {
            0 | 1 => pattern.push('%'),
            2 => pattern.push('_'),
            _ => pattern.push_str(&escape(piece(rng))),
        }
    }
    pattern
}

/// A condition on the column `s`.
fn condition(rng: &mut StdRng, s: &str, depth: usize) -> String {
    let not = if rng.random_range(0..3) == 0 { "NOT " } else { "" };
    let mut literal = || quoted(&text(rng));
    let (a, b, c) = (literal(), literal(), literal());
    match rng.random_range(0..14) {
        0 if depth > 0 => format!(
            "({} OR {})",
            condition(rng, s, depth - 1),
            condition(rng, s, depth - 1)
        ),
        1 if depth > 0 => format!(
            "NOT ({} AND {})",
            condition(rng, s, depth - 1),
            condition(rng, s, depth - 1)
        ),
        2 => format!("{s} IS {not}NULL"),
        3 => format!("{s} {not}BETWEEN {a} AND {b}"),
        4 => format!("{s} {not}IN ({a}, {b}, {c})"),
        5 => format!(
            "{not}{}({s}, {})",
            ["contains", "starts_with", "ends_with"][rng.random_range(0..3)],
            quoted(&piece(rng))
        ),
        6 => {
            let first = piece(rng);
            let characters = first.chars().count().saturating_sub(rng.random_range(0..2));
            format!("{not}substr({s}, 1, {characters}) IN ({}, {a})", quoted(&first))
        }
        7 => format!("left({s}, {}) = {}", rng.random_range(0..4), quoted(&piece(rng))),
        8 => format!("{not}{s} ILIKE {}", quoted(&pattern(rng))),
        9 | 10 => format!(
            "{s} {} {a}",
            ["=", "<>", "<", "<=", ">", ">="][rng.random_range(0..6)]
        ),
        _ => format!("{s} {not}LIKE {}", quoted(&pattern(rng))),
    }
}

#[expect(clippy::print_stdout, reason = "the seed repeats a failure")]
fn seeded() -> StdRng {
    let clock = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64)
    };
    let seed = std::env::var("HALOCLINE_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(clock);
    println!("HALOCLINE_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_conditions_on_strings_agree() {
    let mut rng = seeded();
    let (_dir, db, plain) = tables(&mut rng, false).await;
    for _ in 0..QUERIES {
        let conditions: Vec<String> = (0..rng.random_range(1..3))
            .map(|_| condition(&mut rng, "s", 2))
            .collect();
        let output = ["count(*)", "id, s", "count(s), sum(id)"][rng.random_range(0..3)];
        let limits = ["", " AND id < 101000", " AND id % 3 = 1"][rng.random_range(0..3)];
        let text = format!(
            "SELECT {output} FROM t WHERE {}{limits}",
            conditions.join(" AND ")
        );
        assert_same_answers(&db, &plain, &text).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_beside_an_index_agree() {
    let mut rng = seeded();
    for cluster in [false, true] {
        let (_dir, db, plain) = tables(&mut rng, cluster).await;
        run(&db, "CREATE INDEX by_id ON t USING elf (id)").await;
        for _ in 0..QUERIES / 4 {
            let from = rng.random_range(0..6) * 50_000;
            let to = from + [20, 2_000, 150_000][rng.random_range(0..3)];
            let output = ["count(*)", "id, s"][rng.random_range(0..2)];
            let condition = condition(&mut rng, "s", 1);
            let text = format!("SELECT {output} FROM t WHERE id BETWEEN {from} AND {to} AND {condition}");
            assert_same_answers(&db, &plain, &text).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scan_answers_conditions_on_strings() {
    let mut rng = StdRng::seed_from_u64(1);
    let (_dir, db, _) = tables(&mut rng, false).await;
    let plan = |condition: &str| {
        let text = format!("EXPLAIN SELECT id FROM t WHERE {condition}");
        let db = &db;
        async move { query(db, &text).await.join("\n") }
    };
    for condition in [
        "s LIKE 's99%'",
        "s LIKE '%omega%1_'",
        "s NOT LIKE '%x%'",
        "s > 's5' AND s < 's6'",
        "s BETWEEN 'a' AND 'b'",
        "s = 'omega1'",
        "s <> 'omega1'",
        "s IN ('a', 'b', 'c', 'd')",
        "s IS NOT NULL",
        "starts_with(s, 'alp')",
        "contains(s, 'x')",
        "substr(s, 1, 2) IN ('s9', 'al')",
        "s LIKE 'a%' OR s LIKE 'b%'",
    ] {
        let plan = plan(condition).await;
        assert!(
            !plan.contains("FilterExec") && plan.contains("filter=["),
            "{condition}: {plan}"
        );
        // The strings are compared where they are stored, and not read as a column.
        assert!(plan.contains("columns=[id]"), "{condition}: {plan}");
    }
    for condition in ["s ILIKE 'S9%'", "length(s) > 5", "s LIKE 'a\\'", "s < upper(s)"] {
        let plan = plan(condition).await;
        assert!(plan.contains("FilterExec"), "{condition}: {plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn star_joins_have_conditions_on_strings() {
    let mut rng = seeded();
    let (dir, db) = new_pool();
    let strings = |rng: &mut StdRng, rows: usize| -> ArrayRef {
        let text = |rng: &mut StdRng| (rng.random_range(0..15) > 0).then(|| text(rng));
        Arc::new(StringArray::from_iter((0..rows).map(|_| text(rng))))
    };
    let keys = Int64Array::from_iter_values(0..10_000);
    let part = [
        ("p", Arc::new(keys) as ArrayRef),
        ("name", strings(&mut rng, 10_000)),
    ];
    let keys = Int64Array::from_iter_values((0..40_000).map(|_| rng.random_range(0..11_000)));
    let quantities = Int64Array::from_iter_values((0..40_000).map(|_| rng.random_range(0..50)));
    let sales = [
        ("k", Arc::new(keys) as ArrayRef),
        ("q", Arc::new(quantities)),
        ("note", strings(&mut rng, 40_000)),
    ];
    let batches = [
        ("part", RecordBatch::try_from_iter(part).unwrap()),
        ("sales", RecordBatch::try_from_iter(sales).unwrap()),
    ];
    let plain = plain_datafusion();
    for (name, batch) in batches {
        let path = dir.path().join(format!("{name}.parquet"));
        write_parquet(&path, [batch.clone()]);
        let options = ImportOptions::default();
        db.import(name, &[path], &options, &mut |_| (), &AtomicBool::new(false))
            .unwrap();
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
        plain.register_table(name, Arc::new(table)).unwrap();
    }
    let with = |conditions: &str| {
        format!("SELECT sum(q), count(*) FROM sales JOIN part ON k = p WHERE {conditions}")
    };
    let plan = with("name LIKE '%alpha%' AND note > 's5'");
    let plan = query(&db, &format!("EXPLAIN {plan}")).await.join("\n");
    assert!(
        plan.contains("StarJoin") && plan.contains("DimensionScan") && !plan.contains("FilterExec"),
        "{plan}"
    );
    for _ in 0..QUERIES / 4 {
        let of_part = condition(&mut rng, "name", 1);
        let of_sales = condition(&mut rng, "note", 1);
        assert_same_answers(&db, &plain, &with(&format!("{of_part} AND {of_sales}"))).await;
    }
}
