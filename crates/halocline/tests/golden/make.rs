//! Makes golden pools, each once.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use halocline::ordered::{TreeKind, create_tree_in};
use halocline::pool::{Pool, PoolOptions};
use halocline::store::{Stores, WriteBatch};
use halocline::{Database, DatabaseOptions};

/// A golden pool: its file and the statements that it was made by. Fixed: changing them changes no file.
type Recipe = (&'static str, &'static [&'static str]);

/// All of them, the newest last.
const RECIPES: [Recipe; 4] = [
    ("v2.pool.zst", ORDERS),
    ("v2-metadata-3.pool.zst", MARKS),
    ("v3.pool.zst", SMALL),
    ("v4.pool.zst", SALES),
];

const ORDERS: &[&str] = &[
    "CREATE TABLE orders (id bigint NOT NULL, month int, day date, amount decimal(10,2), region varchar)",
    "INSERT INTO orders SELECT i, i % 12, DATE '2020-01-01' + CAST(i % 365 AS int), i * 7 % 500 / 4.0,
         CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN 'north' WHEN 2 THEN 'süd' ELSE '' END
     FROM generate_series(1, 2000) AS s(i)",
    "CREATE INDEX by_month ON orders USING elf (month, day)",
    "CREATE INDEX by_region ON orders USING elf (region, id) WITH (layout = 'published')",
    "INSERT INTO orders SELECT i, i % 12, NULL, -1.25, 'west' FROM generate_series(2001, 3500) AS s(i)",
    "DELETE FROM orders WHERE id % 100 = 7",
    "CREATE TABLE texts (k bigint, text varchar) WITH (cluster = 'k')",
    "INSERT INTO texts SELECT i * 7919 % 9001, 'text number ' || i FROM generate_series(1, 9000) AS s(i)",
    "ALTER TABLE orders ADD COLUMN source varchar DEFAULT 'import'",
    "CREATE TABLE kinds (a tinyint, b smallint, c int, d bigint, e tinyint unsigned, f smallint unsigned, g int unsigned,
         h bigint unsigned, i real, j double, k decimal(38,10), l boolean, m date, n time, o timestamp(0), p timestamp,
         q varchar, r varbinary)",
    "INSERT INTO kinds SELECT -128, -32768, -2147483648, -9223372036854775808, 255, 65535, 4294967295,
         18446744073709551615, -0.5, 'NaN', '-123456789.0123456789', true, '0001-01-01', '23:59:59.999999999',
         '1969-12-31T23:59:59', '2026-11-22T01:02:03.000000004', 'Größe', X'00ff' FROM generate_series(1, 1500)",
    "INSERT INTO kinds (a) VALUES (NULL)",
    "INSERT INTO orders VALUES (5000, 1, '2026-11-22', 99.99, 'log', 'hand'), (5001, NULL, NULL, NULL, NULL, NULL)",
    "UPDATE orders SET region = 'moved', amount = amount * 2 WHERE id = 1",
    "DELETE FROM orders WHERE id = 5001 OR id = 2",
];

const MARKS: &[&str] = &[
    "CREATE TABLE marks (id bigint NOT NULL, kind varchar DEFAULT 'plain', weight double DEFAULT 1.5,
         day date DEFAULT DATE '2020-02-29', note varchar) WITH (cluster = 'day,id')",
    "INSERT INTO marks SELECT i, 'kind ' || (i % 3), i / 4.0, DATE '2020-01-01' + CAST(i % 50 AS int), NULL
     FROM generate_series(1, 2000) AS s(i)",
    "INSERT INTO marks (id, note) SELECT i, 'note ' || i FROM generate_series(2001, 4000) AS s(i)",
    "CREATE INDEX by_day ON marks USING elf (day, id)",
    "ALTER TABLE marks ADD COLUMN late int DEFAULT 7",
    "INSERT INTO marks (id, kind) VALUES (5000, DEFAULT), (5001, 'other')",
    "UPDATE marks SET kind = DEFAULT WHERE id = 3",
];

/// The pool of version 3 has trees beside it.
const SMALL: &[&str] = &[
    "CREATE TABLE small (id bigint NOT NULL, name varchar)",
    "INSERT INTO small SELECT i, 'name ' || (i % 5) FROM generate_series(1, 500) AS s(i)",
    "CREATE INDEX by_id ON small USING elf (id)",
    "INSERT INTO small VALUES (501, 'log')",
];

/// The pool of version 4 has a table with a primary key and a store as well.
const SALES: &[&str] = &[
    "CREATE TABLE sales (id bigint NOT NULL, region varchar, day date, amount decimal(10,2))",
    "INSERT INTO sales SELECT i, 'region ' || (i % 5), DATE '2026-01-01' + CAST(i % 90 AS int), i / 4.0
     FROM generate_series(1, 1500) AS s(i)",
    "CREATE INDEX by_day ON sales USING elf (day, region)",
    "DELETE FROM sales WHERE id % 100 = 7",
    "CREATE TABLE accounts (id bigint, owner varchar, balance decimal(10,2), opened date, PRIMARY KEY (owner, id))",
    "INSERT INTO accounts SELECT i, 'owner ' || (i % 7), i / 2.0, DATE '2020-02-29'
     FROM generate_series(1, 400) AS s(i)",
    "CREATE TABLE empty (k varbinary PRIMARY KEY)",
];

/// Changes in the log of the pool of version 4 after the checkpoint of its store.
const SALES_LATER: &[&str] = &[
    "UPDATE accounts SET balance = balance + 1000 WHERE owner = 'owner 3' AND id < 20",
    "DELETE FROM accounts WHERE id % 10 = 0",
    "INSERT INTO accounts VALUES (1001, 'log', -0.50, NULL)",
    "BEGIN",
    "INSERT INTO sales VALUES (2001, 'log', '2026-11-22', 99.99)",
    "UPDATE accounts SET balance = balance - 99.99 WHERE owner = 'log'",
    "COMMIT",
];

/// A store with a checkpoint, and with changes in the log after it.
fn make_store(stores: &Stores) {
    let store = stores.store("sessions").unwrap();
    for number in 0..300 {
        store
            .put(format!("user/{number:04}"), format!("session {number}"))
            .unwrap();
    }
    store.put("large", [7; 100_000]).unwrap();
    stores.checkpoint().unwrap();
    let mut batch = WriteBatch::new();
    for number in (0..300).step_by(3) {
        batch.delete(&store, format!("user/{number:04}")).unwrap();
    }
    batch.put(&store, "user/0001", "changed").unwrap();
    stores.write(batch).unwrap();
    store.put("", "the empty key").unwrap();
}

/// Least bytes that a tree takes of the pool at a time.
const CHUNK: u64 = 16 << 10;

/// A tree whose nodes were split, emptied and merged, and one that was loaded in bulk.
fn make_trees(path: &Path) {
    let pool = Pool::open(path, &PoolOptions::default()).unwrap();
    let tree = create_tree_in(&pool, "tree/kv", TreeKind::Lb, CHUNK).unwrap();
    for number in 0..4001 {
        assert!(tree.insert(number * 7919 % 4001, number).unwrap());
    }
    for key in (1000..2000).chain((2000..4001).step_by(3)) {
        tree.remove(key).unwrap().unwrap();
    }
    for key in 0..100 {
        tree.update(key, key + 1_000_000).unwrap().unwrap();
    }
    tree.insert(u64::MAX, 1).unwrap();
    let mut wide = create_tree_in(&pool, "tree/wide", TreeKind::Lb4, CHUNK).unwrap();
    let entries = (0..3000).map(|number| (number * 3, number));
    wide.bulk_load(&mut entries.into_iter(), 0.8).unwrap();
    for number in 0..500 {
        wide.insert(number * 6 + 1, 7).unwrap();
    }
    drop((tree, wide));
    pool.close().unwrap();
}

/// Makes the newest one in a directory where it is not.
pub(crate) async fn make(directory: &Path) {
    let (name, statements) = RECIPES[RECIPES.len() - 1];
    let to = directory.join(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&to)
        .unwrap_or_else(|error| panic!("{}: {error}; a golden pool is never made again", to.display()));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("golden.pool");
    // Other files are refused after a restart of the machine, if their stores were not closed.
    let options = DatabaseOptions::default().with_assume_dax(name.starts_with("v4"));
    let database = Database::create(&path, &options).unwrap();
    run(&database, statements).await;
    if name.starts_with("v4") {
        make_store(&database.stores().unwrap());
        run(&database, SALES_LATER).await;
    }
    database.sync().unwrap();
    // The image of an open pool, as a crash would leave it.
    let open = std::fs::read(&path).unwrap();
    drop(database);
    if name.starts_with("v3") {
        make_trees(&path);
    }
    let image = if name.starts_with("v4") {
        open
    } else {
        std::fs::read(&path).unwrap()
    };
    file.write_all(&zstd::bulk::compress(&image, 19).unwrap())
        .unwrap();
}

async fn run(database: &Database, statements: &[&str]) {
    for statement in statements {
        database
            .sql(statement)
            .await
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}
