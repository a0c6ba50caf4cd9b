//! Tables with a primary key: conditions on the beginning of a text read ranges of keys, and select the same
//! rows as without.

use halocline_engine::Database;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::support::{new_pool, query, run};

/// Returns the part of the key that a scan reads; "nothing" without a scan.
async fn reads(db: &Database, condition: &str) -> String {
    let plan = query(db, &format!("EXPLAIN SELECT v FROM t WHERE {condition}")).await;
    let plan = plan.join("\n");
    let reads = plan
        .split_once("reads=[")
        .and_then(|(_, rest)| rest.split_once(']'));
    reads.map_or("nothing", |(reads, _)| reads).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefixes_are_ranges_of_keys() {
    let (_dir, db) = new_pool();
    run(
        &db,
        "CREATE TABLE t (a text, n int, b text, v int, PRIMARY KEY (a, n, b))",
    )
    .await;
    for (condition, expected) in [
        ("a LIKE 'abc%'", "1 ranges by a"),
        ("starts_with(a, 'abc')", "1 ranges by a"),
        ("starts_with(a, 'a%_\\')", "1 ranges by a"),
        ("a LIKE 'a_c%'", "1 ranges by a"),
        ("a LIKE 'abc'", "1 ranges by a"),
        (r"a LIKE 'ab\%c\_%'", "1 ranges by a"),
        ("a LIKE 'x%' AND n = 1", "1 ranges by a"),
        ("a = 'x' AND n IN (1, 2) AND b LIKE 'y%z'", "2 ranges by a, n, b"),
        (
            "a IN ('x', 'y') AND n = 3 AND starts_with(b, 'é')",
            "2 ranges by a, n, b",
        ),
        ("a LIKE 'b%' AND a LIKE 'c%'", "0 ranges by a"),
        ("a LIKE 'b%' AND a >= 'bx'", "1 ranges by a"),
        ("b LIKE 'x%'", "all rows"),
        ("a LIKE '%x'", "all rows"),
        ("a LIKE '_x%'", "all rows"),
        ("a LIKE '%'", "all rows"),
        ("starts_with(a, '')", "all rows"),
        ("a NOT LIKE 'abc%'", "all rows"),
        ("NOT starts_with(a, 'abc')", "all rows"),
        ("a ILIKE 'abc%'", "all rows"),
        ("a NOT ILIKE 'abc%'", "all rows"),
        ("a LIKE 'x%' OR v = 1", "all rows"),
        ("a LIKE b", "all rows"),
        ("upper(a) LIKE 'X%'", "all rows"),
    ] {
        let found = reads(&db, condition).await;
        let found = found.replace("keys by", "ranges by");
        assert_eq!(found, expected, "{condition}");
    }
    let long = "x".repeat(3000);
    for condition in [format!("a LIKE '{long}%'"), format!("a LIKE '{long}'")] {
        assert!(reads(&db, &condition).await.ends_with("by a"));
        let rows = query(&db, &format!("SELECT v FROM t WHERE {condition}")).await;
        assert_eq!(rows, Vec::<String>::new());
    }
}

/// Returns a random text of a few characters, among them wildcards and the ends of ranges of code points.
fn random_text(rng: &mut StdRng, most: usize) -> String {
    const CHARS: [char; 14] = [
        'a',
        'b',
        'B',
        '%',
        '_',
        '\\',
        '\u{0}',
        '\u{7F}',
        '\u{80}',
        '\u{D7FF}',
        '\u{E000}',
        '\u{FFFF}',
        '\u{10FFFE}',
        '\u{10FFFF}',
    ];
    let length = rng.random_range(0..=most);
    (0..length)
        .map(|_| CHARS[rng.random_range(0..CHARS.len())])
        .collect()
}

/// Returns a condition on the text in the column `b`.
fn random_condition(rng: &mut StdRng) -> String {
    let text = random_text(rng, 3).replace('\'', "''");
    let not = if rng.random_bool(0.2) { "NOT " } else { "" };
    match rng.random_range(0..8) {
        0 => format!("{not}starts_with(b, '{text}')"),
        1 => format!("b {not}ILIKE '{text}%'"),
        2 => format!("b {not}LIKE '{text}'"),
        3 => format!("b {not}LIKE '{text}%{}'", random_text(rng, 1)),
        4 => format!(r"b {not}LIKE '{text}%' ESCAPE '\'"),
        5 => format!("b {not}LIKE '{text}_%'"),
        6 => format!("b LIKE '{text}%' AND b > '{}'", random_text(rng, 2)),
        _ => format!("b {not}LIKE '{text}%'"),
    }
}

#[expect(clippy::print_stdout, reason = "the seed repeats a failure")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prefixes_select_what_they_do_without_a_key() {
    let seed = std::env::var("HALOCLINE_SEED");
    let seed: u64 = seed.map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("HALOCLINE_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let (_dir, db) = new_pool();
    run(&db, "CREATE TABLE t (b text, a int, v int, PRIMARY KEY (b, a))").await;
    run(&db, "CREATE TABLE u (b text, a int, v int, PRIMARY KEY (a, b))").await;
    let values: Vec<String> = (0..1500)
        .map(|v| {
            let text = random_text(&mut rng, 4).replace('\'', "''");
            format!("('{text}', {}, {v})", rng.random_range(0..3))
        })
        .collect();
    let values = values.join(", ");
    for table in ["t", "u"] {
        run(&db, &format!("INSERT OR IGNORE INTO {table} VALUES {values}")).await;
    }
    run(&db, "CREATE TABLE plain AS SELECT b, a, v FROM t").await;
    let mut pushed = 0;
    for _ in 0..300 {
        let condition = random_condition(&mut rng);
        let condition = if rng.random_bool(0.5) {
            format!("{condition} AND a = {}", rng.random_range(0..3))
        } else {
            condition
        };
        let rows = |table: &str| format!("SELECT v FROM {table} WHERE {condition} ORDER BY v");
        let expected = query(&db, &rows("plain")).await;
        for table in ["t", "u"] {
            let found = query(&db, &rows(table)).await;
            assert_eq!(found, expected, "seed {seed}, {table}: {condition:?}");
        }
        pushed += u32::from(reads(&db, &condition).await.contains(" by b"));
    }
    assert!(pushed > 50, "seed {seed}: {pushed} conditions were pushed");
}
