//! Synthetic queries of an index without a workload: the values of existing rows, and ranges of 2 % around
//! them.

use halocline_columns::{CodePredicate, Table};
use halocline_elf::{Query, TableIndex};
use halocline_sql::EngineError;

/// Number of queries for each segment, each made of another row so that one does not warm the cache for the
/// next.
const ROWS: usize = 128;
/// A range reaches this fraction (1 / PARTS) of the codes of a dimension to either side.
const PARTS: u64 = 100;

/// Makes the same number of queries for each segment, from rows of its own.
///
/// # Errors
/// The table's columns cannot be read.
pub(super) fn sample(index: &TableIndex, table: &Table) -> Result<Vec<Vec<Query>>, EngineError> {
    let of_segment = |segment: &halocline_elf::IndexSegment| {
        let Some(stored) = table.segments().iter().find(|of| of.id() == segment.id()) else {
            return Ok(vec![]);
        };
        let mut rows: Vec<u32> = (0..ROWS).map(|i| (i * stored.rows() / ROWS) as u32).collect();
        rows.dedup();
        let mut codes = vec![];
        for (dimension, &column) in index.columns().iter().enumerate() {
            let values = stored.column(column).gather(&rows)?;
            let mut of_dimension = vec![];
            segment
                .space(dimension)
                .encode(values.as_ref(), &mut of_dimension)?;
            codes.push(of_dimension);
        }
        let queries = (0..ROWS).map(|number| {
            // A smaller segment repeats its rows, so that all segments have the same number of queries. The
            // advisor warms up with every other query, so exact and range queries alternate in pairs: each
            // half has both kinds.
            let (row, exact) = (number % rows.len().max(1), number % 4 < 2);
            let of_dimension = codes.iter().enumerate().map(|(dimension, codes)| {
                let around = if exact {
                    0
                } else {
                    segment.space(dimension).max_code() / PARTS
                };
                let code = codes.get(row).copied().unwrap_or_default();
                CodePredicate::range(code.saturating_sub(around), code.saturating_add(around))
            });
            Query::Select(of_dimension.collect())
        });
        Ok(queries.collect())
    };
    index.segments().iter().map(of_segment).collect()
}
