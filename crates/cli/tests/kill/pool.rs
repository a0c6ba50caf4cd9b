//! The contents of the pool after a kill, and the space that it takes.

use std::sync::atomic::AtomicBool;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use halocline_engine::{CompactOptions, Database, DatabaseOptions};
use halocline_pool::{Pool, PoolOptions};
use tokio::runtime::Runtime;

use crate::common::Home;
use crate::model::{Table, Tables};

/// Bytes of a pool beside its objects: superblocks, two generations of the directory, and what rounding adds.
const OVERHEAD: u64 = 1 << 20;
/// Bytes that the stores of the table with a primary key may keep when it is gone.
const STORES: u64 = 8 << 20;
/// Greatest length of the file, in multiples of the most it ever held: a change writes anew before it frees.
const GROWTH: u64 = 4;

/// The most that the pool held after any round.
#[derive(Debug, Default)]
pub(crate) struct Space {
    used: u64,
}

/// Opens the pool as the next program would, checks it, and reads all of it.
pub(crate) fn read(home: &Home, space: &mut Space) -> Tables {
    let runtime = Runtime::new().unwrap();
    let database = Database::open(&home.path("p"), &DatabaseOptions::default()).unwrap();
    let report = database.check(&mut |_| ()).unwrap();
    assert_eq!(report.problems, [""; 0]);
    space.note(home, &database);
    runtime.block_on(async {
        let mut tables = Tables::new();
        let info = database.info().unwrap();
        for table in info.tables {
            let columns = table.columns.into_iter().map(|column| column.name);
            let contents = read_table(&database, &table.name, columns.collect()).await;
            tables.insert(table.name, contents);
        }
        for table in info.keyed_tables {
            let columns = table.columns.into_iter().map(|column| column.name);
            let contents = read_table(&database, &table.name, columns.collect()).await;
            tables.insert(table.name, contents);
        }
        tables
    })
}

async fn read_table(database: &Database, name: &str, columns: Vec<String>) -> Table {
    let info = database.info().unwrap();
    let mut table = Table {
        columns,
        ..Table::default()
    };
    for index in info.indexes.iter().filter(|index| index.table == name) {
        table.indexes.push(index.name.clone());
        // The index must know every row, too.
        let mut counts = Vec::new();
        for mode in ["off", "force"] {
            run(database, &format!("SET halocline.index = {mode}")).await;
            let sql = format!("SELECT count(*), sum(id) FROM {name} WHERE v BETWEEN 1 AND 4");
            let rows = run(database, &sql).await;
            counts.push(rows.iter().map(|batch| format!("{batch:?}")).collect::<String>());
        }
        assert_eq!(counts[0], counts[1], "index {} of {name}", index.name);
        run(database, "SET halocline.index = auto").await;
    }
    let options = FormatOptions::default();
    for batch in run(database, &format!("SELECT * FROM {name}")).await {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let values: Vec<_> = batch.columns()[1..]
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for (row, id) in ids.values().iter().enumerate() {
            let values = values
                .iter()
                .map(|column| column.value(row).to_string())
                .collect();
            assert_eq!(
                table.rows.insert(*id, values),
                None,
                "row {id} of {name} is there twice"
            );
        }
    }
    table
}

async fn run(database: &Database, sql: &str) -> Vec<arrow_array::RecordBatch> {
    let answer = database
        .sql(sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    answer
        .collect()
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

impl Space {
    /// Nothing is in use but what the objects name, and the file has not grown beyond reason.
    fn note(&mut self, home: &Home, database: &Database) {
        let info = database.info().unwrap().pool;
        let options = PoolOptions::default().with_read_only(true);
        let pool = Pool::open(home.path("p"), &options).unwrap();
        let named: u64 = pool
            .snapshot()
            .unwrap()
            .objects()
            .map(|object| object.bytes())
            .sum();
        assert!(
            info.used_bytes < named * 5 / 4 + OVERHEAD,
            "{named} bytes are named, {} in use",
            info.used_bytes
        );
        self.used = self.used.max(info.used_bytes);
        let limit = self.used * GROWTH + (16 << 20);
        assert!(
            info.bytes < limit,
            "{} bytes for {} at most",
            info.bytes,
            self.used
        );
    }

    /// When all is dropped and given back, nothing is left but a few segments of the stores.
    pub(crate) fn all_comes_back(&self, home: &Home) {
        let database = Database::open(&home.path("p"), &DatabaseOptions::default()).unwrap();
        let info = database.info().unwrap();
        let plain = info.tables.into_iter().map(|table| table.name);
        let keyed = info.keyed_tables.into_iter().map(|table| table.name);
        for name in plain.chain(keyed) {
            database.drop(&name).unwrap();
        }
        let cancel = AtomicBool::new(false);
        database
            .compact(None, &CompactOptions::default(), &mut |_| (), &cancel)
            .unwrap();
        Runtime::new().unwrap().block_on(run(&database, "VACUUM"));
        let info = database.info().unwrap().pool;
        assert!(info.used_bytes < 4 * OVERHEAD + STORES, "{info:?}");
        assert!(info.allocated_bytes < 8 * OVERHEAD + STORES, "{info:?}");
    }
}
