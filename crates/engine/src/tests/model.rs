//! Random sequences of statements beside a model: plain DataFusion over a table in memory that gets the same
//! ones.
//!
//! Few rows make a segment here and few records fill the log, so that short sequences come everywhere.
//! `HALOCLINE_SEQUENCES` says how many sequences are tried, `HALOCLINE_SEED` which one is the first. One that
//! fails is made as short as possible, and printed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::physical_plan::collect;
use datafusion::prelude::{Expr, SessionConfig, SessionContext, lit};
use halocline_catalog::tuning::EngineFault;
use halocline_explore::{CrashRecorder, Tracked};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::runtime::{Builder, Runtime};

use super::steps::{Step, draw};
use super::{check, create, open, rows, small, sorted};
use crate::{Compaction, Database};

/// Sequences tried unless told otherwise.
const SEQUENCES: u64 = 32;
/// Steps of a sequence.
const STEPS: usize = 24;
/// Attempts to shorten a sequence that fails.
const ATTEMPTS: usize = 150;
/// Threads that play sequences.
const THREADS: usize = 2;

const TABLE: &str =
    "CREATE TABLE t (id bigint NOT NULL, k int DEFAULT 7, s varchar, p decimal(10,2), d date)";

/// The table as plain DataFusion has it.
struct Model {
    context: SessionContext,
    /// The rows when the transaction began.
    before: Option<Vec<RecordBatch>>,
    /// Defaults by column, also of columns that a rollback has taken away.
    defaults: HashMap<String, Expr>,
}

impl Model {
    async fn new() -> Result<Self, String> {
        let config = SessionConfig::new().with_target_partitions(1);
        let model = Self {
            context: SessionContext::new_with_config(config),
            before: None,
            defaults: HashMap::from([("k".to_string(), lit(7))]),
        };
        model.rows(TABLE).await?;
        Ok(model)
    }

    async fn rows(&self, text: &str) -> Result<Vec<RecordBatch>, String> {
        let frame = self.context.sql(text).await;
        let frame = frame.map_err(|error| format!("model: {text}: {error}"))?;
        frame
            .collect()
            .await
            .map_err(|error| format!("model: {text}: {error}"))
    }

    async fn table(&self) -> Result<Arc<dyn TableProvider>, String> {
        let table = self.context.table_provider("t").await;
        table.map_err(|error| error.to_string())
    }

    async fn columns(&self) -> Result<usize, String> {
        Ok(self.table().await?.schema().fields().len())
    }

    /// Returns all rows, after a batch without rows that has the schema.
    async fn all(&self) -> Result<Vec<RecordBatch>, String> {
        let table = self.table().await?;
        let scan = table.scan(&self.context.state(), None, &[], None).await;
        let plan = scan.map_err(|error| error.to_string())?;
        let batches = collect(plan, self.context.task_ctx()).await;
        let mut all = vec![RecordBatch::new_empty(table.schema())];
        all.extend(batches.map_err(|error| error.to_string())?);
        Ok(all)
    }

    /// Takes the one statement in.
    async fn change(&self, text: &str) -> Result<(), String> {
        if text.starts_with("TRUNCATE") {
            let empty = RecordBatch::new_empty(self.table().await?.schema());
            return self.replace(vec![empty]);
        }
        self.rows(text).await.map(|_| ())
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
        let batches = batches.map_err(|error| error.to_string())?;
        let table =
            MemTable::try_new(Arc::clone(&schema), vec![batches]).map_err(|error| error.to_string())?;
        let mut defaults = self.defaults.clone();
        defaults.retain(|column, _| schema.index_of(column).is_ok());
        let table = table.with_column_defaults(defaults);
        let replaced = || {
            self.context.deregister_table("t")?;
            self.context.register_table("t", Arc::new(table))
        };
        replaced().map(|_| ()).map_err(|error| error.to_string())
    }

    async fn roll_back(&mut self) -> Result<(), String> {
        match self.before.take() {
            Some(before) => self.replace(before),
            None => Ok(()),
        }
    }
}

/// Both, side by side.
struct Game {
    medium: Arc<Tracked>,
    db: Option<Database>,
    model: Model,
    compaction: Compaction,
    injected: Option<EngineFault>,
}

impl Game {
    async fn new(compaction: Compaction, injected: Option<EngineFault>) -> Result<Self, String> {
        let medium = Arc::new(Tracked::new(0).map_err(|error| error.to_string())?);
        let db = create(&medium, compaction, small(injected));
        rows(&db, TABLE).await?;
        let model = Model::new().await?;
        Ok(Self {
            medium,
            db: Some(db),
            model,
            compaction,
            injected,
        })
    }

    fn db(&self) -> Result<&Database, String> {
        self.db
            .as_ref()
            .ok_or_else(|| "the database is closed".to_string())
    }

    async fn run(&self, text: &str) -> Result<(), String> {
        rows(self.db()?, text).await.map(|_| ())
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.db = None;
        self.db = Some(open(&self.medium, self.compaction, small(self.injected))?);
        Ok(())
    }

    async fn play(&mut self, step: &Step) -> Result<(), String> {
        let inside = self.model.before.is_some();
        match step {
            Step::TableChange(text) => {
                self.run(text).await?;
                self.model.change(text).await?;
            }
            Step::Refused(text) => {
                let rows: usize = self.model.all().await?.iter().map(|b| b.num_rows()).sum();
                let nothing = text.starts_with("UPDATE") && rows == 0;
                if self.run(text).await.is_ok() && !nothing {
                    return Err("it was not refused".into());
                }
            }
            Step::Arrange(text) if inside && text.starts_with("VACUUM") => {}
            Step::Arrange(text) => self.run(text).await?,
            Step::AddColumn(column, value) => {
                let add = format!("ALTER TABLE t ADD COLUMN {column} bigint DEFAULT {value}");
                self.run(&add).await?;
                self.model.defaults.insert(column.clone(), lit(*value));
                let wider = format!("SELECT *, CAST({value} AS bigint) AS {column} FROM t");
                let frame = self.model.context.sql(&wider).await;
                let frame = frame.map_err(|error| error.to_string())?;
                let mut all = vec![RecordBatch::new_empty(Arc::new(
                    frame.schema().as_arrow().clone(),
                ))];
                all.extend(frame.collect().await.map_err(|error| error.to_string())?);
                self.model.replace(all)?;
            }
            Step::Begin if inside => {}
            Step::Begin => {
                self.run("BEGIN").await?;
                self.model.before = Some(self.model.all().await?);
            }
            Step::Commit if inside => {
                self.run("COMMIT").await?;
                self.model.before = None;
            }
            Step::Rollback if inside => {
                self.run("ROLLBACK").await?;
                self.model.roll_back().await?;
            }
            Step::Commit | Step::Rollback => {}
            Step::Reopen => {
                self.reopen()?;
                self.model.roll_back().await?;
            }
            Step::Crash(step, seed) => self.crash(step, *seed).await?,
            Step::Compare(text) => {
                let expected = sorted(&self.model.rows(text).await?);
                for mode in ["off", "force"] {
                    self.run(&format!("SET halocline.index = {mode}")).await?;
                    let found = sorted(&rows(self.db()?, text).await?);
                    if found != expected {
                        return Err(format!("index = {mode}: {found:?} instead of {expected:?}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Simulates a power failure during a step. The state before the step or the one after it must survive.
    async fn crash(&mut self, step: &Step, seed: u64) -> Result<(), String> {
        let before = match self.model.before.take() {
            Some(before) => before,
            None => self.model.all().await?,
        };
        let text = match step {
            Step::TableChange(text) | Step::Arrange(text) if !self.is_open() => text.as_str(),
            _ => "COMMIT",
        };
        let medium = Arc::clone(&self.medium);
        let recorder = CrashRecorder::start(&medium);
        self.run(text).await?;
        let crash = recorder.crash(seed);
        self.db = None;
        self.medium = Arc::new(Tracked::from_image(&crash.bytes).map_err(|error| error.to_string())?);
        self.reopen()?;
        if text != "COMMIT" && matches!(step, Step::TableChange(_)) {
            self.model.change(text).await?;
        }
        if !crash.complete
            && (self.columns()? != self.model.columns().await? || self.compare().await.is_err())
        {
            self.model.replace(before)?;
        }
        check(self.db()?)
    }

    /// Returns the number of columns of the table.
    fn columns(&self) -> Result<usize, String> {
        let info = self.db()?.info().map_err(|error| error.to_string())?;
        let table = info.tables.iter().find(|table| table.name == "t");
        Ok(table.map_or(0, |table| table.columns.len()))
    }

    /// Returns true if the session has a transaction.
    fn is_open(&self) -> bool {
        self.db.as_ref().is_some_and(Database::in_transaction)
    }

    /// Checks that the database and the model have the same rows.
    async fn compare(&self) -> Result<(), String> {
        let expected = sorted(&self.model.all().await?);
        let found = sorted(&rows(self.db()?, "SELECT * FROM t").await?);
        if found == expected {
            return Ok(());
        }
        let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
        let at = differs.unwrap_or(found.len().min(expected.len()));
        Err(format!(
            "{} rows instead of {}; sorted row {at} is {:?} instead of {:?}",
            found.len(),
            expected.len(),
            found.get(at),
            expected.get(at)
        ))
    }
}

/// Runs the steps against both; the error of the first disagreement.
async fn play(steps: &[Step], compaction: Compaction, injected: Option<EngineFault>) -> Result<(), String> {
    let mut game = Game::new(compaction, injected).await?;
    for (place, step) in steps.iter().enumerate() {
        let said = |error: String| format!("step {place}, {step:?}: {error}");
        game.play(step).await.map_err(said)?;
        game.compare().await.map_err(said)?;
    }
    game.play(&Step::Commit).await?;
    game.reopen()?;
    game.compare().await?;
    check(game.db()?)
}

/// Removes the steps that the failure does not need, as far as the number of attempts allows.
async fn shortened(mut steps: Vec<Step>, compaction: Compaction) -> Vec<Step> {
    let (mut size, mut attempts) = (steps.len() / 2, 0);
    while size > 0 && attempts < ATTEMPTS {
        let mut start = 0;
        while start < steps.len() && attempts < ATTEMPTS {
            let mut fewer = steps.clone();
            fewer.drain(start..steps.len().min(start + size));
            attempts += 1;
            match play(&fewer, compaction, None).await {
                Err(_) => steps = fewer,
                Ok(()) => start += size,
            }
        }
        size /= 2;
    }
    steps
}

pub(super) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Plays sequences until one fails; what is wrong with it then.
pub(super) fn first_failure(
    seeds: impl Iterator<Item = u64>,
    injected: Option<EngineFault>,
) -> Option<String> {
    let runtime = runtime();
    for seed in seeds {
        let mut rng = StdRng::seed_from_u64(seed);
        let steps: Vec<Step> = (0..STEPS).map(|place| draw(&mut rng, place)).collect();
        // Every other one with compaction in the background.
        let compaction = match seed % 2 {
            0 => Compaction::Auto,
            _ => Compaction::Off,
        };
        if let Err(error) = runtime.block_on(play(&steps, compaction, injected)) {
            if injected.is_some() {
                return Some(error);
            }
            let short = runtime.block_on(shortened(steps, compaction));
            let again = runtime.block_on(play(&short, compaction, None)).err();
            let listed: Vec<String> = short.iter().map(|step| format!("{step:?}")).collect();
            return Some(format!(
                "HALOCLINE_SEED={seed}: {error}\nshortened:\n{}\n{}",
                listed.join("\n"),
                again.unwrap_or_default()
            ));
        }
    }
    None
}

fn environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[expect(clippy::print_stdout, reason = "the seed repeats a failure")]
#[test]
fn random_statements_agree_with_the_model() {
    let clock = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    };
    let first = environment("HALOCLINE_SEED").unwrap_or_else(clock);
    let count = environment("HALOCLINE_SEQUENCES").unwrap_or(SEQUENCES);
    println!("HALOCLINE_SEED={first} HALOCLINE_SEQUENCES={count}");
    let next = AtomicU64::new(first);
    let seeds = || {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        (seed < first + count).then_some(seed)
    };
    std::thread::scope(|scope| {
        let players = (0..THREADS).map(|_| scope.spawn(|| first_failure(std::iter::from_fn(seeds), None)));
        for player in players.collect::<Vec<_>>() {
            if let Some(failure) = player.join().unwrap() {
                panic!("{failure}");
            }
        }
    });
}
