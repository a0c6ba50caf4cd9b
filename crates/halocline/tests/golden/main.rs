//! Golden pools: files written by the program of each version of the format give the answers they always
//! gave.
//!
//! The files are part of this test (`include_bytes`); it works on copies and has no way to change them.

mod make;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use arrow_cast::display::{ArrayFormatter, FormatOptions};
use halocline::ordered::{self, Range, TreeKind};
use halocline::pool::{Pool, PoolOptions};
use halocline::store::Stores;
use halocline::{CompactOptions, Database, DatabaseOptions};
use tempfile::TempDir;

const V1: &[u8] = include_bytes!("v1.pool.zst");
const V2: &[u8] = include_bytes!("v2.pool.zst");
const V3: &[u8] = include_bytes!("v3.pool.zst");
const V4: &[u8] = include_bytes!("v4.pool.zst");
const METADATA_3: &[u8] = include_bytes!("v2-metadata-3.pool.zst");
/// Bytes of the largest pool here, unpacked.
const MAX_BYTES: usize = 16 << 20;

/// A copy of a golden pool.
fn unpack(packed: &[u8]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("copy.pool");
    std::fs::write(&path, zstd::bulk::decompress(packed, MAX_BYTES).unwrap()).unwrap();
    (directory, path)
}

fn open(path: &Path, read_only: bool) -> Database {
    let options = DatabaseOptions::default().with_read_only(read_only);
    Database::open(path, &options).unwrap()
}

/// The rows of an answer, a line each.
async fn ask(database: &Database, text: &str) -> Vec<String> {
    let answer = database
        .sql(text)
        .await
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let batches = answer
        .collect()
        .await
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    for batch in &batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let values: Vec<String> = columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect();
            lines.push(values.join("|"));
        }
    }
    lines
}

/// Questions and their answers, by scan and by index.
type Answers = &'static [(&'static str, &'static [&'static str])];

async fn compare(database: &Database, answers: Answers) {
    for mode in ["off", "auto", "force"] {
        database
            .sql(&format!("SET halocline.index = {mode}"))
            .await
            .unwrap();
        for (question, answer) in answers {
            assert_eq!(ask(database, question).await, *answer, "index {mode}: {question}");
        }
    }
    assert_eq!(database.check(&mut |_| ()).unwrap().problems, [""; 0]);
}

const V1_ANSWERS: Answers = &[
    (
        "SELECT count(*), sum(id), sum(month), min(day), max(day), sum(amount), sum(weight), count(weight), count(region), \
             count(note) FROM orders",
        &["2000|2001000|10992|2020-01-01|2020-12-30|124750.000000|225000.0|1800|1500|2000"],
    ),
    (
        "SELECT * FROM orders WHERE id IN (1, 4, 1000, 1999) ORDER BY id",
        &[
            "1|1|2020-01-02|1.750000|0.125|false|north|order number 1",
            "4|4|2020-01-05|7.000000|0.5|false|NULL|order number 4",
            "1000|4|2020-09-27|0.000000|NULL|false|NULL|order number 1000",
            "1999|7|2020-06-23|123.250000|249.875|false||order number 1999",
        ],
    ),
    (
        "SELECT id FROM orders WHERE month = 3 AND day = DATE '2020-01-04'",
        &["3"],
    ),
    (
        "SELECT region, paid, count(*) FROM orders GROUP BY region, paid ORDER BY region NULLS LAST, paid",
        &[
            "|false|333",
            "|true|167",
            "north|false|334",
            "north|true|166",
            "süd|false|333",
            "süd|true|167",
            "NULL|false|334",
            "NULL|true|166",
        ],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_1_answers_as_ever() {
    let (_directory, path) = unpack(V1);
    let database = open(&path, true);
    compare(&database, V1_ANSWERS).await;
    let info = database.info().unwrap();
    assert_eq!(info.pool.format_version, 1);
    assert_eq!(info.pool.uuid, "6daac81a656b4c0285df762652369b94");
    assert_eq!((info.tables[0].rows, info.tables[0].segments), (2000, 1));
    assert_eq!(info.indexes[0].columns, ["month", "day"]);
    drop(database);
    compare(&open(&path, false), V1_ANSWERS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_1_can_be_changed() {
    let (_directory, path) = unpack(V1);
    let database = open(&path, false);
    for (statement, said) in [
        ("DELETE FROM orders WHERE id > 1900", "deleted 100 rows"),
        (
            "INSERT INTO orders (id, month, day) VALUES (-1, 3, '2020-01-04')",
            "inserted 1 row",
        ),
        ("INSERT INTO orders SELECT * FROM orders", "inserted 1901 rows"),
        (
            "INSERT INTO orders (id, note) VALUES (-2, 'in the log')",
            "inserted 1 row",
        ),
        ("UPDATE orders SET month = 4 WHERE id = -2", "updated 1 row"),
    ] {
        let result = database
            .sql(statement)
            .await
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
        assert_eq!(result.message(), Some(said), "{statement}");
    }
    const CHANGED: Answers = &[
        (
            "SELECT count(*), sum(id), min(note) FROM orders",
            &["3803|3611896|in the log"],
        ),
        (
            "SELECT count(*) FROM orders WHERE month = 3 AND day = DATE '2020-01-04'",
            &["4"],
        ),
    ];
    compare(&database, CHANGED).await;
    drop(database);
    let database = open(&path, false);
    compare(&database, CHANGED).await;
    let full = CompactOptions::default().with_full(true);
    database
        .compact(None, &full, &mut |_| (), &AtomicBool::new(false))
        .unwrap();
    compare(&database, CHANGED).await;
    assert_eq!(database.info().unwrap().tables[0].segments, 1);
}

const V2_ANSWERS: Answers = &[
    (
        "SELECT count(*), sum(id), sum(month), min(day), max(day), sum(amount), count(region), count(source) FROM orders",
        &["3465|6072003|18992|2020-01-01|2026-11-22|121746.99|2965|3465"],
    ),
    (
        "SELECT * FROM orders WHERE id IN (1, 2, 3, 4, 7, 2500, 5000, 5001) ORDER BY id",
        &[
            "1|1|2020-01-02|3.50|moved|import",
            "3|3|2020-01-04|5.25||import",
            "4|4|2020-01-05|7.00|NULL|import",
            "2500|4|NULL|-1.25|west|import",
            "5000|1|2026-11-22|99.99|log|hand",
        ],
    ),
    (
        "SELECT id FROM orders WHERE month = 3 AND day = DATE '2020-01-04'",
        &["3"],
    ),
    (
        "SELECT region, count(*), sum(id) FROM orders GROUP BY region ORDER BY region NULLS LAST",
        &[
            "|480|481360",
            "log|1|5000",
            "moved|1|1",
            "north|499|499499",
            "süd|499|499998",
            "west|1485|4085145",
            "NULL|500|501000",
        ],
    ),
    (
        "SELECT id FROM orders WHERE region = 'west' AND id > 3498 ORDER BY id",
        &["3499", "3500"],
    ),
    (
        "SELECT count(*), min(text), max(text), sum(length(text)), sum(k) FROM texts",
        &["9000|text number 1|text number 999|142893|40504500"],
    ),
    ("SELECT text FROM texts WHERE k = 7919", &["text number 1"]),
    (
        "SELECT DISTINCT a, b, c, d, e, f, g, h, i FROM kinds ORDER BY a",
        &[
            "-128|-32768|-2147483648|-9223372036854775808|255|65535|4294967295|18446744073709551615|-0.5",
            "NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
        ],
    ),
    (
        "SELECT DISTINCT j, k, l, m, n, o, p, q, r FROM kinds ORDER BY q",
        &[
            "NaN|-123456789.0123456789|true|0001-01-01|23:59:59.999999999|1969-12-31T23:59:59|\
                 2026-11-22T01:02:03.000000004|Größe|00ff",
            "NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
        ],
    ),
    ("SELECT count(*), count(a) FROM kinds", &["1501|1500"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_2_answers_as_ever() {
    let (_directory, path) = unpack(V2);
    let database = open(&path, true);
    compare(&database, V2_ANSWERS).await;
    let info = database.info().unwrap();
    assert_eq!(info.pool.format_version, 2);
    let orders = &info.tables[1];
    assert_eq!((orders.segments, orders.deleted_rows), (2, 37));
    assert!(info.pool.log_bytes > 0 && orders.log_rows > 0);
    assert_eq!(info.tables[2].cluster, ["k"]);
    assert_eq!(info.tables[2].columns[1].encoding, "compressed bytes");
    let layouts: Vec<&str> = info.indexes.iter().map(|index| index.layout.as_str()).collect();
    assert_eq!(layouts, ["packed", "published"]);
    drop(database);
    let database = open(&path, false);
    database.sql("VACUUM FULL orders").await.unwrap();
    compare(&database, V2_ANSWERS).await;
}

const METADATA_3_ANSWERS: Answers = &[
    (
        "SELECT count(*), sum(id), count(note), sum(late), sum(weight) FROM marks",
        &["4002|8012001|2000|28014|503253.0"],
    ),
    (
        "SELECT kind, count(*) FROM marks GROUP BY kind ORDER BY kind",
        &["kind 0|665", "kind 1|667", "kind 2|667", "other|1", "plain|2002"],
    ),
    (
        "SELECT * FROM marks WHERE id IN (3, 2500, 5001) ORDER BY id",
        &[
            "3|plain|0.75|2020-01-04|NULL|7",
            "2500|plain|1.5|2020-02-29|note 2500|7",
            "5001|other|1.5|2020-02-29|NULL|7",
        ],
    ),
    (
        "SELECT count(*) FROM marks WHERE day = DATE '2020-02-29' AND id > 3990",
        &["12"],
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_and_clustered_indexes_answer_as_ever() {
    let (_directory, path) = unpack(METADATA_3);
    let database = open(&path, true);
    compare(&database, METADATA_3_ANSWERS).await;
    let info = database.info().unwrap();
    assert_eq!(info.pool.format_version, 2);
    assert_eq!(info.tables[0].cluster, ["day", "id"]);
    drop(database);
    let database = open(&path, false);
    database.sql("VACUUM FULL marks").await.unwrap();
    compare(&database, METADATA_3_ANSWERS).await;
    database
        .sql("INSERT INTO marks (id, late) VALUES (6000, DEFAULT)")
        .await
        .unwrap();
    let answer = ask(&database, "SELECT * FROM marks WHERE id = 6000").await;
    assert_eq!(answer, ["6000|plain|1.5|2020-02-29|NULL|7"]);
}

const V3_ANSWERS: Answers = &[(
    "SELECT count(*), sum(id), min(name), max(name) FROM small",
    &["501|125751|log|name 4"],
)];

/// The contents of the trees of version 3: one that was written to, and one that was loaded.
fn trees() -> [(&'static str, BTreeMap<u64, u64>); 2] {
    let mut kv: BTreeMap<u64, u64> = (0..4001).map(|number| (number * 7919 % 4001, number)).collect();
    let third = |key: u64| (2000..=4000).contains(&key) && (key - 2000).is_multiple_of(3);
    kv.retain(|key, _| !((1000..2000).contains(key) || third(*key)));
    kv.extend((0..100).map(|key| (key, key + 1_000_000)));
    kv.insert(u64::MAX, 1);
    let mut wide: BTreeMap<u64, u64> = (0..3000).map(|number| (number * 3, number)).collect();
    wide.extend((0..500).map(|number| (number * 6 + 1, 7)));
    [("tree/kv", kv), ("tree/wide", wide)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_3_answers_as_ever() {
    let (_directory, path) = unpack(V3);
    let database = open(&path, true);
    compare(&database, V3_ANSWERS).await;
    assert_eq!(database.info().unwrap().pool.format_version, 3);
    drop(database);
    let pool = Pool::open(&path, &PoolOptions::default()).unwrap();
    let kinds: Vec<TreeKind> = ordered::trees(&pool).unwrap().iter().map(|tree| tree.1).collect();
    assert_eq!(kinds, [TreeKind::Lb, TreeKind::Lb4]);
    for (name, entries) in trees() {
        let tree = ordered::open_tree(&pool, name).unwrap();
        assert!(tree.check().unwrap().is_intact(), "{name}");
        let found: Result<Vec<_>, _> = Range::new(&*tree, ..).collect();
        assert_eq!(found.unwrap(), entries.into_iter().collect::<Vec<_>>(), "{name}");
        assert_eq!(
            tree.get(6).unwrap(),
            Some(if name == "tree/kv" { 1_000_006 } else { 2 })
        );
        for key in 20_000..21_000 {
            assert!(tree.insert(key, key).unwrap());
        }
        assert_eq!(tree.remove(20_500).unwrap(), Some(20_500));
        assert!(tree.check().unwrap().is_intact(), "{name}");
    }
    pool.close().unwrap();
    let database = open(&path, false);
    database.sql("VACUUM FULL small").await.unwrap();
    compare(&database, V3_ANSWERS).await;
}

const V4_ANSWERS: Answers = &[
    (
        "SELECT count(*), sum(id), min(day), max(day), sum(amount), count(DISTINCT region) FROM sales",
        &["1486|1117146|2026-01-01|2026-11-22|278886.24|6"],
    ),
    (
        "SELECT * FROM sales WHERE id IN (1, 7, 100, 1500, 2001) ORDER BY id",
        &[
            "1|region 1|2026-01-02|0.25",
            "100|region 0|2026-01-11|25.00",
            "1500|region 0|2026-03-02|375.00",
            "2001|log|2026-11-22|99.99",
        ],
    ),
    (
        "SELECT id FROM sales WHERE day = DATE '2026-01-05' AND region = 'region 4' AND id < 300 ORDER BY id",
        &["4", "94", "184", "274"],
    ),
    (
        "SELECT count(*), sum(id), sum(balance), count(opened), count(DISTINCT owner) FROM accounts",
        &["361|73001|37899.51|360|8"],
    ),
    (
        "SELECT * FROM accounts WHERE owner = 'owner 3' AND id < 30 ORDER BY id",
        &[
            "3|owner 3|1001.50|2020-02-29",
            "17|owner 3|1008.50|2020-02-29",
            "24|owner 3|12.00|2020-02-29",
        ],
    ),
    (
        "SELECT * FROM accounts WHERE owner = 'log'",
        &["1001|log|-100.49|NULL"],
    ),
    ("SELECT count(*) FROM empty", &["0"]),
];

/// The contents of the store of version 4.
fn sessions() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let users = (0..300).filter(|number| number % 3 != 0);
    let mut pairs: BTreeMap<Vec<u8>, Vec<u8>> = users
        .map(|number| {
            (
                format!("user/{number:04}").into_bytes(),
                format!("session {number}").into_bytes(),
            )
        })
        .collect();
    pairs.insert(b"large".to_vec(), vec![7; 100_000]);
    pairs.insert(b"user/0001".to_vec(), b"changed".to_vec());
    pairs.insert(Vec::new(), b"the empty key".to_vec());
    pairs
}

/// Compares the store of version 4, and verifies those of the tables as well.
fn compare_sessions(stores: &Stores) {
    let store = stores.existing("sessions").unwrap();
    let found: Result<BTreeMap<_, _>, _> = store.scan::<&[u8]>(..).collect();
    assert!(found.unwrap() == sessions(), "the store differs");
    assert_eq!(store.len(), 202);
    let report = stores.check(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(report.is_intact() && report.uncounted.is_empty(), "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_4_answers_as_ever() {
    let (_directory, path) = unpack(V4);
    let database = open(&path, true);
    compare(&database, V4_ANSWERS).await;
    let info = database.info().unwrap();
    assert_eq!(info.pool.format_version, 4);
    assert_eq!((info.tables[0].segments, info.tables[0].deleted_rows), (2, 15));
    assert_eq!(info.keyed_tables[0].primary_key, ["owner", "id"]);
    assert_eq!((info.keyed_tables[0].rows, info.keyed_tables[1].rows), (361, 0));
    drop(database);
    let pool = Pool::open(&path, &PoolOptions::default().with_read_only(true)).unwrap();
    assert!(pool.check(|_| ()).unwrap().is_intact());
    compare_sessions(&Stores::open_reader(&pool).unwrap());
    drop(pool);
    let database = open(&path, false);
    compare(&database, V4_ANSWERS).await;
    compare_sessions(&database.stores().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_4_can_be_changed() {
    let (_directory, path) = unpack(V4);
    let database = open(&path, false);
    for (statement, said) in [
        (
            "INSERT INTO accounts VALUES (5, 'new', 1, NULL)",
            "inserted 1 row",
        ),
        ("DELETE FROM accounts WHERE owner = 'owner 1'", "deleted 52 rows"),
        ("INSERT INTO empty VALUES (X'00ff')", "inserted 1 row"),
        ("DELETE FROM sales WHERE id > 1000", "deleted 496 rows"),
    ] {
        let result = database
            .sql(statement)
            .await
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
        assert_eq!(result.message(), Some(said), "{statement}");
    }
    const CHANGED: Answers = &[
        ("SELECT count(*), sum(id) FROM sales", &["990|495930"]),
        ("SELECT count(*), count(opened) FROM accounts", &["310|308"]),
        ("SELECT * FROM empty", &["00ff"]),
    ];
    compare(&database, CHANGED).await;
    database.sql("VACUUM FULL sales").await.unwrap();
    database.sql("VACUUM").await.unwrap();
    compare(&database, CHANGED).await;
    drop(database);
    let database = open(&path, false);
    compare(&database, CHANGED).await;
    compare_sessions(&database.stores().unwrap());
}

/// Makes the newest golden pool; it must not exist. See `README.md` beside the files.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "golden pools are made once"]
async fn make() {
    make::make(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")).await;
}
