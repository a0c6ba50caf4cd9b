//! Random conjunctions over all types, each answered by every way and by plain DataFusion.

use std::time::{SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::same_answers::assert_same_answers;
use super::support::{import, new_pool, plain, run, write_parquet};
use super::types_table::batch;

/// Conjunctions tried per run.
const QUERIES: usize = 60;

fn pick<'a>(rng: &mut StdRng, from: &[&'a str]) -> &'a str {
    from[rng.random_range(0..from.len())]
}

/// A literal that fits the column's type, sometimes outside of its values.
fn literal(rng: &mut StdRng, column: &str) -> String {
    match column {
        "i8" | "i16" | "i32" | "i64" => rng.random_range(-3..127i64).to_string(),
        "u8" | "u16" | "u32" | "u64" => rng.random_range(0..128u64).to_string(),
        "id" => rng.random_range(0..4000u64).to_string(),
        "f64" => format!("{:.3}", rng.random_range(-110.0..160.0f64)),
        "f32" => format!("{}.25", rng.random_range(-110..160i32)),
        "day" => format!(
            "date '19{:02}-{:02}-{:02}'",
            rng.random_range(91..99),
            rng.random_range(1..13),
            rng.random_range(1..29)
        ),
        "ts" => format!(
            "timestamp '199{}-0{}-11T10:00:00'",
            rng.random_range(2..6),
            rng.random_range(1..10)
        ),
        // Plain DataFusion compares decimals with a literal of a float only nearly.
        "price" => format!(
            "CAST({}.{:02} AS DECIMAL(15, 2))",
            rng.random_range(-60..1000i32),
            rng.random_range(0..100)
        ),
        "tenth" => format!("{}.{}", rng.random_range(0..2), rng.random_range(0..10)),
        "word" => format!(
            "'{}'",
            pick(
                rng,
                &["", "AIR", "MAIL", "RAIL", "S", "TRUCK", "zz", "a_b", "Ärger"]
            )
        ),
        "unique" => format!("'u{:02x}'", rng.random_range(0..256)),
        _ => "NULL".into(),
    }
}

fn condition(rng: &mut StdRng) -> String {
    let columns = [
        "id", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "day", "ts", "price",
        "tenth", "word", "unique",
    ];
    let column = pick(rng, &columns);
    let mut value = || literal(rng, column);
    let (a, b, c) = (value(), value(), value());
    let kind = rng.random_range(0..12);
    match kind {
        0 => format!("{column} IS NULL"),
        1 => format!("{column} IS NOT NULL"),
        2 => format!("{column} BETWEEN {a} AND {b}"),
        3 => format!("{column} IN ({a}, {b}, {c})"),
        4 => format!("{column} NOT IN ({a}, {b}, {c})"),
        5 => format!("({column} < {a} OR {column} > {b})"),
        6 => format!("{a} <= {column}"),
        7 if column == "word" => format!("word LIKE '{}%'", pick(rng, &["", "A", "R", "a\\_", "MAI"])),
        7 => format!("NOT ({column} >= {a} AND {column} < {b})"),
        _ => format!("{column} {} {a}", pick(rng, &["=", "<", "<=", ">", ">=", "<>"])),
    }
}

#[expect(clippy::print_stdout, reason = "the seed repeats a failure")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_conjunctions_agree() {
    let clock = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64)
    };
    let seed = std::env::var("HALOCLINE_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(clock);
    println!("HALOCLINE_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let (dir, db) = new_pool();
    let path = dir.path().join("t.parquet");
    write_parquet(&path, [batch(4000)]);
    import(&db, "t", std::slice::from_ref(&path));
    for index in [
        "CREATE INDEX one ON t USING elf (i8, word, f64, day, i16, price)",
        "CREATE INDEX two ON t USING elf (u64, unique, tenth, ts, f32) WITH (layout = 'published')",
    ] {
        run(&db, index).await;
    }
    let plain = plain(&[("t", &path)]).await;
    for _ in 0..QUERIES {
        let conditions: Vec<String> = (0..rng.random_range(1..5)).map(|_| condition(&mut rng)).collect();
        let output = pick(
            &mut rng,
            &[
                "count(*)",
                "id, word, f64",
                "*",
                "sum(id), min(unique), count(i8)",
            ],
        );
        assert_same_answers(
            &db,
            &plain,
            &format!("SELECT {output} FROM t WHERE {}", conditions.join(" AND ")),
        )
        .await;
    }
}
