//! The 22 queries of TPC-H, over pool tables and over the Parquet files they came from: the answers are the
//! same.
//!
//! `HALOCLINE_TPCH_SF` sets the scale factor (0.01).

use std::env;

use halocline_workloads::{TpchTable, tpch_queries};

use super::support::{import, lines, new_pool, plain, query, write_parquet};

fn scale_factor() -> f64 {
    let text = env::var("HALOCLINE_TPCH_SF").unwrap_or_else(|_| "0.01".into());
    text.parse().expect("HALOCLINE_TPCH_SF is a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_queries_agree_with_plain_datafusion() {
    let scale_factor = scale_factor();
    let (dir, db) = new_pool();
    let mut files = vec![];
    for of in TpchTable::ALL {
        let path = dir.path().join(format!("{of}.parquet"));
        write_parquet(&path, of.reader(scale_factor, 0, 1).map(Result::unwrap));
        import(&db, of.name(), std::slice::from_ref(&path));
        files.push((of.name(), path));
    }
    let files: Vec<_> = files.iter().map(|(name, path)| (*name, path.as_path())).collect();
    let plain = plain(&files).await;
    for tpch in tpch_queries(scale_factor) {
        let batches = plain.sql(&tpch.sql).await.unwrap().collect().await;
        let mut expected = lines(&batches.unwrap_or_else(|error| panic!("Q{}: {error}", tpch.number)));
        let mut found = query(&db, &tpch.sql).await;
        // Rows that are equal in what they are ordered by come in any order.
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "Q{}", tpch.number);
        // At these sizes a few select nothing; the others would notice a table that is empty.
        assert!(!found.is_empty() || scale_factor < 1.0, "Q{}", tpch.number);
    }
}
