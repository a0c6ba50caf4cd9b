//! The memory that joins take.

use std::thread;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::model::{KeyType, RandomInput, expected, join, random_keys, run_with};
use crate::equi::*;

/// Beyond the limit: the buffers of all threads at their smallest.
const CONSTANT: usize = 512 << 10;

#[test]
fn the_limit_holds() {
    let mut random = StdRng::seed_from_u64(9);
    let keys = random_keys(&mut random, 60_000, 100_000, 0.0);
    for key_type in [KeyType::Int64, KeyType::Utf8] {
        let build = RandomInput::new(key_type, keys.clone(), true, &mut random);
        let probe = RandomInput::new(key_type, vec![Some(1), Some(2)], false, &mut random);
        let join = join(JoinKind::BuildSemi, key_type);
        let model = expected(&join, key_type, &build, &probe);
        for limit in [256 << 10, 1 << 20, 3 << 20, 10 << 20] {
            for algorithm in [Algorithm::Hybrid, Algorithm::Grace, Algorithm::NestedLoops] {
                let (spill, budget) = (FileSpillSpace::new(std::env::temp_dir()), JoinBudget::new(limit));
                let sides = (build.source(), probe.source());
                let rows = run_with(&join, algorithm, (&sides.0, &sides.1), (&budget, &spill)).unwrap();
                assert_eq!(rows, model);
                let peak = budget.peak();
                assert!(
                    peak <= limit + limit / 10 + CONSTANT,
                    "{algorithm:?}: {peak} of {limit}"
                );
                // What fits is not spilled.
                let spills =
                    algorithm == Algorithm::Grace || algorithm == Algorithm::Hybrid && limit <= 3 << 20;
                assert_eq!(spill.is_empty(), !spills, "{algorithm:?} {key_type:?} in {limit}");
            }
        }
    }
}

/// Runs a join in little memory, and returns the length of the file with the spilled rows.
fn spilled(kind: JoinKind, build: &RandomInput, probe: &RandomInput) -> u64 {
    let join = join(kind, KeyType::Int64);
    let (spill, budget) = (
        FileSpillSpace::new(std::env::temp_dir()),
        JoinBudget::new(1 << 20),
    );
    let sides = (build.source(), probe.source());
    run_with(&join, Algorithm::Grace, (&sides.0, &sides.1), (&budget, &spill)).unwrap();
    spill.len()
}

#[test]
fn probe_rows_without_partner_are_seldom_spilled() {
    let mut random = StdRng::seed_from_u64(15);
    let keys = random_keys(&mut random, 20_000, 100_000, 0.0);
    let build = RandomInput::new(KeyType::Int64, keys.clone(), true, &mut random);
    let others: Vec<_> = (200_000..240_000).map(Some).collect();
    let others = RandomInput::new(KeyType::Int64, others, false, &mut random);
    let none = RandomInput::new(KeyType::Int64, vec![], false, &mut random);
    let twice = RandomInput::new(KeyType::Int64, [keys.clone(), keys].concat(), false, &mut random);
    for kind in [JoinKind::ProbeAnti, JoinKind::ProbeSemi] {
        let [of_build, with_others, with_partners] =
            [&none, &others, &twice].map(|probe| spilled(kind, &build, probe));
        let (lone, matching) = (with_others - of_build, with_partners - of_build);
        assert!(
            matching > 0 && lone < matching / 2,
            "{kind:?}: {lone} of {matching}"
        );
    }
}

#[test]
fn concurrent_joins_share_the_memory() {
    let mut random = StdRng::seed_from_u64(10);
    let keys = random_keys(&mut random, 10_000, 20_000, 0.0);
    let build = RandomInput::new(KeyType::Int64, keys.clone(), true, &mut random);
    let probe = RandomInput::new(KeyType::Int64, keys[..200].to_vec(), false, &mut random);
    let join = join(JoinKind::Inner, KeyType::Int64);
    let model = expected(&join, KeyType::Int64, &build, &probe);
    let budget = JoinBudget::new(1 << 20);
    thread::scope(|scope| {
        for algorithm in [
            Algorithm::Hybrid,
            Algorithm::NestedLoops,
            Algorithm::Grace,
            Algorithm::Hybrid,
        ] {
            let (join, build, probe, model, budget) = (&join, &build, &probe, &model, budget.clone());
            scope.spawn(move || {
                let (build, probe) = (build.source(), probe.source());
                let spill = FileSpillSpace::new(std::env::temp_dir());
                for _ in 0..5 {
                    let rows = shared(join, algorithm, (&build, &probe), (&budget, &spill));
                    assert_eq!(rows, *model, "{algorithm:?}");
                }
            });
        }
    });
    assert_eq!(budget.used(), 0);
}

/// Runs a join whose budget others use as well.
fn shared(
    join: &EquiJoin,
    algorithm: Algorithm,
    (build, probe): (&dyn JoinSource, &dyn JoinSource),
    (budget, spill): (&std::sync::Arc<JoinBudget>, &dyn SpillSpace),
) -> Vec<String> {
    let cancelled = std::sync::atomic::AtomicBool::new(false);
    let context = JoinContext {
        threads: std::num::NonZeroUsize::new(2).unwrap(),
        budget: budget.clone(),
        spill,
        writers: std::num::NonZeroUsize::MIN,
        cancelled: &cancelled,
    };
    let rows = std::sync::Mutex::new(Vec::new());
    let collect = |batch| {
        rows.lock().unwrap().extend(super::model::texts(&batch));
        Ok(())
    };
    join.run(algorithm, build, probe, &context, &collect).unwrap();
    let mut rows = rows.into_inner().unwrap();
    rows.sort_unstable();
    rows
}
