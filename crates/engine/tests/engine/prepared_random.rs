//! Random queries with random values: prepared, from the plan cache and planned anew they have the same
//! answer. Tables have NULLs, deleted rows, rows in the log and several segments.

use arrow_cast::display::array_value_to_string;
use datafusion::common::ScalarValue;
use halocline_engine::{Database, EngineError, QueryResult};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::support::{lines, new_pool, query, run};

/// Columns of the table and the kinds of values that they are compared with.
const COLUMNS: [(&str, &str); 10] = [
    ("i", "number"),
    ("big", "number"),
    ("small", "number"),
    ("d", "number"),
    ("f", "number"),
    ("r", "number"),
    ("s", "text"),
    ("u", "text"),
    ("day", "date"),
    ("b", "boolean"),
];

/// Makes a table with random rows.
async fn table(db: &Database, rng: &mut StdRng, keyed: bool) {
    let key = if keyed { ", PRIMARY KEY (id)" } else { "" };
    run(
        db,
        &format!(
            "CREATE TABLE t (id bigint, i int, big bigint, small tinyint unsigned, d decimal(12, 2), f double, r real, \
             s varchar, u varchar, day date, b boolean{key})"
        ),
    )
    .await;
    for load in 0..3 {
        let seed = rng.random_range(1..1000);
        let (from, to) = (load * 2000, load * 2000 + [1500, 1999, 3][load]);
        run(
            db,
            &format!(
                "INSERT INTO t SELECT j, CASE WHEN j % 11 > 0 THEN j * {seed} % 50 - 10 END, j * {seed} % 7, \
                 j % 256, CAST(j * {seed} % 400 AS decimal(12, 2)) * 0.25, \
                 CASE j % 13 WHEN 0 THEN NULL WHEN 1 THEN -0.0e0 WHEN 2 THEN 0e0 WHEN 3 THEN 'NaN'::double \
                 ELSE (j % 40) / 4e0 END, CAST(j % 30 AS real) / 10, 's' || (j * {seed} % 23), \
                 CASE WHEN j % 5 > 0 THEN 'unique ' || j END, DATE '2026-01-01' + CAST(j % 90 AS int), \
                 CASE j % 3 WHEN 0 THEN true WHEN 1 THEN false END FROM generate_series({from}, {to}) AS x(j)"
            ),
        )
        .await;
    }
    run(db, "DELETE FROM t WHERE id % 17 = 3").await;
    run(db, "UPDATE t SET i = i + 1, s = 's1' WHERE id % 97 = 5").await;
    run(
        db,
        "INSERT INTO t (id, i, d) VALUES (100000, 1, 8.7), (100001, NULL, NULL)",
    )
    .await;
    if !keyed {
        run(db, "CREATE INDEX few ON t USING elf (i, s, day)").await;
        run(
            db,
            "CREATE INDEX more ON t USING elf (d, big) WITH (placement = 'volatile')",
        )
        .await;
    }
}

/// A value for a column of a kind, and a literal of the same meaning.
fn value(kind: &str, rng: &mut StdRng) -> (ScalarValue, String) {
    match kind {
        "number" => match rng.random_range(0..6) {
            0 => {
                let (units, scale) = (rng.random_range(-50..4000i128), rng.random_range(1..4i8));
                (
                    ScalarValue::Decimal128(Some(units), 20, scale),
                    decimal(units, scale),
                )
            }
            1 => {
                let value = f64::from(rng.random_range(-8..60i32)) / 4.0;
                (ScalarValue::from(value), format!("{value:e}"))
            }
            2 => {
                let value = rng.random_range(-3..12i8);
                (ScalarValue::from(value), value.to_string())
            }
            3 => {
                let value = *[0i64, -1, 300, 1 << 40, i64::MAX].choose(rng).unwrap();
                (ScalarValue::from(value), value.to_string())
            }
            _ => {
                let value = rng.random_range(-12..60i32);
                (ScalarValue::from(value), value.to_string())
            }
        },
        "text" => {
            let texts = [
                "s1",
                "s22",
                "unique 7",
                "unique 1999",
                "",
                "it's",
                "s%",
                "unique 1%",
                "_1",
            ];
            let text = *texts.choose(rng).unwrap();
            (ScalarValue::from(text), format!("'{}'", text.replace('\'', "''")))
        }
        "date" => {
            let days = rng.random_range(20_400..20_560);
            let value = ScalarValue::Date32(Some(days));
            let text = array_value_to_string(&value.to_array().unwrap(), 0).unwrap();
            let literal = format!("DATE '{text}'");
            (value, literal)
        }
        _ => {
            let value = rng.random_bool(0.5);
            (ScalarValue::from(value), value.to_string())
        }
    }
}

/// Returns a decimal as it is written.
fn decimal(units: i128, scale: i8) -> String {
    let (sign, scale) = (if units < 0 { "-" } else { "" }, scale as usize);
    let digits = format!("{:0>width$}", units.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// A query with `$n` where values go, and the kinds of these.
struct RandomQuery {
    text: String,
    kinds: Vec<&'static str>,
}

impl RandomQuery {
    fn new(rng: &mut StdRng) -> Self {
        let mut query = Self {
            text: String::new(),
            kinds: Vec::new(),
        };
        let conditions: Vec<String> = (0..rng.random_range(1..4))
            .map(|_| query.condition(rng))
            .collect();
        let condition = conditions.join(if rng.random_bool(0.8) { " AND " } else { " OR " });
        let condition = match rng.random_range(0..6) {
            0 => format!("NOT ({condition})"),
            1 => format!("{condition} AND id + i > 3"),
            2 => format!("({condition}) AND (i IS NOT NULL OR d + 1 < 20)"),
            _ => condition,
        };
        query.text = match rng.random_range(0..8) {
            0 => format!("SELECT count(*) FROM t WHERE {condition}"),
            1 => format!("SELECT count(*), sum(i), min(d), max(s), avg(big) FROM t AS x WHERE {condition}"),
            2 => {
                format!("SELECT s, count(*), sum(d) FROM t WHERE {condition} GROUP BY s HAVING count(*) > 1")
            }
            3 => format!("SELECT * FROM t WHERE {condition} ORDER BY id LIMIT 5 OFFSET 1"),
            4 => format!("SELECT id, i + big, upper(s) FROM t WHERE {condition}"),
            5 => {
                format!("SELECT y.id, y.day FROM (SELECT * FROM t WHERE small < 200) AS y WHERE {condition}")
            }
            6 => format!("SELECT DISTINCT b, day FROM t WHERE {condition} ORDER BY day DESC, b LIMIT 7"),
            _ => format!("SELECT d, id FROM t WHERE {condition}"),
        };
        query
    }

    fn parameter(&mut self, kind: &'static str) -> String {
        self.kinds.push(kind);
        format!("${}", self.kinds.len())
    }

    fn condition(&mut self, rng: &mut StdRng) -> String {
        let (column, kind) = *COLUMNS.choose(rng).unwrap();
        let op = *["=", "<>", "<", "<=", ">", ">="].choose(rng).unwrap();
        match rng.random_range(0..8) {
            0 if kind != "boolean" => {
                let (low, high) = (self.parameter(kind), self.parameter(kind));
                format!("{column} BETWEEN {low} AND {high}")
            }
            1 => {
                let count = rng.random_range(1..6);
                let items: Vec<String> = (0..count).map(|_| self.parameter(kind)).collect();
                let not = if rng.random_bool(0.3) { "NOT " } else { "" };
                format!("{column} {not}IN ({})", items.join(", "))
            }
            2 if kind == "text" => {
                let not = if rng.random_bool(0.3) { "NOT " } else { "" };
                format!("{column} {not}LIKE {}", self.parameter(kind))
            }
            3 => format!("{} {op} {column}", self.parameter(kind)),
            4 if kind == "number" => format!("{column} + 1 {op} {}", self.parameter(kind)),
            5 if kind == "number" => format!("{column} * {} > 10", self.parameter(kind)),
            _ => format!("{column} {op} {}", self.parameter(kind)),
        }
    }

    /// Random values and the text with them as literals.
    fn values(&self, rng: &mut StdRng) -> (Vec<ScalarValue>, String) {
        let (mut values, mut text) = (Vec::new(), self.text.clone());
        let pairs: Vec<_> = self.kinds.iter().map(|kind| value(kind, rng)).collect();
        for (at, (value, literal)) in pairs.into_iter().enumerate().rev() {
            text = text.replace(&format!("${}", at + 1), &literal);
            values.insert(0, value);
        }
        (values, text)
    }
}

/// The rows, or the error without the numbers in it: of several rows that fail, any may be the first.
async fn outcome(result: Result<QueryResult, EngineError>) -> Result<Vec<String>, String> {
    let kind = |error: EngineError| error.to_string().replace(|c: char| c.is_ascii_digit(), "");
    match result {
        Err(error) => Err(kind(error)),
        Ok(result) => match result.collect().await {
            Err(error) => Err(kind(error)),
            Ok(batches) => {
                let mut rows = lines(&batches);
                rows.sort();
                Ok(rows)
            }
        },
    }
}

async fn compare(keyed: bool, queries: usize) {
    let seed: u64 =
        std::env::var("HALOCLINE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    let mut rng = StdRng::seed_from_u64(seed);
    let (_dir, db) = new_pool();
    table(&db, &mut rng, keyed).await;
    let plain = db.session();
    run(&plain, "SET halocline.plan_cache = off").await;
    for number in 0..queries {
        let random = RandomQuery::new(&mut rng);
        let prepared = db.prepare(&random.text).await;
        let prepared = prepared.unwrap_or_else(|error| panic!("{}: {error}", random.text));
        for round in 0..4 {
            let (mut values, text) = random.values(&mut rng);
            let expected = outcome(plain.sql(&text).await).await;
            let cached = outcome(db.sql(&text).await).await;
            assert_eq!(
                cached, expected,
                "seed {seed}, query {number}, round {round}: {text}"
            );
            let given = outcome(plain.sql_with(&random.text, values.clone()).await).await;
            let found = outcome(prepared.execute(values.clone()).await).await;
            assert_eq!(
                found, given,
                "seed {seed}, query {number}, round {round}: {} {values:?}",
                random.text
            );
            if given.is_ok() && expected.is_ok() {
                assert_eq!(
                    given, expected,
                    "seed {seed}, query {number}, round {round}: {text} {values:?}"
                );
            }
            if round == 2 {
                // NULL, and a value of another type.
                let at = rng.random_range(0..values.len());
                values[at] = ScalarValue::Null;
                let given = outcome(plain.sql_with(&random.text, values.clone()).await).await;
                let found = outcome(prepared.execute(values.clone()).await).await;
                assert_eq!(
                    found, given,
                    "seed {seed}, query {number}: {} {values:?}",
                    random.text
                );
            }
        }
        if number % 20 == 7 {
            run(
                &db,
                &format!(
                    "INSERT INTO t (id, i, s) VALUES ({}, {}, 's1')",
                    200_000 + number,
                    number % 9
                ),
            )
            .await;
        }
        if number % 40 == 33 && !keyed {
            run(&db, "VACUUM t").await;
        }
    }
    assert_eq!(
        query(&db, "SELECT count(*) FROM t").await,
        query(&plain, "SELECT count(*) FROM t").await
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_and_cached_plans_have_the_answers_of_new_ones() {
    compare(false, 60).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_with_a_primary_key() {
    compare(true, 30).await;
}
