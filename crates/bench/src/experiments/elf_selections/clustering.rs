//! The effect of clustering: the same selections on rows in the order of an index's columns, and on rows in
//! the order of arrival.
//!
//! Both tables have one index over the same columns. Asked for are the rows' number (`count`, through the
//! index's own API) and sums over a packed and over a text column that are not indexed (`sum`, `sum_text`; in
//! SQL, with the index, without it, and as the engine chooses), for which the rows must be fetched.

use std::path::Path;
use std::time::Instant;

use arrow_array::RecordBatch;
use halocline_columns::Table;
use halocline_elf::TableIndex;
use halocline_emulator::Watch;
use halocline_engine::{Database, DatabaseOptions, IndexSpec, Order};
use halocline_pool::{Pool, PoolOptions};
use halocline_workloads::{Conjunction, Literal, Predicate, tpch_selections};
use tokio::runtime::Runtime;

use super::translate;
use crate::{BenchError, Reporter, Samples, Settings, config};

/// Columns of the index, and of the clustering.
const COLUMNS: [&str; 3] = ["l_shipdate", "l_discount", "l_quantity"];
/// Name of the table, and what the configuration says of its clustering.
const TABLES: [(&str, &str); 2] = [
    ("unclustered", "none"),
    ("clustered", "l_shipdate, l_discount, l_quantity"),
];
/// Result of a query: a count or a sum.
const SUMS: [(&str, &str); 2] = [
    ("sum", "sum(l_extendedprice)"),
    ("sum_text", "sum(length(l_comment))"),
];
/// Systems that are queried with SQL, each with its value of `halocline.index`.
const MODES: [(&str, &str); 3] = [("sql-index", "force"), ("sql-scan", "off"), ("sql", "auto")];

/// Both tables, open.
struct Tables {
    runtime: Runtime,
    database: Database,
    open: Vec<(Table, TableIndex)>,
}

pub(super) fn run(
    pool: &Path,
    parquet: &Path,
    settings: &Settings,
    repetitions: usize,
    report: &mut Reporter<'_>,
) -> Result<(), BenchError> {
    let tables = Tables::make(pool, parquet, settings, report)?;
    selections()
        .iter()
        .try_for_each(|selection| tables.measure(selection, repetitions, report))
}

/// Returns the selections of TPC-H on the indexed columns except Q1, ranges of days, and conjunctions without
/// the first indexed column.
fn selections() -> Vec<Conjunction> {
    let days = |count: i32| {
        let Literal::Date(first) = Literal::date(1994, 1, 1) else {
            unreachable!("a date")
        };
        Predicate::between(
            "l_shipdate",
            Literal::Date(first),
            Literal::Date(first + count - 1),
        )
    };
    let discount = || Predicate::between("l_discount", Literal::Cents(5), Literal::Cents(7));
    let quantity = || Predicate::between("l_quantity", Literal::Cents(100), Literal::Cents(200));
    let mut selections = tpch_selections();
    selections.retain(|selection| {
        let mut predicates = selection.predicates.iter();
        selection.name != "Q1" && predicates.all(|one| COLUMNS.contains(&one.column.as_str()))
    });
    for count in [1, 7, 30, 91, 365] {
        selections.push(Conjunction::new(&format!("{count} days"), vec![days(count)]));
    }
    selections.push(Conjunction::new("7 days, discount", vec![days(7), discount()]));
    selections.push(Conjunction::new(
        "discount, quantity",
        vec![discount(), quantity()],
    ));
    selections
}

impl Tables {
    /// Makes both tables from the file, and their indexes; reports times and sizes.
    fn make(
        pool: &Path,
        parquet: &Path,
        settings: &Settings,
        report: &mut Reporter<'_>,
    ) -> Result<Self, BenchError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(settings.threads())
            .enable_all()
            .build()?;
        let options = DatabaseOptions::default().with_threads(Some(settings.threads()));
        let database = Database::create(pool, &options)?;
        let made_on = database.info()?.pool.medium;
        let sql = |text: &str| runtime.block_on(async { database.sql(text).await?.collect().await });
        let [(plain, _), (clustered, _)] = TABLES;
        let columns = COLUMNS.join(", ");
        sql(&format!(
            "CREATE TABLE {plain} AS SELECT {columns}, l_extendedprice, l_comment FROM '{}'",
            parquet.display()
        ))?;
        let start = Instant::now();
        sql(&format!("CREATE TABLE {clustered} AS SELECT * FROM {plain}"))?;
        sql(&format!("ALTER TABLE {clustered} CLUSTER BY ({columns})"))?;
        sql(&format!("VACUUM FULL {clustered}"))?;
        let sorted = start.elapsed().as_secs_f64();
        let mut said = Vec::new();
        for (table, clustering) in TABLES {
            let start = Instant::now();
            let spec = IndexSpec::new(format!("{table}_elf"), table, COLUMNS).with_order(Order::Given);
            let index = database.create_index(&spec)?;
            let config = config! {"clustering": clustering, "medium": made_on};
            report.value("elf", &config, "build", start.elapsed().as_secs_f64(), "s")?;
            report.value("elf", &config, "size", index.bytes as f64, "bytes")?;
            said.push(format!("{:.1} MB {table}", index.bytes as f64 / 1e6));
        }
        report.line(&format!(
            "copied and clustered in {sorted:.1} s; the index takes {}",
            said.join(", ")
        ))?;
        drop(database);
        let medium = settings.pool_medium()?;
        let database = Database::open(pool, &options.with_medium(medium))?;
        let read_only = PoolOptions::default().with_read_only(true);
        // One device for both: at any time only one of them is asked.
        let snapshot = match database.device() {
            None => Pool::open(pool, &read_only)?,
            Some(device) => Pool::open_wrapped(pool, &read_only, |medium| device.emulate(medium))?,
        };
        let snapshot = snapshot.snapshot()?;
        let open = |(table, _): (&str, &str)| {
            Ok::<_, BenchError>((
                Table::open(&snapshot, table)?,
                TableIndex::open(&snapshot, &format!("{table}_elf"))?,
            ))
        };
        Ok(Self {
            open: TABLES.into_iter().map(open).collect::<Result<_, _>>()?,
            runtime,
            database,
        })
    }

    fn sql(&self, text: &str) -> Result<Vec<RecordBatch>, BenchError> {
        let answer = async { self.database.sql(text).await?.collect().await };
        Ok(self.runtime.block_on(answer)?)
    }

    /// Measures one selection in every way; the first round warms up.
    fn measure(
        &self,
        selection: &Conjunction,
        repetitions: usize,
        report: &mut Reporter<'_>,
    ) -> Result<(), BenchError> {
        let total = self.open[0].0.rows() as f64;
        let rows = translate::count_by_index(&self.open[0].0, &self.open[0].1, selection)?;
        let selectivity = rows as f64 / total;
        let of = |clustering: &str| {
            config! {
                "clustering": clustering,
                "selection": selection.name,
                "where": selection.where_clause(),
                "selected_rows": rows,
                "selectivity": selectivity,
            }
        };
        for ((table, index), (_, clustering)) in self.open.iter().zip(TABLES) {
            let mut samples = Samples::default();
            for round in 0..=repetitions {
                let watch = Watch::start(self.database.device());
                let found = translate::count_by_index(table, index, selection)?;
                if round > 0 {
                    samples.push(watch.elapsed().as_secs_f64() * 1e3);
                }
                same(selection, rows, found)?;
            }
            report.samples("elf", &of(clustering), "count", &samples, "ms")?;
        }
        for (metric, sum) in SUMS {
            for (system, mode) in MODES {
                self.sql(&format!("SET halocline.index = '{mode}'"))?;
                let times = self.sums(selection, sum, repetitions)?;
                for (samples, (_, clustering)) in times.iter().zip(TABLES) {
                    report.samples(system, &of(clustering), metric, samples, "ms")?;
                }
            }
        }
        Ok(())
    }

    /// Measures the milliseconds of a sum over the selected rows of both tables, in turn.
    fn sums(
        &self,
        selection: &Conjunction,
        sum: &str,
        repetitions: usize,
    ) -> Result<[Samples; 2], BenchError> {
        let mut times = [Samples::default(), Samples::default()];
        for round in 0..=repetitions {
            let mut answers = Vec::new();
            for (samples, (table, _)) in times.iter_mut().zip(TABLES) {
                let text = selection.count_sql(table);
                let text = text.replacen("count(*) AS n", &format!("count(*) AS n, {sum} AS s"), 1);
                let watch = Watch::start(self.database.device());
                answers.push(self.sql(&text)?);
                if round > 0 {
                    samples.push(watch.elapsed().as_secs_f64() * 1e3);
                }
            }
            same(selection, &answers[0], &answers[1])?;
        }
        Ok(times)
    }
}

/// Fails unless the answers of both tables are equal.
fn same<T: PartialEq + std::fmt::Debug>(
    selection: &Conjunction,
    unclustered: T,
    clustered: T,
) -> Result<(), BenchError> {
    if unclustered == clustered {
        return Ok(());
    }
    let [(left, _), (right, _)] = TABLES;
    Err(BenchError::Disagreement {
        what: selection.where_clause(),
        left_system: left.to_owned(),
        left: format!("{unclustered:?}"),
        right_system: right.to_owned(),
        right: format!("{clustered:?}"),
    })
}
