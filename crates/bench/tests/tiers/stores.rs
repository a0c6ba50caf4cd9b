//! The experiments on key-value stores.

use halocline_bench::Backing;

use crate::support::{number, on, run};

#[test]
fn workloads_run_on_stores_and_trees() {
    let outcome = run("ycsb", on(&[Backing::Dax]));
    for workload in ["A", "B", "C", "D", "E", "F"] {
        let rates = |system: &str| {
            let rates = outcome.values_of("rate");
            rates
                .filter(|value| value["config"]["workload"] == workload && value["system"] == system)
                .inspect(|value| assert!(number(value) > 0.0))
                .count()
        };
        assert!(rates("store") >= 5, "{workload}: {}", outcome.text);
        for tree in ["wb", "fp", "fast-fair", "lb"] {
            let (alone, cached) = (rates(tree), rates(&format!("{tree}, hot keys cached")));
            assert!(alone > 0 && alone == cached, "{workload}: {}", outcome.text);
        }
    }
}

#[test]
fn space_is_measured_with_and_without_a_reader() {
    let outcome = run("space", on(&[Backing::PageCache]));
    for metric in ["space", "space_peak", "space_closed"] {
        let ratios: Vec<f64> = outcome.values_of(metric).map(number).collect();
        assert_eq!(ratios.len(), 4, "{}", outcome.text);
        assert!(ratios.iter().all(|ratio| *ratio > 1.0), "{metric}: {ratios:?}");
    }
}
