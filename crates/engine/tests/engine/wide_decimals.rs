//! Decimals of up to 38 digits, of which some fit 64 bits and some do not: random changes and queries beside
//! a model in plain Rust.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::{ArrayRef, Decimal128Array, RecordBatch};
use halocline_engine::{Database, DatabaseOptions};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::support::{error, import, new_pool, query, reopen, run, write_parquet};

/// The greatest decimal of 38 digits.
const MAX_DECIMAL: i128 = 10_i128.pow(38) - 1;
/// Rows of a statement that makes a segment instead of a record of the log.
const SEGMENT_ROWS: usize = 1100;

/// A row of the table, whose `d` is `number / 10^scale`.
#[derive(Debug, Clone)]
struct Row {
    id: i64,
    d: Option<i128>,
    g: i64,
}

/// The rows that the table should hold.
struct Model {
    scale: usize,
    rows: Vec<Row>,
    next: i64,
}

/// A decimal as SQL writes and prints it.
fn text(value: i128, scale: usize) -> String {
    let digits = format!("{:0width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let point = if scale > 0 { "." } else { "" };
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{whole}{point}{fraction}")
}

/// A value that is often at the edge of something, or equal to one of few.
fn value(rng: &mut StdRng, wide: bool) -> i128 {
    let fits = i128::from(i64::MAX);
    let edges = [
        MAX_DECIMAL,
        -MAX_DECIMAL,
        fits,
        fits + 1,
        -fits - 1,
        -fits - 2,
        1 << 64,
        -(1 << 64),
        MAX_DECIMAL - 1,
        10_i128.pow(37),
    ];
    let few = rng.random_range(-3..=3_i128);
    match rng.random_range(0..6) {
        0 => few,
        1 | 2 if !wide => few * 1000 + rng.random_range(-50..50),
        1 if wide => *edges.choose(rng).unwrap(),
        2 if wide => few * 10_i128.pow(rng.random_range(17..37)),
        3 if wide => rng.random_range(-MAX_DECIMAL..=MAX_DECIMAL),
        _ => rng.random_range(-fits - 1..=fits) >> rng.random_range(0..63),
    }
}

impl Model {
    fn text(&self, value: i128) -> String {
        text(value, self.scale)
    }

    fn cell(&self, value: Option<i128>) -> String {
        value.map_or("NULL".into(), |value| self.text(value))
    }

    fn new_rows(&mut self, rng: &mut StdRng, rows: usize, wide: f64) -> Vec<Row> {
        let mut of_row = |rng: &mut StdRng| {
            let is_wide = rng.random_bool(wide);
            self.next += 1;
            Row {
                id: self.next,
                d: rng.random_bool(0.9).then(|| value(rng, is_wide)),
                g: rng.random_range(0..5),
            }
        };
        std::iter::repeat_with(|| of_row(rng))
            .take(rows)
            .collect::<Vec<_>>()
    }

    fn values(&self, rows: &[Row]) -> String {
        let row = |row: &Row| format!("({}, {}, {})", row.id, self.cell(row.d), row.g);
        rows.iter().map(row).collect::<Vec<_>>().join(", ")
    }

    /// Changes the table and the model.
    async fn change(&mut self, db: &Database, rng: &mut StdRng) {
        let pivot = self.some_value(rng);
        match rng.random_range(0..10) {
            kind @ 0..=4 => {
                let rows = if kind < 2 {
                    rng.random_range(1..6)
                } else {
                    SEGMENT_ROWS
                };
                let wide = *[0.0, 0.0, 0.001, 0.5].choose(rng).unwrap();
                let rows = self.new_rows(rng, rows, wide);
                run(db, &format!("INSERT INTO t VALUES {}", self.values(&rows))).await;
                self.rows.extend(rows);
            }
            5 => {
                let (condition, holds) = self.condition(rng);
                let share = rng.random_range(1..5);
                run(
                    db,
                    &format!("DELETE FROM t WHERE ({condition}) AND id % 5 < {share}"),
                )
                .await;
                self.rows
                    .retain(|row| !(holds(row.d) == Some(true) && row.id % 5 < share));
            }
            6 | 7 => {
                let (condition, holds) = self.condition(rng);
                let to = rng.random_bool(0.9).then_some(pivot);
                run(
                    db,
                    &format!("UPDATE t SET d = {} WHERE ({condition}) AND g = 2", self.cell(to)),
                )
                .await;
                for row in self
                    .rows
                    .iter_mut()
                    .filter(|row| row.g == 2 && holds(row.d) == Some(true))
                {
                    row.d = to;
                }
            }
            8 => {
                run(db, "VACUUM t").await;
            }
            _ => {
                run(db, "VACUUM FULL t").await;
            }
        }
    }

    /// A value of the table, or one beside it, or any.
    fn some_value(&self, rng: &mut StdRng) -> i128 {
        let known = self.rows.choose(rng).and_then(|row| row.d);
        let value = match known {
            Some(known) if rng.random_bool(0.8) => known + rng.random_range(-1..=1),
            _ => value(rng, true),
        };
        value.clamp(-MAX_DECIMAL, MAX_DECIMAL)
    }

    /// A condition in SQL and in Rust.
    #[expect(clippy::type_complexity, reason = "a condition as a function")]
    fn condition(&self, rng: &mut StdRng) -> (String, Box<dyn Fn(Option<i128>) -> Option<bool>>) {
        let (a, b, c) = (self.some_value(rng), self.some_value(rng), self.some_value(rng));
        let (x, y, z) = (self.text(a), self.text(b), self.text(c));
        match rng.random_range(0..12) {
            0 => (format!("d = {x}"), Box::new(move |d| d.map(|d| d == a))),
            1 => (format!("d <> {x}"), Box::new(move |d| d.map(|d| d != a))),
            2 => (format!("d < {x}"), Box::new(move |d| d.map(|d| d < a))),
            3 => (format!("d <= {x}"), Box::new(move |d| d.map(|d| d <= a))),
            4 => (format!("{x} < d"), Box::new(move |d| d.map(|d| d > a))),
            5 => (format!("d >= {x}"), Box::new(move |d| d.map(|d| d >= a))),
            6 => (
                format!("d BETWEEN {x} AND {y}"),
                Box::new(move |d| d.map(|d| a <= d && d <= b)),
            ),
            7 => (
                format!("d NOT BETWEEN {x} AND {y}"),
                Box::new(move |d| d.map(|d| d < a || b < d)),
            ),
            8 => (
                format!("d IN ({x}, {y}, {z})"),
                Box::new(move |d| d.map(|d| [a, b, c].contains(&d))),
            ),
            9 => ("d IS NULL".into(), Box::new(|d| Some(d.is_none()))),
            10 => (
                format!("d IS DISTINCT FROM {x}"),
                Box::new(move |d| Some(d != Some(a))),
            ),
            _ => (
                format!("d < {x} OR d > {y} OR d = {z}"),
                Box::new(move |d| d.map(|d| d < a || d > b || d == c)),
            ),
        }
    }

    fn having(&self, holds: impl Fn(Option<i128>) -> Option<bool>) -> Vec<Row> {
        let holds = |row: &&Row| holds(row.d) == Some(true);
        self.rows.iter().filter(holds).cloned().collect()
    }

    /// Compares a query or two.
    async fn compare(&self, db: &Database, rng: &mut StdRng) {
        let (condition, holds) = self.condition(rng);
        let mut rows = self.having(holds);
        let mode = ["off", "auto", "force"].choose(rng).unwrap();
        run(db, &format!("SET halocline.index = {mode}")).await;
        match rng.random_range(0..4) {
            0 => {
                let by = *["", " DESC"].choose(rng).unwrap();
                rows.sort_by_key(|row| (row.d.is_none(), row.d, row.id));
                if by == " DESC" {
                    rows.sort_by_key(|row| (row.d.is_none(), row.d.map(|d| -d), row.id));
                }
                let text = format!("SELECT id, d, g FROM t WHERE {condition} ORDER BY d{by} NULLS LAST, id");
                let expected = rows
                    .iter()
                    .map(|row| format!("{}|{}|{}", row.id, self.cell(row.d), row.g));
                assert_eq!(
                    query(db, &text).await,
                    expected.collect::<Vec<_>>(),
                    "{condition}"
                );
            }
            1 => {
                let mut groups: BTreeMap<Option<i128>, usize> = BTreeMap::new();
                rows.iter().for_each(|row| *groups.entry(row.d).or_default() += 1);
                let text =
                    format!("SELECT d, count(*) FROM t WHERE {condition} GROUP BY d ORDER BY d NULLS FIRST");
                let expected = groups
                    .into_iter()
                    .map(|(d, many)| format!("{}|{many}", self.cell(d)));
                assert_eq!(
                    query(db, &text).await,
                    expected.collect::<Vec<_>>(),
                    "{condition}"
                );
            }
            2 => {
                let text = format!("SELECT min(d), max(d), count(d), count(*) FROM t WHERE {condition}");
                assert_eq!(query(db, &text).await, [self.ends(&rows)], "{condition}");
                self.sum(db, &format!("SELECT sum(d) FROM t WHERE {condition}"), &rows)
                    .await;
            }
            _ => {
                // The shape of a star join, which must not compute with 64 bits.
                let (from, kind) = ("t JOIN kinds k ON t.g = k.g", rng.random_range(0..2));
                rows.retain(|row| row.g % 2 == kind);
                let text = format!(
                    "SELECT min(t.d), max(t.d), count(t.d), count(*) FROM {from} WHERE k.kind = {kind} AND ({condition})"
                );
                assert_eq!(query(db, &text).await, [self.ends(&rows)], "{condition}");
                let text = format!("SELECT sum(t.d) FROM {from} WHERE k.kind = {kind} AND ({condition})");
                self.sum(db, &text, &rows).await;
            }
        }
    }

    fn ends(&self, rows: &[Row]) -> String {
        let values = || rows.iter().filter_map(|row| row.d);
        let (least, most) = (self.cell(values().min()), self.cell(values().max()));
        format!("{least}|{most}|{}|{}", values().count(), rows.len())
    }

    /// A sum is exact, or an error where it has more than 38 digits.
    async fn sum(&self, db: &Database, text: &str, rows: &[Row]) {
        // Halves cannot overflow: there are fewer than 2^64 rows of less than 2^127.
        let parts = rows
            .iter()
            .filter_map(|row| row.d)
            .fold((0_i128, 0_i128), |(high, low), d| {
                (high + d.div_euclid(1 << 64), low + d.rem_euclid(1 << 64))
            });
        let high = parts.0 + parts.1.div_euclid(1 << 64);
        let exact = high
            .checked_mul(1 << 64)
            .and_then(|high| high.checked_add(parts.1.rem_euclid(1 << 64)))
            .filter(|sum| (-MAX_DECIMAL..=MAX_DECIMAL).contains(sum));
        match exact {
            Some(sum) => {
                let any = rows.iter().any(|row| row.d.is_some());
                assert_eq!(query(db, text).await, [self.cell(any.then_some(sum))], "{text}");
            }
            None => assert!(
                error(db, text).await.contains("a sum of decimals is not a value"),
                "{text}"
            ),
        }
    }
}

#[expect(clippy::print_stdout, reason = "the seed repeats a failure")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decimals_of_38_digits_are_as_in_a_model() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var("HALOCLINE_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    println!("HALOCLINE_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let (dir, mut db) = new_pool();
    run(
        &db,
        "CREATE TABLE kinds AS SELECT v AS g, v % 2 AS kind FROM generate_series(0, 4) AS s(v)",
    )
    .await;
    for round in 0..4 {
        let scale = *[0, 2, 10, 38].choose(&mut rng).unwrap();
        let mut model = Model {
            scale,
            rows: Vec::new(),
            next: 0,
        };
        let how = *[
            "",
            " WITH (sort = 'd')",
            " WITH (encoding = 'plain')",
            " WITH (sort = 'g, d')",
        ]
        .choose(&mut rng)
        .unwrap();
        run(
            &db,
            &format!("CREATE TABLE t (id BIGINT, d DECIMAL(38,{scale}), g BIGINT){how}"),
        )
        .await;
        if round % 2 == 1 {
            run(&db, "CREATE INDEX by_d ON t (d, g)").await;
        }
        if rng.random_bool(0.3) {
            run(&db, "CREATE INDEX by_g ON t (g, d) WITH (placement = 'volatile')").await;
        }
        for step in 0..14 {
            model.change(&db, &mut rng).await;
            for _ in 0..5 {
                model.compare(&db, &mut rng).await;
            }
            if step % 5 == 4 {
                drop(db);
                db = reopen(&dir, &DatabaseOptions::default());
                let report = db.check(&mut |_| ()).unwrap();
                assert!(report.problems.is_empty(), "{:?}", report.problems);
            }
        }
        run(&db, "CREATE TABLE copy AS SELECT * FROM t").await;
        let found = query(&db, "SELECT id, d, g FROM copy ORDER BY id").await;
        let mut rows = model.rows.clone();
        rows.sort_by_key(|row| row.id);
        let expected = rows
            .iter()
            .map(|row| format!("{}|{}|{}", row.id, model.cell(row.d), row.g));
        assert_eq!(found, expected.collect::<Vec<_>>());
        let joined = query(&db, "SELECT count(*) FROM t a JOIN copy b ON a.d = b.d").await;
        let mut many: BTreeMap<i128, u64> = BTreeMap::new();
        rows.iter()
            .filter_map(|row| row.d)
            .for_each(|d| *many.entry(d).or_default() += 1);
        assert_eq!(
            joined,
            [many.values().map(|many| many * many).sum::<u64>().to_string()]
        );
        run(&db, "DROP TABLE copy").await;
        run(&db, "DROP TABLE t").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn integers_of_a_text_file_keep_all_their_digits() {
    let (dir, db) = new_pool();
    let file = |name: &str| dir.path().join(name);
    let integers = [
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999999999999999",
        "-99999999999999999999999999999999999999",
        "0",
    ];
    let csv = |values: &[&str]| format!("x\n{}\n", values.join("\n"));
    for (name, values, kind) in [
        ("wide", &integers[..], "Decimal128(38, 0)"),
        ("one", &integers[5..6], "Decimal128(38, 0)"),
        ("unsigned", &["1", integers[1]], "UInt64"),
        ("padded", &[integers[5], "007"], "Utf8View"),
        (
            "longer",
            &["100000000000000000000000000000000000000", "1"],
            "Utf8View",
        ),
        ("exponents", &[integers[5], "1e16"], "Utf8View"),
        (
            "fixed",
            &["12345678901234567890.25", "-0.01"],
            "Decimal128(38, 2)",
        ),
        (
            "scales",
            &["12345678901234567890.25", "0.50", "0.5"],
            "Decimal128(38, 2)",
        ),
    ] {
        let path = file(&format!("{name}.csv"));
        std::fs::write(&path, csv(values)).unwrap();
        import(&db, name, &[path]);
        let found = query(&db, &format!("SELECT DISTINCT arrow_typeof(x) FROM {name}")).await;
        assert_eq!(found, [kind], "{name}");
        let copy = file(&format!("{name}.copy.csv"));
        query(
            &db,
            &format!(
                "COPY {name} TO '{}' OPTIONS (format.has_header true)",
                copy.display()
            ),
        )
        .await;
        // Decimals are written with all the digits of their type.
        let expected = csv(values).replace("0.5\n", "0.50\n");
        assert_eq!(std::fs::read_to_string(copy).unwrap(), expected, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decimals_of_a_parquet_file_keep_all_their_digits() {
    let (dir, db) = new_pool();
    let values = vec![
        Some(MAX_DECIMAL),
        None,
        Some(-MAX_DECIMAL),
        Some(1),
        Some(1 << 63),
    ];
    let decimals = Decimal128Array::from(values)
        .with_precision_and_scale(38, 5)
        .unwrap();
    let batch = RecordBatch::try_from_iter([("d", Arc::new(decimals) as ArrayRef)]).unwrap();
    let path = dir.path().join("wide.parquet");
    write_parquet(&path, [batch]);
    import(&db, "t", &[path]);
    let expected = [
        "-999999999999999999999999999999999.99999",
        "0.00001",
        "92233720368547.75808",
        "999999999999999999999999999999999.99999",
        "NULL",
    ];
    assert_eq!(
        query(&db, "SELECT d FROM t ORDER BY d NULLS LAST").await,
        expected
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_finds_wide_decimals_with_and_without_a_dictionary() {
    let (_dir, db) = new_pool();
    // In the first table 20,000 different values, which have no dictionary; in the second 50; in the third
    // none that is wide.
    for (name, of_row) in [
        ("many", "v * 3"),
        ("few", "v % 50"),
        ("narrow", "CAST(v AS DECIMAL(38,0)) / 100000000000000000000"),
    ] {
        run(
            &db,
            &format!(
                "CREATE TABLE {name} AS SELECT CAST({of_row} AS DECIMAL(38,0)) * 100000000000000000000 AS d, v AS id \
                 FROM generate_series(1, 20000) AS s(v)"
            ),
        )
        .await;
        run(&db, &format!("CREATE INDEX {name}_d ON {name} (d)")).await;
        run(&db, "SET halocline.index = force").await;
        let text = format!(
            "SELECT count(*), sum(id) FROM {name} WHERE d BETWEEN 1000000000000000000000 AND 3000000000000000000000"
        );
        let plan = query(&db, &format!("EXPLAIN {text}")).await.join("\n");
        assert!(plan.contains("ElfScan"), "{plan}");
        let found = query(&db, &text).await;
        run(&db, "SET halocline.index = off").await;
        assert_eq!(query(&db, &text).await, found, "{name}");
        let expected = match name {
            "many" => "7|49",
            "few" => "8400|83958000",
            _ => "0|NULL",
        };
        assert_eq!(found, [expected], "{name}");
    }
}
