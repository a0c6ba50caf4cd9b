//! All kinds by all algorithms over all types of keys.

use std::collections::hash_map::RandomState;
use std::env;
use std::hash::BuildHasher;

use arrow_array::{RecordBatch, RecordBatchOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::model::{KeyType, RandomInput, expected, join, random_keys, residual, run_with, type_of};
use crate::JoinError;
use crate::equi::*;

const ALGORITHMS: [Algorithm; 8] = [
    Algorithm::Hash,
    Algorithm::Hybrid,
    Algorithm::Grace,
    Algorithm::Segmented { parts: 1, spilled: 0 },
    Algorithm::Segmented { parts: 5, spilled: 0 },
    Algorithm::Segmented { parts: 5, spilled: 3 },
    Algorithm::Segmented { parts: 3, spilled: 3 },
    Algorithm::NestedLoops,
];

/// Memory that everything in these tests fits, and that spills nearly everything.
const LIMITS: [usize; 2] = [64 << 20, 40 << 10];

fn seed() -> u64 {
    let seed = env::var("HALOCLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    seed.unwrap_or_else(|| RandomState::new().hash_one(0))
}

fn check(join: &EquiJoin, key_type: KeyType, build: &RandomInput, probe: &RandomInput, note: &str) {
    check_by(&ALGORITHMS, join, key_type, (build, probe), note);
}

fn check_by(
    algorithms: &[Algorithm],
    join: &EquiJoin,
    key_type: KeyType,
    (build, probe): (&RandomInput, &RandomInput),
    note: &str,
) {
    let model = expected(join, key_type, build, probe);
    let directory = tempfile::tempdir().unwrap();
    for &algorithm in algorithms {
        for limit in LIMITS {
            if algorithm == Algorithm::Hash && limit < 1 << 20 {
                continue;
            }
            let spill = FileSpillSpace::new(directory.path());
            let budget = JoinBudget::new(limit);
            let (build, probe) = (build.source(), probe.source());
            let rows = run_with(join, algorithm, (&build, &probe), (&budget, &spill));
            let place = format!(
                "{note}: {:?} of {key_type:?} by {algorithm:?} in {limit}",
                join.kind
            );
            let rows = rows.unwrap_or_else(|error| panic!("{place}: {error}"));
            let differs = rows.iter().zip(&model).find(|(row, model)| row != model);
            assert!(
                rows.len() == model.len() && differs.is_none(),
                "{place}: {} rows, {} expected, {differs:?}",
                rows.len(),
                model.len()
            );
        }
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "the seed of a failure")]
fn all_kinds_of_all_keys() {
    let seed = seed();
    println!("HALOCLINE_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for key_type in KeyType::ALL {
        let (rows, keys) = (random.random_range(200..900), random.random_range(100..700));
        let build = random_keys(&mut random, rows, keys, 0.05);
        let probe = random_keys(&mut random, 1500 - rows, keys + 50, 0.05);
        let build = RandomInput::new(key_type, build, true, &mut random);
        let probe = RandomInput::new(key_type, probe, false, &mut random);
        for kind in JoinKind::ALL {
            if key_type == KeyType::Boolean && kind.returns_pairs() {
                continue;
            }
            let join = join(kind, key_type);
            let note = format!("seed {seed}");
            let first = random.random_range(0..ALGORITHMS.len() - 3);
            let some = [&ALGORITHMS[first..first + 3], &ALGORITHMS[7..]].concat();
            let sides = (&build, &probe);
            check_by(&some, &join, key_type, sides, &note);
            let nulls_equal = join.clone().with_null_equals_null();
            check_by(&some[2..], &nulls_equal, key_type, sides, &note);
            check_by(
                &some[1..],
                &join.with_residual(residual()),
                key_type,
                sides,
                &note,
            );
        }
    }
}

#[test]
fn sides_without_rows_or_keys() {
    let mut random = StdRng::seed_from_u64(1);
    let sides = [
        vec![],
        vec![None, None],
        vec![Some(3), None],
        vec![Some(3); 2],
        vec![Some(4)],
    ];
    for key_type in [KeyType::Int64, KeyType::Utf8] {
        for build in &sides {
            for probe in &sides {
                let build = RandomInput::new(key_type, build.clone(), true, &mut random);
                let probe = RandomInput::new(key_type, probe.clone(), false, &mut random);
                for kind in JoinKind::ALL {
                    check(&join(kind, key_type), key_type, &build, &probe, "few rows");
                }
                for kind in [JoinKind::ProbeAnti, JoinKind::BuildAnti] {
                    let join = join(kind, key_type).with_null_aware();
                    check(&join, key_type, &build, &probe, "null-aware");
                }
            }
        }
    }
}

#[test]
fn null_aware_anti_joins() {
    let mut random = StdRng::seed_from_u64(2);
    for (build_nulls, probe_nulls) in [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1), (0.1, 0.1)] {
        for (build, probe) in [(700, 500), (0, 600), (600, 0)] {
            let build = random_keys(&mut random, build, 900, build_nulls);
            let probe = random_keys(&mut random, probe, 900, probe_nulls);
            let build = RandomInput::new(KeyType::Int64, build, true, &mut random);
            let probe = RandomInput::new(KeyType::Int64, probe, false, &mut random);
            for kind in [JoinKind::ProbeAnti, JoinKind::BuildAnti] {
                let join = join(kind, KeyType::Int64).with_null_aware();
                check(&join, KeyType::Int64, &build, &probe, "null-aware");
            }
        }
    }
}

/// Nothing that divides by hashes makes the rows of one key fewer.
#[test]
fn one_key_has_all_rows() {
    let mut random = StdRng::seed_from_u64(3);
    for key_type in [KeyType::Int64, KeyType::TextAndInt] {
        let build = RandomInput::new(key_type, vec![Some(5); 3000], true, &mut random);
        let mut probe = random_keys(&mut random, 200, 2000, 0.0);
        probe.extend([Some(5); 4]);
        let probe = RandomInput::new(key_type, probe, false, &mut random);
        for kind in JoinKind::ALL {
            check(&join(kind, key_type), key_type, &build, &probe, "skew");
            check(
                &join(kind, key_type),
                key_type,
                &probe,
                &build,
                "skewed probe side",
            );
        }
    }
}

#[test]
fn joins_without_columns_count_rows() {
    let mut random = StdRng::seed_from_u64(4);
    let keys = random_keys(&mut random, 500, 300, 0.1);
    let build = RandomInput::new(KeyType::Int64, keys.clone(), true, &mut random);
    let probe = RandomInput::new(KeyType::Int64, keys, false, &mut random);
    for kind in JoinKind::ALL {
        let join = join(kind, KeyType::Int64);
        let model = expected(&join, KeyType::Int64, &build, &probe).len();
        let join = join.with_output(vec![], vec![]);
        let directory = tempfile::tempdir().unwrap();
        for algorithm in ALGORITHMS {
            let (spill, budget) = (FileSpillSpace::new(directory.path()), JoinBudget::new(1 << 20));
            let sides = (build.source(), probe.source());
            let rows = run_with(&join, algorithm, (&sides.0, &sides.1), (&budget, &spill)).unwrap();
            assert_eq!(rows.len(), model, "{kind:?} by {algorithm:?}");
        }
    }
}

#[test]
fn dictionaries_become_values() {
    let mut random = StdRng::seed_from_u64(5);
    let key = KeyType::Dictionary.columns()[0];
    let build = RandomInput::new(KeyType::Dictionary, vec![Some(3), None], true, &mut random);
    let probe = RandomInput::new(KeyType::Dictionary, vec![Some(3)], false, &mut random);
    let join = EquiJoin::new(JoinKind::BuildOuter, vec![key], vec![key]).with_output(vec![key], vec![0]);
    let (build, probe) = (build.source(), probe.source());
    let schema = join.schema(&build.schema(), &probe.schema()).unwrap();
    assert_eq!(type_of(&schema, 0), type_of(&probe.schema(), key));
    let directory = tempfile::tempdir().unwrap();
    for algorithm in ALGORITHMS {
        let (spill, budget) = (FileSpillSpace::new(directory.path()), JoinBudget::new(1 << 20));
        let rows = run_with(&join, algorithm, (&build, &probe), (&budget, &spill)).unwrap();
        assert_eq!(rows, ["- - ", "3 0 "]);
    }
}

#[test]
fn contradictions_are_refused() {
    let mut random = StdRng::seed_from_u64(6);
    let ints = RandomInput::new(KeyType::Int64, vec![Some(3)], true, &mut random).source();
    let texts = RandomInput::new(KeyType::Utf8, vec![Some(3)], true, &mut random).source();
    let schema = |join: &EquiJoin, probe: &BatchSource| join.schema(&ints.schema(), &probe.schema());
    let inner = join(JoinKind::Inner, KeyType::Int64);
    assert!(matches!(schema(&inner, &texts), Err(JoinError::KeyTypes { .. })));
    let join = |build: Vec<usize>, probe: Vec<usize>| EquiJoin::new(JoinKind::Inner, build, probe);
    assert!(matches!(
        schema(&join(vec![], vec![]), &ints),
        Err(JoinError::KeyCount { .. })
    ));
    assert!(matches!(
        schema(&join(vec![0, 1], vec![0]), &ints),
        Err(JoinError::KeyCount { .. })
    ));
    assert!(matches!(
        schema(&join(vec![99], vec![0]), &ints),
        Err(JoinError::NoSuchColumn { .. })
    ));
    let output = join(vec![0], vec![0]).with_output(vec![], vec![6]);
    assert!(matches!(
        schema(&output, &ints),
        Err(JoinError::NoSuchColumn { column: 6, .. })
    ));
    let null_aware = inner.with_null_aware();
    assert!(matches!(
        schema(&null_aware, &ints),
        Err(JoinError::Unsupported(_))
    ));
}

/// A batch may have no columns at all.
#[test]
fn batches_may_be_larger_than_output() {
    let mut random = StdRng::seed_from_u64(7);
    let rows = 3 * OUTPUT_ROWS + 5;
    let build = RandomInput::new(KeyType::Int32, vec![Some(1), Some(2)], true, &mut random);
    let keys = random_keys(&mut random, rows, 4, 0.0);
    let probe = RandomInput::new(KeyType::Int32, keys.clone(), false, &mut random);
    let whole = arrow_select::concat::concat_batches(&probe.batches[0].schema(), &probe.batches).unwrap();
    let options = RecordBatchOptions::new();
    let whole =
        RecordBatch::try_new_with_options(whole.schema(), whole.columns().to_vec(), &options).unwrap();
    let probe = BatchSource::new(whole.schema(), vec![whole]);
    let directory = tempfile::tempdir().unwrap();
    let join = join(JoinKind::Inner, KeyType::Int32);
    let matching = keys.iter().filter(|key| matches!(key, Some(1 | 2))).count();
    for algorithm in ALGORITHMS {
        let (spill, budget) = (FileSpillSpace::new(directory.path()), JoinBudget::new(1 << 20));
        let found = run_with(&join, algorithm, (&build.source(), &probe), (&budget, &spill)).unwrap();
        assert_eq!(found.len(), matching, "{algorithm:?}");
    }
}
