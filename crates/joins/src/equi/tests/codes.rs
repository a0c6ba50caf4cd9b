//! Joins on codes of strings, beside joins on the strings.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use halocline_columns::{Table, TableOptions, TableWriter, delete_rows};
use halocline_pool::{Pool, PoolOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::model::run_with;
use crate::equi::*;

const KINDS: [JoinKind; 4] = [
    JoinKind::Inner,
    JoinKind::FullOuter,
    JoinKind::ProbeAnti,
    JoinKind::BuildSemi,
];

/// Creates a table of some segments, whose texts are `prefix` and one of `texts` numbers.
fn table(
    pool: &Pool,
    name: &str,
    segments: &[usize],
    prefix: &str,
    texts: u32,
    random: &mut StdRng,
) -> Table {
    for (number, rows) in segments.iter().enumerate() {
        let text = (0..*rows).map(|_| {
            (random.random_range(0..20) > 0).then(|| format!("{prefix} {}", random.random_range(0..texts)))
        });
        let text: ArrayRef = Arc::new(text.collect::<StringArray>());
        let row: ArrayRef = Arc::new((0..*rows as i64).collect::<Int64Array>());
        let batch = RecordBatch::try_from_iter([("text", text), ("row", row)]).unwrap();
        let txn = pool.begin().unwrap();
        let mut writer = match number {
            0 => TableWriter::new(&txn, name, batch.schema(), TableOptions::default()).unwrap(),
            _ => TableWriter::append(&txn, name, TableOptions::default()).unwrap(),
        };
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        txn.commit().unwrap();
    }
    Table::open(&pool.snapshot().unwrap(), name).unwrap()
}

/// Joins by strings and by codes, and compares. Returns true if the ranks are the codes.
fn compare(build: &Table, probe: &Table) -> bool {
    let (own, others) = KeyCodes::shared((build, 0), (probe, 0)).unwrap().unwrap();
    assert_eq!((own.column(), own.are_ranks()), (0, others.are_ranks()));
    let of = |table: &Table, columns| TableSource::new(table, columns).unwrap();
    let by_text = (of(build, vec![0, 1]), of(probe, vec![0, 1]));
    let by_codes = (
        of(build, vec![0, 1]).with_codes(own.clone()),
        of(probe, vec![0, 1]).with_codes(others),
    );
    let directory = tempfile::tempdir().unwrap();
    let spill = FileSpillSpace::new(directory.path());
    for kind in KINDS {
        for null_equals_null in [false, true] {
            let join = |key| {
                let join = EquiJoin::new(kind, vec![key], vec![key]).with_output(vec![1], vec![1]);
                if null_equals_null {
                    join.with_null_equals_null()
                } else {
                    join
                }
            };
            let budget = JoinBudget::new(1 << 30);
            let model = run_with(
                &join(0),
                Algorithm::Hash,
                (&by_text.0, &by_text.1),
                (&budget, &spill),
            )
            .unwrap();
            for (memory, algorithm) in [(1 << 30, Algorithm::Hash), (64 << 10, Algorithm::Hybrid)] {
                let budget = JoinBudget::new(memory);
                let inputs: (&dyn JoinSource, &dyn JoinSource) = (&by_codes.0, &by_codes.1);
                let found = run_with(&join(2), algorithm, inputs, (&budget, &spill)).unwrap();
                assert_eq!(found, model, "{kind:?} {algorithm:?} {null_equals_null}");
            }
        }
    }
    own.are_ranks()
}

#[test]
fn joins_on_codes_return_the_same_rows() {
    let directory = tempfile::tempdir().unwrap();
    let pool = Pool::create(directory.path().join("codes.pool"), &PoolOptions::default()).unwrap();
    let mut random = StdRng::seed_from_u64(21);
    let one = table(&pool, "one", &[3000], "text", 200, &mut random);
    let many = table(&pool, "many", &[1000, 1, 2000], "text", 300, &mut random);
    let other = table(&pool, "other", &[500], "words", 40, &mut random);
    assert!(compare(&one, &one));
    for (build, probe) in [(&one, &many), (&many, &one), (&many, &many), (&one, &other)] {
        assert!(!compare(build, probe));
    }
    let deleted = one.segments()[0].id();
    let txn = pool.begin().unwrap();
    delete_rows(&txn, "one", &BTreeMap::from([(deleted, (7..2500).collect())])).unwrap();
    txn.commit().unwrap();
    let rest = Table::open(&pool.snapshot().unwrap(), "one").unwrap();
    assert!(compare(&rest, &one));
    assert!(!compare(&other, &rest));
}

#[test]
fn strings_without_a_dictionary_have_no_codes() {
    let directory = tempfile::tempdir().unwrap();
    let pool = Pool::create(directory.path().join("codes.pool"), &PoolOptions::default()).unwrap();
    let mut random = StdRng::seed_from_u64(22);
    let few = table(&pool, "few", &[3000], "text", 200, &mut random);
    let unique = table(&pool, "unique", &[20_000], "text", u32::MAX, &mut random);
    let has_dictionary = |table: &Table| {
        let space = table.segments()[0].column(0).code_space();
        space.is_some_and(|space| space.dictionary().is_some())
    };
    assert!(has_dictionary(&few) && !has_dictionary(&unique));
    for sides in [(&few, &unique), (&unique, &few), (&unique, &unique)] {
        assert!(KeyCodes::shared((sides.0, 0), (sides.1, 0)).unwrap().is_none());
    }
    // Numbers are compared as they are.
    assert!(KeyCodes::shared((&few, 1), (&few, 1)).unwrap().is_none());
}
