//! Array joins, in DRAM and over stored tables.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt64Array};
use arrow_select::concat::concat_batches;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::model::{KeyType, RandomInput, expected, join, random_keys, residual, texts};
use crate::equi::*;
use crate::{JoinError, JoinResult};

/// Runs an array join and returns the joined rows, sorted.
pub(super) fn run_array(
    join: &EquiJoin,
    rows: &dyn RandomRows,
    keys: &DenseKeyMap,
    probe: &dyn JoinSource,
) -> JoinResult<Vec<String>> {
    let (spill, cancelled) = (FileSpillSpace::new("/nonexistent"), AtomicBool::new(false));
    let context = JoinContext {
        threads: NonZeroUsize::new(3).unwrap(),
        budget: JoinBudget::new(1 << 20),
        spill: &spill,
        writers: NonZeroUsize::MIN,
        cancelled: &cancelled,
    };
    let found = Mutex::new(Vec::new());
    join.run_array(rows, keys, probe, &context, &|batch| {
        found.lock().unwrap().extend(texts(&batch));
        Ok(())
    })?;
    assert_eq!(context.budget.used(), 0);
    let mut found = found.into_inner().unwrap();
    found.sort_unstable();
    Ok(found)
}

fn rows_of(input: &RandomInput) -> ArrayRows {
    let source = input.source();
    ArrayRows::new(concat_batches(&source.schema(), &input.batches).unwrap())
}

#[test]
fn all_kinds_of_dense_keys() {
    let mut random = StdRng::seed_from_u64(11);
    let budget = JoinBudget::new(1 << 20);
    let sequence: Vec<_> = (40..900).map(Some).collect();
    let mut shuffled: Vec<_> = (0..900).step_by(3).map(Some).collect();
    shuffled.extend([None; 5]);
    shuffled.shuffle(&mut random);
    for (keys, is_sequence) in [
        (sequence, true),
        (shuffled, false),
        (vec![], true),
        (vec![None], true),
    ] {
        for key_type in [KeyType::Int64, KeyType::Int32] {
            for nulls in [0.0, 0.1] {
                let build = RandomInput::new(key_type, keys.clone(), true, &mut random);
                let rows = random.random_range(0..2000);
                let probe = random_keys(&mut random, rows, 1000, nulls);
                let probe = RandomInput::new(key_type, probe, false, &mut random);
                let rows = rows_of(&build);
                let dense = DenseKeyMap::detect(&rows, key_type.columns()[0], &budget)
                    .unwrap()
                    .unwrap();
                assert_eq!(dense.is_sequence(), is_sequence);
                for kind in JoinKind::ALL {
                    let plain = join(kind, key_type);
                    let mut joins = vec![plain.clone(), plain.clone().with_residual(residual())];
                    if matches!(kind, JoinKind::ProbeAnti | JoinKind::BuildAnti) {
                        joins.push(plain.with_null_aware());
                    }
                    for join in joins {
                        let model = expected(&join, key_type, &build, &probe);
                        let found = run_array(&join, &rows, &dense, &probe.source()).unwrap();
                        assert_eq!(found, model, "{kind:?} {key_type:?} {is_sequence}");
                    }
                }
            }
        }
    }
    assert_eq!(budget.used(), 0);
}

fn detect(keys: ArrayRef) -> Option<bool> {
    let rows = ArrayRows::new(RecordBatch::try_from_iter([("key", keys)]).unwrap());
    let budget = JoinBudget::new(1000);
    let keys = DenseKeyMap::detect(&rows, 0, &budget).unwrap();
    keys.map(|keys| keys.is_sequence())
}

#[test]
fn other_keys_are_not_dense() {
    let ints = |values: &[i64]| detect(Arc::new(Int64Array::from(values.to_vec())));
    assert_eq!(ints(&[-3, -2, -1, 0, 1]), Some(true));
    assert_eq!(ints(&[i64::MAX - 1, i64::MAX]), Some(true));
    assert_eq!(ints(&[5, -4, 3]), Some(false));
    assert_eq!(ints(&[5, 4, 5]), None, "not unique");
    assert_eq!(ints(&[0, 24]), None, "too sparse");
    assert_eq!(ints(&[i64::MIN, i64::MAX]), None);
    assert_eq!(
        ints(&(0..200).map(|key| key * 2).collect::<Vec<_>>()),
        None,
        "no memory"
    );
    assert_eq!(detect(Arc::new(UInt64Array::from(vec![1, 2]))), None);
}

#[test]
fn keys_of_another_column_are_refused() {
    let mut random = StdRng::seed_from_u64(12);
    let build = RandomInput::new(KeyType::Int64, vec![Some(1)], true, &mut random);
    let rows = rows_of(&build);
    let keys = DenseKeyMap::detect(&rows, 0, &JoinBudget::new(1000))
        .unwrap()
        .unwrap();
    let join = join(JoinKind::Inner, KeyType::Int64);
    let error = run_array(&join, &rows, &keys, &build.source()).unwrap_err();
    assert!(matches!(error, JoinError::Unsupported(_)));
}
