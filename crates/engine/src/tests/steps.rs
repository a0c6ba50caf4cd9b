//! Random steps for the model test.

use rand::Rng;
use rand::rngs::StdRng;

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// A change of rows, the same for both.
    TableChange(String),
    /// A statement that must fail and change nothing.
    Refused(String),
    /// A statement that changes no row.
    Arrange(String),
    /// One more column, with the value that the rows there are have in it.
    AddColumn(String, i64),
    Begin,
    Commit,
    Rollback,
    /// The database is closed and opened again.
    Reopen,
    /// The power fails at a moment of the step inside, or of COMMIT in a transaction; the number draws what
    /// is left.
    Crash(Box<Step>, u64),
    /// A query; both must agree on its rows.
    Compare(String),
}

fn number(rng: &mut StdRng) -> i64 {
    rng.random_range(-20..60)
}

fn row(rng: &mut StdRng) -> String {
    let mut nullable = |value: &str| match rng.random_range(0..6) {
        0 => "NULL".to_string(),
        _ => value.to_string(),
    };
    let (text, price) = (nullable("'a text that does not fit a view'"), nullable("12.5"));
    let day = nullable("'2024-02-29'");
    let (id, k) = (number(rng), number(rng));
    format!("({id}, {k}, {text}, {price}, {day})")
}

fn condition(rng: &mut StdRng) -> String {
    let (a, b) = (number(rng), number(rng));
    match rng.random_range(0..7) {
        0 => format!("id = {a}"),
        1 => format!("id BETWEEN {} AND {}", a.min(b), a.max(b)),
        2 => format!("k < {a}"),
        3 => "s IS NULL".into(),
        4 => format!("p > {a}.5 OR k = {b}"),
        5 => format!("k IN ({a}, {b}, 7) AND id > {b}"),
        _ => "s LIKE 'a%'".into(),
    }
}

/// The columns that are there from the beginning.
const COLUMNS: &str = "id, k, s, p, d";

fn insert(rng: &mut StdRng) -> Step {
    let rows: Vec<String> = (0..rng.random_range(1..5)).map(|_| row(rng)).collect();
    Step::TableChange(format!("INSERT INTO t ({COLUMNS}) VALUES {}", rows.join(", ")))
}

fn many(rng: &mut StdRng) -> Step {
    let (from, rows) = (rng.random_range(-20..40), rng.random_range(4..30));
    Step::TableChange(format!(
        "INSERT INTO t ({COLUMNS}) SELECT i, i % 5, 'text ' || (i % 3), NULL, '2001-01-01' FROM generate_series({from}, {}) AS g(i)",
        from + rows
    ))
}

fn update(rng: &mut StdRng) -> Step {
    let set = match rng.random_range(0..4) {
        0 => format!("k = {}", number(rng)),
        1 => "s = 'changed', p = NULL".into(),
        2 => "id = id + 1, k = k - 1".into(),
        _ => "d = '1999-12-31', p = 3.25".into(),
    };
    Step::TableChange(format!("UPDATE t SET {set} WHERE {}", condition(rng)))
}

/// Returns a statement that changes the placement of the index of an earlier step, if that step created one.
fn place_index(rng: &mut StdRng, place: usize) -> String {
    let (index, placement) = (rng.random_range(0..=place), rng.random_range(0..4));
    let placement = ["volatile", "volatile", "slow-only", "hybrid"][placement];
    format!("ALTER INDEX IF EXISTS x{index} SET (placement = '{placement}')")
}

/// Draws a random step, the `place`-th of its sequence.
pub(crate) fn draw(rng: &mut StdRng, place: usize) -> Step {
    match rng.random_range(0..52) {
        0..=10 => insert(rng),
        11..=14 => many(rng),
        15 if rng.random_bool(0.5) => Step::TableChange(format!(
            "INSERT INTO t (s, id) VALUES ('with defaults', {}), (NULL, {})",
            number(rng),
            number(rng)
        )),
        15 => Step::TableChange(format!(
            "INSERT INTO t (id, k) SELECT id + 1, k FROM t WHERE {}",
            condition(rng)
        )),
        16..=20 => Step::TableChange(format!("DELETE FROM t WHERE {}", condition(rng))),
        21 => Step::TableChange("DELETE FROM t".into()),
        22 => Step::TableChange(format!("DELETE FROM t WHERE id % {} = 0", rng.random_range(2..9))),
        23..=27 => update(rng),
        28 => Step::Refused(format!(
            "INSERT INTO t ({COLUMNS}) VALUES {}, (NULL, 1, NULL, NULL, NULL)",
            row(rng)
        )),
        // The table that is there has gone when this fails.
        29 if rng.random_bool(0.5) => Step::Refused(
            "CREATE OR REPLACE TABLE t AS SELECT CAST('x' || i AS bigint) AS id FROM generate_series(1, 9) AS g(i)"
                .into(),
        ),
        29 => Step::Refused("UPDATE t SET id = NULL, k = 0 WHERE id > -100 OR id = 0".into()),
        // Some rows are stored before one is refused.
        30 => Step::Refused(format!(
            "INSERT INTO t (id, k) SELECT CASE WHEN i < {} THEN i END, 1 FROM generate_series(1, 30) AS g(i)",
            rng.random_range(1..30)
        )),
        31..=32 => Step::Begin,
        33..=34 => Step::Commit,
        35 => Step::Rollback,
        36 => Step::Reopen,
        37 => {
            let with = ["", " WITH (placement = 'volatile')"][rng.random_range(0..2)];
            Step::Arrange(format!("CREATE INDEX x{place} ON t (k, id, s){with}"))
        }
        38 => Step::Arrange(format!("CREATE TABLE other{place} AS SELECT id FROM t")),
        39..=40 => Step::Arrange("VACUUM t".into()),
        41 if rng.random_bool(0.6) => Step::Arrange(place_index(rng, place)),
        41 => Step::Arrange("VACUUM FULL t".into()),
        42 => Step::Arrange("ALTER TABLE t CLUSTER BY (s, id)".into()),
        43 => Step::AddColumn(format!("c{place}"), number(rng)),
        44 => Step::TableChange("TRUNCATE t".into()),
        45..=48 => {
            let inside = match rng.random_range(0..7) {
                6 => Step::Arrange(place_index(rng, place)),
                0 => insert(rng),
                1 => many(rng),
                2 => update(rng),
                3 => Step::TableChange(format!("DELETE FROM t WHERE {}", condition(rng))),
                4 => Step::Arrange("VACUUM t".into()),
                _ => Step::Arrange(format!("CREATE INDEX x{place} ON t (id, k)")),
            };
            Step::Crash(Box::new(inside), rng.random())
        }
        49 => Step::Compare("SELECT count(*), min(id), max(k), count(s) FROM t".into()),
        _ => Step::Compare(format!(
            "SELECT count(*), min(id), max(k), count(s) FROM t WHERE {}",
            condition(rng)
        )),
    }
}
