//! Queries of an index that nobody has asked yet: rows there are, and ranges of 2 % around them.

use halocline_columns::{CodePredicate, Table};
use halocline_elf::{Query, TableIndex};

use crate::EngineError;

/// Rows of each segment that queries are made of, one each: what one query has read must not be there for the next.
const ROWS: usize = 128;
/// A range is so many parts of a dimension's codes to either side.
const PARTS: u64 = 100;

/// For each segment as many queries, of rows of its own.
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
            // A smaller segment repeats its rows, so that all have the same number of queries.
            // One half of the queries warms up for the other one, every other query: both have some of both kinds.
            let (row, exact) = (number % rows.len().max(1), number % 4 < 2);
            let of_dimension = codes.iter().enumerate().map(|(dimension, codes)| {
                let around = match exact {
                    true => 0,
                    false => segment.space(dimension).max_code() / PARTS,
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
