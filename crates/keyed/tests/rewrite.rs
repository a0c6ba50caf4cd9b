//! New tables in place of others, made of their rows and sorted changes, beside a model.

#![allow(clippy::print_stdout, reason = "a random test prints its seed")]

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Int32Array, RecordBatch};
use halocline_keyed::{
    KeyedError, KeyedRewrite, KeyedTable, KeyedTables, KeyedView, Replacements, RewriteRule, RewrittenRows,
    TableDefinition,
};
use halocline_pool::{Pool, PoolOptions};
use halocline_store::{LoadOptions, StoreError, Stores};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

static NOT_CANCELLED: AtomicBool = AtomicBool::new(false);

fn batch(rows: &BTreeMap<i32, i32>) -> RecordBatch {
    let keys: ArrayRef = Arc::new(rows.keys().copied().collect::<Int32Array>());
    let values: ArrayRef = Arc::new(rows.values().copied().collect::<Int32Array>());
    RecordBatch::try_from_iter([("k", keys), ("v", values)]).unwrap()
}

fn definition() -> TableDefinition {
    TableDefinition::new("t", &batch(&BTreeMap::new()).schema(), &["k"]).unwrap()
}

fn options() -> LoadOptions {
    LoadOptions::new(0, Arc::new(tempfile::tempfile))
}

fn fill(table: &KeyedTable, rows: &BTreeMap<i32, i32>) {
    for row in table.encode(&batch(rows)).unwrap() {
        table.store().put(row.key, row.value).unwrap();
    }
}

/// Returns the key and the value of an encoded row.
fn encoded(table: &KeyedTable, key: i32, value: i32) -> (Vec<u8>, Vec<u8>) {
    let row = table.encode(&batch(&[(key, value)].into())).unwrap().remove(0);
    (row.key, row.value)
}

fn read(table: &Arc<KeyedTable>, view: &KeyedView) -> BTreeMap<i32, i32> {
    let mut scan = table.scan(view, table.ranges(&[]).unwrap(), &[0, 1]);
    let mut rows = BTreeMap::new();
    while let Some(batch) = scan.next_batch(1000).unwrap() {
        let column = |at: usize| {
            batch
                .column(at)
                .as_primitive::<Int32Type>()
                .values()
                .iter()
                .copied()
        };
        rows.extend(column(0).zip(column(1)));
    }
    rows
}

fn rows_now(tables: &KeyedTables) -> BTreeMap<i32, i32> {
    let view = KeyedView::Snapshot(tables.stores().snapshot());
    let table = tables.table_in("t", &view).unwrap().unwrap();
    read(&table, &view)
}

fn begin(tables: &KeyedTables) -> (KeyedView, Arc<Mutex<halocline_store::StoreTransaction>>) {
    let transaction = Arc::new(Mutex::new(tables.stores().begin()));
    (KeyedView::Transaction(Arc::clone(&transaction)), transaction)
}

fn stores_with_rows(stores: &Stores) -> usize {
    let names = stores.names();
    names.iter().filter(|name| name.starts_with("sql/rows/")).count()
}

/// A change of a statement.
#[derive(Debug, Clone, Copy)]
enum Change {
    Delete(i32),
    Put(i32, i32),
}

/// Applies changes to the model; returns true for an error instead of a number of rows.
fn expected(
    rows: &mut BTreeMap<i32, i32>,
    rule: RewriteRule,
    changes: &[Change],
) -> Result<RewrittenRows, ()> {
    let mut counts = RewrittenRows::default();
    let mut written: BTreeMap<i32, i32> = BTreeMap::new();
    let mut gone = BTreeSet::new();
    for change in changes {
        match *change {
            Change::Delete(key) => {
                if !gone.insert(key) && rule == RewriteRule::Update {
                    return Err(());
                }
            }
            Change::Put(key, value) => match (written.contains_key(&key), rule) {
                (false, _) | (true, RewriteRule::Replace) => drop(written.insert(key, value)),
                (true, RewriteRule::InsertNew) => {}
                (true, _) => return Err(()),
            },
        }
    }
    counts.deleted = gone.len() as u64;
    rows.retain(|key, _| !gone.contains(key));
    for (key, value) in written {
        match (rows.contains_key(&key), rule) {
            (true, RewriteRule::InsertNew) => {}
            (false, _) | (true, RewriteRule::Replace | RewriteRule::ReplaceOnce) => {
                counts.written += 1;
                rows.insert(key, value);
            }
            (true, _) => return Err(()),
        }
    }
    Ok(counts)
}

fn changes(rng: &mut StdRng, rule: RewriteRule, rows: &BTreeMap<i32, i32>) -> Vec<Change> {
    let count = rng.random_range(0..3000);
    let is_wrong = rng.random_bool(0.3);
    let keys: Vec<i32> = rows.keys().copied().collect();
    let mut old: BTreeSet<i32> = BTreeSet::new();
    let mut new: BTreeSet<i32> = BTreeSet::new();
    let mut made = Vec::new();
    for _ in 0..count {
        let (key, value) = (rng.random_range(0..6000), rng.random());
        match rule {
            RewriteRule::Replace | RewriteRule::InsertNew => made.push(Change::Put(key, value)),
            RewriteRule::Insert | RewriteRule::ReplaceOnce => {
                let is_free = rule == RewriteRule::ReplaceOnce || !rows.contains_key(&key);
                if new.insert(key) && is_free {
                    made.push(Change::Put(key, value));
                }
            }
            RewriteRule::Update | RewriteRule::Delete => {
                let at = rng.random_range(0..keys.len());
                if old.insert(keys[at]) || rule == RewriteRule::Delete {
                    made.push(Change::Delete(keys[at]));
                }
            }
        }
    }
    if rule == RewriteRule::Update {
        // Old keys are taken by other rows, too.
        for _ in 0..old.len() {
            let key = rng.random_range(0..9000);
            let is_free = !rows.contains_key(&key) || old.contains(&key);
            if is_free && new.insert(key) {
                made.push(Change::Put(key, rng.random()));
            }
        }
    }
    if is_wrong && !made.is_empty() {
        let again = made[rng.random_range(0..made.len())];
        made.push(again);
    }
    made
}

const RULES: [RewriteRule; 6] = [
    RewriteRule::Insert,
    RewriteRule::InsertNew,
    RewriteRule::Replace,
    RewriteRule::ReplaceOnce,
    RewriteRule::Update,
    RewriteRule::Delete,
];

/// Collects changes of a table.
fn collected(table: &Arc<KeyedTable>, rule: RewriteRule, changes: &[Change]) -> KeyedRewrite {
    let mut rewrite = KeyedRewrite::new(table, rule, &options());
    for (number, change) in (1..).zip(changes) {
        match *change {
            Change::Delete(key) => rewrite.delete(&encoded(table, key, 0).0).unwrap(),
            Change::Put(key, value) => {
                let (key, value) = encoded(table, key, value);
                rewrite.put(number, &key, &value).unwrap();
            }
        }
    }
    rewrite
}

#[test]
fn rewritten_tables_have_the_rows_of_the_model() {
    let seed = RandomState::new().build_hasher().finish();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().unwrap();
    let pool = Pool::create(directory.path().join("p"), &Default::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let tables = KeyedTables::open(&stores).unwrap();
    let mut model: BTreeMap<i32, i32> = (0..3000)
        .map(|_| (rng.random_range(0..5000), rng.random()))
        .collect();
    fill(&tables.create(definition()).unwrap(), &model);
    for round in 0..30 {
        let rule = RULES[round % RULES.len()];
        if model.is_empty() {
            model.insert(1, 1);
            fill(&tables.table("t").unwrap(), &model);
        }
        let changes = changes(&mut rng, rule, &model);
        let (view, transaction) = begin(&tables);
        let table = tables.table("t").unwrap();
        let rewrite = collected(&table, rule, &changes);
        let mut after = model.clone();
        let rewritten = rewrite.finish(&tables, &view, &NOT_CANCELLED);
        match expected(&mut after, rule, &changes) {
            Ok(counts) => {
                let (new, found) = rewritten.unwrap();
                assert_eq!(found, counts, "{rule:?} in round {round}");
                drop(view);
                let transaction = Arc::into_inner(transaction).unwrap().into_inner().unwrap();
                tables.publish_rewritten(new, &table, transaction).unwrap();
                model = after;
            }
            Err(()) => drop(rewritten.unwrap_err()),
        }
        drop(table);
        tables.drop_replaced();
        assert_eq!(rows_now(&tables), model, "{rule:?} in round {round}");
        assert_eq!(stores_with_rows(&stores), 1);
    }
    drop(tables);
    let tables = KeyedTables::open(&stores).unwrap();
    assert_eq!(rows_now(&tables), model);
}

/// A transaction makes its table anew several times, between small changes, while others commit elsewhere.
#[test]
fn transactions_see_the_tables_that_they_make() {
    let seed = RandomState::new().build_hasher().finish();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().unwrap();
    let pool = Pool::create(directory.path().join("p"), &Default::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let other = stores.store("other").unwrap();
    let tables = KeyedTables::open(&stores).unwrap();
    let mut model: BTreeMap<i32, i32> = (0..2000)
        .map(|_| (rng.random_range(0..5000), rng.random()))
        .collect();
    fill(&tables.create(definition()).unwrap(), &model);
    for round in 0..12 {
        let (view, transaction) = begin(&tables);
        let mut replacements = Replacements::default();
        let mut seen = model.clone();
        let reading = tables.table("t").unwrap();
        for _ in 0..rng.random_range(1..6) {
            // A newer commit than the transaction sees.
            other.put("k", rng.random::<u64>().to_le_bytes()).unwrap();
            let table = tables.table_in("t", &view).unwrap().unwrap();
            let mut few: Vec<i32> = seen.keys().step_by(100).copied().collect();
            few.push(rng.random_range(0..6000));
            for key in few {
                let value = rng.random();
                let row = encoded(&table, key, value);
                transaction
                    .lock()
                    .unwrap()
                    .put(table.store(), row.0, row.1)
                    .unwrap();
                seen.insert(key, value);
            }
            assert_eq!(read(&table, &view), seen);
            let rule = RULES[rng.random_range(0..RULES.len())];
            let changes = changes(&mut rng, rule, &seen);
            let mut after = seen.clone();
            let rewritten = collected(&table, rule, &changes).finish(&tables, &view, &NOT_CANCELLED);
            match expected(&mut after, rule, &changes) {
                Ok(counts) => {
                    let (new, found) = rewritten.unwrap();
                    assert_eq!(found, counts, "{rule:?}");
                    let mut held = transaction.lock().unwrap();
                    tables
                        .replace_in(&mut held, new, &table, &mut replacements)
                        .unwrap();
                    seen = after;
                }
                Err(()) => drop(rewritten.unwrap_err()),
            }
            let table = tables.table_in("t", &view).unwrap().unwrap();
            assert_eq!(read(&table, &view), seen, "{rule:?}");
            assert_eq!(rows_now(&tables), model, "nobody else sees it");
            if seen.is_empty() {
                break;
            }
        }
        drop(view);
        let transaction = Arc::into_inner(transaction).unwrap().into_inner().unwrap();
        match round % 3 {
            0 => drop((transaction, replacements)),
            1 if !replacements.is_empty() => {
                let (key, value) = encoded(&reading, -1, round);
                reading.store().put(key, value).unwrap();
                model.insert(-1, round);
                let error = tables.commit_replacing(transaction, replacements).unwrap_err();
                let conflict = matches!(&error, KeyedError::List(StoreError::Conflict { .. }));
                assert!(conflict, "{error}");
            }
            _ => {
                tables.commit_replacing(transaction, replacements).unwrap();
                model = seen;
            }
        }
        if model.is_empty() {
            model.insert(1, 1);
            fill(&tables.table("t").unwrap(), &model);
        }
        drop(reading);
        tables.drop_replaced();
        assert_eq!(rows_now(&tables), model);
        assert_eq!(stores_with_rows(&stores), 1);
    }
    drop(tables);
    let tables = KeyedTables::open(&stores).unwrap();
    assert_eq!(rows_now(&tables), model);
}

/// Replaces the rows of the table by one.
fn rewrite(tables: &KeyedTables, row: (i32, i32)) -> Result<(), KeyedError> {
    let (view, transaction) = begin(tables);
    let table = tables.table("t").unwrap();
    let mut rewrite = KeyedRewrite::new(&table, RewriteRule::Update, &options());
    for key in read(&table, &view).into_keys() {
        rewrite.delete(&encoded(&table, key, 0).0)?;
    }
    let (key, value) = encoded(&table, row.0, row.1);
    rewrite.put(1, &key, &value)?;
    let (new, _) = rewrite.finish(tables, &view, &NOT_CANCELLED)?;
    drop(view);
    let transaction = Arc::into_inner(transaction).unwrap().into_inner().unwrap();
    tables.publish_rewritten(new, &table, transaction)?;
    Ok(())
}

#[test]
fn older_versions_keep_the_table_that_was_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    let pool = Pool::create(&path, &Default::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let tables = KeyedTables::open(&stores).unwrap();
    let old = tables.create(definition()).unwrap();
    let first = BTreeMap::from([(1, 10), (2, 20)]);
    fill(&old, &first);
    let reading = PoolOptions::default().with_read_only(true);
    let other_pool = Pool::open(&path, &reading).unwrap();
    let reader = Stores::open_reader(&other_pool).unwrap();
    let reads_beside = KeyedView::Snapshot(reader.snapshot());
    let before = KeyedView::Snapshot(stores.snapshot());
    let (writes, writing) = begin(&tables);
    let mut held = writing.lock().unwrap();
    held.put(old.store(), &encoded(&old, 7, 7).0, "").unwrap();
    drop(held);
    drop((old, writes));
    rewrite(&tables, (3, 30)).unwrap();
    assert_eq!(rows_now(&tables), BTreeMap::from([(3, 30)]));
    rewrite(&tables, (4, 40)).unwrap();
    tables.drop_replaced();
    let seen = tables.table_in("t", &before).unwrap().unwrap();
    assert_eq!(read(&seen, &before), first);
    let failed = Arc::into_inner(writing)
        .unwrap()
        .into_inner()
        .unwrap()
        .commit()
        .unwrap_err();
    assert!(matches!(failed, StoreError::Dropped { .. }), "{failed}");
    // Another process that has begun to read before, and looks the table up now.
    reader.refresh().unwrap();
    let beside = KeyedTables::open(&reader).unwrap();
    let seen_beside = beside.table_in("t", &reads_beside).unwrap().unwrap();
    assert_eq!(read(&seen_beside, &reads_beside), first);
    assert_eq!(rows_now(&beside), BTreeMap::from([(4, 40)]));
    drop((seen, before));
    tables.drop_replaced();
    assert_eq!(
        stores_with_rows(&stores),
        3,
        "the reader beside may look for them"
    );
    drop((seen_beside, reads_beside, beside, reader));
    tables.drop_replaced();
    assert_eq!(stores_with_rows(&stores), 1);
}

#[test]
fn a_rewrite_beside_others_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let pool = Pool::create(directory.path().join("p"), &Default::default()).unwrap();
    let stores = Stores::open(&pool).unwrap();
    let tables = KeyedTables::open(&stores).unwrap();
    let table = tables.create(definition()).unwrap();
    fill(&table, &BTreeMap::from([(1, 10), (2, 20)]));
    let (view, transaction) = begin(&tables);
    let mut changes = KeyedRewrite::new(&table, RewriteRule::Delete, &options());
    changes.delete(&encoded(&table, 1, 0).0).unwrap();
    let (new, _) = changes.finish(&tables, &view, &NOT_CANCELLED).unwrap();
    drop(view);
    fill(&table, &BTreeMap::from([(3, 30)]));
    let transaction = Arc::into_inner(transaction).unwrap().into_inner().unwrap();
    let refused = tables.publish_rewritten(new, &table, transaction).unwrap_err();
    assert!(matches!(refused, KeyedError::Changed { .. }), "{refused}");
    assert_eq!(
        (rows_now(&tables).len(), stores_with_rows(&stores)),
        (3, 1),
        "the new table is gone"
    );
    let (view, _transaction) = begin(&tables);
    let many: BTreeMap<i32, i32> = (10..20_000).map(|key| (key, 0)).collect();
    fill(&table, &many);
    let changes = KeyedRewrite::new(&table, RewriteRule::Delete, &options());
    let cancelled = changes.finish(
        &tables,
        &KeyedView::Snapshot(stores.snapshot()),
        &AtomicBool::new(true),
    );
    assert!(matches!(cancelled, Err(KeyedError::Cancelled { .. })));
    drop(view);
    assert_eq!(stores_with_rows(&stores), 1);
}
