//! Joins of stored tables, and spill space in a pool.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use halocline_columns::{Table, TableOptions, TableWriter, delete_rows};
use halocline_pool::{Pool, PoolOptions};
use rand::SeedableRng;
use rand::rngs::StdRng;
use roaring::RoaringBitmap;

use super::arrays::run_array;
use super::model::{KeyType, RandomInput, expected, join, random_keys, run_with};
use crate::equi::*;

fn rows(keys: std::ops::Range<i64>) -> RecordBatch {
    let names = keys.clone().map(|key| format!("name {key}"));
    let name: ArrayRef = Arc::new(names.map(Some).collect::<StringArray>());
    let key: ArrayRef = Arc::new(keys.collect::<Int64Array>());
    RecordBatch::try_from_iter([("key", key), ("name", name)]).unwrap()
}

/// Creates a table of two segments, some rows of which are deleted.
fn table(pool: &Pool) -> Table {
    let (first, second) = (rows(0..3000), rows(3000..5000));
    for (number, batch) in [first, second].iter().enumerate() {
        let txn = pool.begin().unwrap();
        let mut writer = match number {
            0 => TableWriter::new(&txn, "people", batch.schema(), TableOptions::default()).unwrap(),
            _ => TableWriter::append(&txn, "people", TableOptions::default()).unwrap(),
        };
        writer.write(batch).unwrap();
        writer.finish().unwrap();
        txn.commit().unwrap();
    }
    let table = Table::open(&pool.snapshot().unwrap(), "people").unwrap();
    let deleted: RoaringBitmap = (100..200).collect();
    let txn = pool.begin().unwrap();
    let segment = table.segments()[1].id();
    delete_rows(&txn, "people", &BTreeMap::from([(segment, deleted)])).unwrap();
    txn.commit().unwrap();
    Table::open(&pool.snapshot().unwrap(), "people").unwrap()
}

#[test]
fn stored_tables_are_joined_without_deleted_rows() {
    let directory = tempfile::tempdir().unwrap();
    let pool = Pool::create(directory.path().join("joins.pool"), &PoolOptions::default()).unwrap();
    let table = table(&pool);
    let keys = [2999, 3000, 3099, 3100, 3199, 3200, 4999, 5000, 7];
    let key: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
    let probe = RecordBatch::try_from_iter([("key", key)]).unwrap();
    let probe = BatchSource::new(probe.schema(), vec![probe]);
    let live = [2999, 3000, 3099, 3200, 4999, 7];
    let mut model: Vec<_> = live.iter().map(|key| format!("name {key} {key} ")).collect();
    model.sort_unstable();

    let build = TableSource::new(&table, vec![1, 0]).unwrap();
    assert_eq!(build.rows_estimate(), Some(4900));
    let inner = EquiJoin::new(JoinKind::Inner, vec![1], vec![0]).with_output(vec![0], vec![0]);
    let spill = FileSpillSpace::new(directory.path());
    for algorithm in [Algorithm::Hash, Algorithm::Grace, Algorithm::NestedLoops] {
        let budget = JoinBudget::new(1 << 20);
        let found = run_with(&inner, algorithm, (&build, &probe), (&budget, &spill)).unwrap();
        assert_eq!(found, model, "{algorithm:?}");
    }
    let build = TableRows::new(&table, vec![1, 0]).unwrap();
    let dense = DenseKeyMap::detect(&build, 1, &JoinBudget::new(1 << 20))
        .unwrap()
        .unwrap();
    assert!(!dense.is_sequence());
    assert_eq!(run_array(&inner, &build, &dense, &probe).unwrap(), model);
    let lone = EquiJoin::new(JoinKind::BuildAnti, vec![1], vec![0]).with_output(vec![0], vec![]);
    assert_eq!(
        run_array(&lone, &build, &dense, &probe).unwrap().len(),
        4900 - live.len()
    );
}

#[test]
fn rows_are_spilled_to_a_pool() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("spill.pool");
    let pool = Pool::create(&path, &PoolOptions::default()).unwrap();
    let mut random = StdRng::seed_from_u64(13);
    let keys = random_keys(&mut random, 4000, 5000, 0.01);
    let build = RandomInput::new(KeyType::Utf8, keys, true, &mut random);
    let keys = random_keys(&mut random, 500, 5000, 0.01);
    let probe = RandomInput::new(KeyType::Utf8, keys, false, &mut random);
    let join = join(JoinKind::FullOuter, KeyType::Utf8);
    let model = expected(&join, KeyType::Utf8, &build, &probe);
    let objects = |pool: &Pool| pool.snapshot().unwrap().objects().count();
    let before = objects(&pool);
    for algorithm in [Algorithm::Hybrid, Algorithm::Grace] {
        let txn = pool.begin().unwrap();
        let spill = PoolSpillSpace::new(&txn, path.display().to_string());
        let budget = JoinBudget::new(64 << 10);
        let found = run_with(
            &join,
            algorithm,
            (&build.source(), &probe.source()),
            (&budget, &spill),
        );
        assert_eq!(found.unwrap(), model);
        assert!(spill.allocated() > 0);
    }
    assert_eq!(objects(&pool), before);
}
