//! The same query to a pool, each way, and to plain DataFusion.

use datafusion::prelude::SessionContext;
use halocline_engine::Database;

use super::support::{lines, query, run};

/// Asks all and compares; rows in any order unless the query sorts them.
pub(crate) async fn assert_same_answers(db: &Database, plain: &SessionContext, text: &str) {
    let sorts = text.to_uppercase().contains("ORDER BY");
    let in_order = |mut rows: Vec<String>| {
        if !sorts {
            rows.sort_unstable();
        }
        rows
    };
    let frame = plain.sql(text).await.unwrap_or_else(|e| panic!("{text}: {e}"));
    let expected = in_order(lines(
        &frame.collect().await.unwrap_or_else(|e| panic!("{text}: {e}")),
    ));
    for mode in ["off", "auto", "force"] {
        run(db, &format!("SET halocline.index = {mode}")).await;
        let found = in_order(query(db, text).await);
        if found != expected {
            let differing = found.iter().zip(&expected).position(|(a, b)| a != b);
            let at = differing.unwrap_or(found.len().min(expected.len()));
            panic!(
                "index = {mode}: {text}\n{} rows, expected {}; row {at}: {:?}, expected {:?}\n{}",
                found.len(),
                expected.len(),
                found.get(at),
                expected.get(at),
                query(db, &format!("EXPLAIN {text}")).await.join("\n")
            );
        }
    }
}
