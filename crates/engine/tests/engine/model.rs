//! Random sequences of statements beside a model: plain DataFusion over a table in memory that gets the same ones.
//!
//! `HALOCLINE_SEQUENCES` says how many sequences are tried, `HALOCLINE_SEED` which one is the first. One that fails is
//! made as short as possible, and printed.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use halocline_engine::{Database, DatabaseOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::support::{lines, new_pool, reopen};

/// Sequences tried unless told otherwise.
const SEQUENCES: u64 = 16;
/// Steps of a sequence.
const STEPS: usize = 24;
/// Attempts to shorten a sequence that fails.
const ATTEMPTS: usize = 150;

/// One step.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    /// A change of rows, the same for both.
    Change(String),
    /// A statement that must fail and change nothing.
    Refused(String),
    /// A statement that changes no row.
    Arrange(String),
    /// One more column, with the value that the rows there are have in it.
    AddColumn(String, String),
    Begin,
    Commit,
    Rollback,
    Reopen,
    /// A query; both must agree on its rows.
    Compare(String),
}

fn number(rng: &mut StdRng) -> i64 {
    rng.random_range(-20..120)
}

fn row(rng: &mut StdRng) -> String {
    let mut nullable = |value: String| match rng.random_range(0..6) {
        0 => "NULL".to_string(),
        _ => value,
    };
    let (text, price) = (
        nullable("'a text that does not fit a view'".into()),
        nullable("12.5".into()),
    );
    let day = nullable("'2024-02-29'".into());
    let k = nullable(String::new());
    let k = if k.is_empty() { number(rng).to_string() } else { k };
    format!("({}, {k}, {text}, {price}, {day})", number(rng))
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

fn step(rng: &mut StdRng, number_of: usize) -> Step {
    let columns = "id, k, s, p, d";
    match rng.random_range(0..44) {
        0..=8 => {
            let rows: Vec<String> = (0..rng.random_range(1..6)).map(|_| row(rng)).collect();
            Step::Change(format!("INSERT INTO t ({columns}) VALUES {}", rows.join(", ")))
        }
        9..=10 => {
            let (from, rows) = (rng.random_range(-20..100), rng.random_range(900..2500));
            Step::Change(format!(
                "INSERT INTO t ({columns}) SELECT i, i % 50, 'text ' || (i % 9), NULL, '2001-01-01' FROM generate_series({from}, {}) AS g(i)",
                from + rows
            ))
        }
        11 => Step::Change(format!(
            "INSERT INTO t (id, k) SELECT id + 1, k FROM t WHERE {}",
            condition(rng)
        )),
        12..=15 => Step::Change(format!("DELETE FROM t WHERE {}", condition(rng))),
        16 => Step::Change("DELETE FROM t".into()),
        17..=20 => {
            let set = match rng.random_range(0..4) {
                0 => format!("k = {}", number(rng)),
                1 => "s = 'changed', p = NULL".into(),
                2 => "id = id + 1, k = k - 1".into(),
                _ => "d = '1999-12-31', p = 3.25".into(),
            };
            Step::Change(format!("UPDATE t SET {set} WHERE {}", condition(rng)))
        }
        21 => Step::Refused(format!(
            "INSERT INTO t ({columns}) VALUES {}, (NULL, 1, NULL, NULL, NULL)",
            row(rng)
        )),
        22 => Step::Refused("UPDATE t SET id = NULL, k = 0 WHERE id > -100 OR id = 0".into()),
        23..=24 => Step::Begin,
        25..=26 => Step::Commit,
        27 => Step::Rollback,
        28..=29 => Step::Reopen,
        30 => Step::Arrange(format!("CREATE INDEX x{number_of} ON t (k, id, s)")),
        31 => Step::Arrange(format!("CREATE TABLE other{number_of} AS SELECT id FROM t")),
        32..=33 => Step::Arrange("VACUUM t".into()),
        40 => Step::Arrange("VACUUM FULL t".into()),
        41 => Step::Arrange("ALTER TABLE t CLUSTER BY (s, id)".into()),
        42 => Step::Change(format!("DELETE FROM t WHERE id % {} = 0", rng.random_range(2..9))),
        43 => Step::Change("UPDATE t SET k = 5 WHERE id > 30".into()),
        34 => Step::AddColumn(format!("c{number_of} bigint"), number(rng).to_string()),
        _ => Step::Compare(format!(
            "SELECT count(*), min(id), max(k), count(s) FROM t WHERE {}",
            condition(rng)
        )),
    }
}

/// The table as plain DataFusion has it.
struct Model {
    context: SessionContext,
    /// The rows when the transaction began.
    before: Option<Vec<RecordBatch>>,
}

impl Model {
    /// The rows of a query, after a batch without rows that tells its columns.
    async fn rows(&self, text: &str) -> Result<Vec<RecordBatch>, String> {
        let frame = self
            .context
            .sql(text)
            .await
            .map_err(|e| format!("model: {text}: {e}"))?;
        let mut rows = vec![RecordBatch::new_empty(Arc::new(
            frame.schema().as_arrow().clone(),
        ))];
        rows.extend(frame.collect().await.map_err(|e| format!("model: {text}: {e}"))?);
        Ok(rows)
    }

    async fn all(&self) -> Result<Vec<RecordBatch>, String> {
        self.rows("SELECT * FROM t").await
    }

    fn replace(&self, batches: Vec<RecordBatch>) -> Result<(), String> {
        // A query promises more of its rows than the table does.
        let fields = batches[0].schema();
        let fields = fields.fields().iter().map(|field| {
            let nullable = field.name() != "id";
            field.as_ref().clone().with_nullable(nullable)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let of_table =
            |batch: &RecordBatch| RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec());
        let batches: Result<Vec<_>, _> = batches.iter().map(of_table).collect();
        let batches = batches.map_err(|e| e.to_string())?;
        let table = MemTable::try_new(schema, vec![batches]).map_err(|e| e.to_string())?;
        self.context.deregister_table("t").map_err(|e| e.to_string())?;
        self.context
            .register_table("t", Arc::new(table))
            .map_err(|e| e.to_string())?;
        Ok(())
    }
}

const TABLE: &str = "CREATE TABLE t (id bigint NOT NULL, k int, s varchar, p decimal(10,2), d date)";

/// Runs the steps against both; the error of the first disagreement.
async fn play(steps: &[Step]) -> Result<(), String> {
    let (dir, mut db) = new_pool();
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    let mut model = Model {
        context,
        before: None,
    };
    model.rows(TABLE).await?;
    run(&db, TABLE).await?;
    for (number, step) in steps.iter().enumerate() {
        let said = |error: String| format!("step {number}, {step:?}: {error}");
        match step {
            Step::Change(text) => {
                run(&db, text).await.map_err(said)?;
                model.rows(text).await.map_err(said)?;
            }
            Step::Refused(text) => {
                let empty =
                    text.starts_with("UPDATE") && model.all().await?.iter().all(|b| b.num_rows() == 0);
                if run(&db, text).await.is_ok() && !empty {
                    return Err(said("it was not refused".into()));
                }
            }
            Step::Arrange(text) if model.before.is_some() && text.starts_with("VACUUM") => {}
            Step::Arrange(text) => run(&db, text).await.map_err(said)?,
            Step::AddColumn(column, value) => {
                run(&db, &format!("ALTER TABLE t ADD COLUMN {column} DEFAULT {value}"))
                    .await
                    .map_err(said)?;
                let name = column.split(' ').next().unwrap_or_default();
                let wider = format!("SELECT *, CAST({value} AS bigint) AS {name} FROM t");
                model.replace(model.rows(&wider).await?)?;
            }
            Step::Begin if model.before.is_none() => {
                run(&db, "BEGIN").await.map_err(said)?;
                model.before = Some(model.all().await?);
            }
            Step::Commit if model.before.take().is_some() => run(&db, "COMMIT").await.map_err(said)?,
            Step::Rollback => {
                if let Some(before) = model.before.take() {
                    run(&db, "ROLLBACK").await.map_err(said)?;
                    model.replace(before)?;
                }
            }
            Step::Reopen => {
                drop(db);
                db = reopen(&dir, &DatabaseOptions::default());
                if let Some(before) = model.before.take() {
                    model.replace(before)?;
                }
            }
            Step::Compare(text) => compare(&db, &model, text).await.map_err(said)?,
            Step::Begin | Step::Commit => {}
        }
        compare(&db, &model, "SELECT * FROM t").await.map_err(said)?;
    }
    if model.before.take().is_some() {
        run(&db, "COMMIT").await?;
    }
    drop(db);
    let db = reopen(&dir, &DatabaseOptions::default());
    for text in [
        "SELECT * FROM t",
        "SELECT count(*), sum(id), min(k), max(s), count(d) FROM t WHERE k > 5",
    ] {
        compare(&db, &model, text).await?;
    }
    match db.check(&mut |_| ()).map_err(|e| e.to_string())?.problems {
        problems if problems.is_empty() => Ok(()),
        problems => Err(format!("check: {}", problems.join("; "))),
    }
}

async fn run(db: &Database, text: &str) -> Result<(), String> {
    let result = db.sql(text).await.map_err(|e| format!("{text}: {e}"))?;
    result.collect().await.map_err(|e| format!("{text}: {e}"))?;
    Ok(())
}

async fn compare(db: &Database, model: &Model, text: &str) -> Result<(), String> {
    let sorted = |batches: &[RecordBatch]| {
        let mut lines = lines(batches);
        lines.sort_unstable();
        lines
    };
    let expected = sorted(&model.rows(text).await?);
    let modes: &[&str] = if text.contains("WHERE") {
        &["off", "force"]
    } else {
        &["auto"]
    };
    for mode in modes {
        run(db, &format!("SET halocline.index = {mode}")).await?;
        let answer = db.sql(text).await.map_err(|e| format!("{text}: {e}"))?;
        let found = sorted(&answer.collect().await.map_err(|e| format!("{text}: {e}"))?);
        if found != expected {
            let at = found
                .iter()
                .zip(&expected)
                .position(|(a, b)| a != b)
                .unwrap_or(found.len().min(expected.len()));
            return Err(format!(
                "index = {mode}, {text}: {} rows instead of {}; sorted row {at} is {:?} instead of {:?}",
                found.len(),
                expected.len(),
                found.get(at),
                expected.get(at)
            ));
        }
    }
    Ok(())
}

/// The steps without those that the failure does not need.
async fn shortened(mut steps: Vec<Step>) -> Vec<Step> {
    let (mut size, mut attempts) = (steps.len() / 2, 0);
    while size > 0 && attempts < ATTEMPTS {
        let mut start = 0;
        while start < steps.len() && attempts < ATTEMPTS {
            let mut fewer = steps.clone();
            fewer.drain(start..steps.len().min(start + size));
            attempts += 1;
            match play(&fewer).await {
                Err(_) => steps = fewer,
                Ok(()) => start += size,
            }
        }
        size /= 2;
    }
    steps
}

fn environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[expect(clippy::print_stdout, reason = "the seed repeats a failure")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_statements_agree_with_the_model() {
    let clock = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    };
    let first = environment("HALOCLINE_SEED").unwrap_or_else(clock);
    for seed in first..first + environment("HALOCLINE_SEQUENCES").unwrap_or(SEQUENCES) {
        println!("HALOCLINE_SEED={seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let steps: Vec<Step> = (0..STEPS).map(|number| step(&mut rng, number)).collect();
        if let Err(error) = play(&steps).await {
            let short = shortened(steps).await;
            let again = play(&short).await.err().unwrap_or_else(|| error.clone());
            let listed: Vec<String> = short.iter().map(|step| format!("{step:?}")).collect();
            panic!(
                "HALOCLINE_SEED={seed}: {error}\nshortened:\n{}\n{again}",
                listed.join("\n")
            );
        }
    }
}
