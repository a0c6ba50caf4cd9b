//! Selections by several threads of their own: the same rows for every number of threads, and alone where
//! that is enough.

use halocline_elf::{CodePredicate, Workers};

use crate::common::{Data, all_builds, answer};

fn table() -> Data {
    Data::random(&[(9, 10), (99, 100), (99, 100), (99, 100)], 60_000, 7)
}

/// Few rows below many lists, many rows below few, all rows, none.
fn selections() -> Vec<Vec<CodePredicate>> {
    let window = |a: CodePredicate, b, c, d| vec![a, b, c, d];
    let any = || CodePredicate::Any;
    let point = CodePredicate::equal;
    vec![
        window(any(), any(), any(), point(17)),
        window(point(1), any(), any(), any()),
        window(
            any(),
            CodePredicate::range(3, 80),
            any(),
            CodePredicate::range(10, 70),
        ),
        window(any(), any(), any(), any()),
        window(point(1), point(5), point(9), any()),
        window(any(), CodePredicate::Nothing, any(), any()),
    ]
}

#[test]
fn every_number_of_threads_finds_the_same() {
    let data = table();
    for (what, elf) in all_builds(&data) {
        for predicates in selections() {
            let expected = answer(&data, &predicates);
            let selection = elf.select(&predicates).unwrap();
            for threads in [1, 2, 3, 8] {
                let (workers, mut tids) = (Workers::new(threads), vec![]);
                selection.tids_into_by(&workers, &mut tids).unwrap();
                tids.sort_unstable();
                assert_eq!(tids, expected, "{what}, {threads} threads: {predicates:?}");
                let (count, _) = selection.count_by(&workers).unwrap();
                assert_eq!(
                    count,
                    expected.len() as u64,
                    "{what}, {threads} threads: {predicates:?}"
                );
            }
        }
    }
}

#[test]
fn one_thread_and_small_selections_work_alone() {
    let data = table();
    for (what, elf) in all_builds(&data) {
        let together = |predicates: &[CodePredicate], workers: &Workers| {
            let selection = elf.select(predicates).unwrap();
            let rows = selection.tids_into_by(workers, &mut vec![]).unwrap();
            (rows, selection.count_by(workers).unwrap().1)
        };
        let (one, four) = (Workers::new(1), Workers::new(4));
        for predicates in selections() {
            assert_eq!(
                together(&predicates, &one),
                (false, false),
                "{what}: {predicates:?}"
            );
        }
        let selections = selections();
        assert_eq!(together(&selections[4], &four), (false, false), "{what}: a point");
        assert_eq!(together(&selections[5], &four), (false, false), "{what}: nothing");
        assert!(format!("{four:?}").contains("started: false"), "{four:?}");
        assert!(together(&selections[3], &four).0, "{what}: all rows");
        assert!(
            together(&selections[0], &four).1,
            "{what}: few rows below many lists"
        );
        assert!(
            format!("{four:?}").contains("started: true") && format!("{one:?}").contains("started: false")
        );
    }
}
