//! The paper's query types over any table, drawn with skew; as many as wanted, never the same list twice.

use std::fmt;

use halocline_elf::{CodePredicate, Query, Rows};
use halocline_workloads::{SplitMix64, Zipf};

use super::CodeTable;
use crate::{BenchError, QueryGroup, Settings};

/// Query types.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::experiments) enum QueryType {
    /// Exact matches, one at a time.
    Exact,
    /// Exact matches, many at a time.
    ExactBatch,
    /// Windows of this many percent in every dimension.
    Range(f64),
    /// Windows of this many percent in every second dimension.
    Partial(f64),
    /// Windows of this many percent in dimensions 1 and 2.
    OneAndTwo(f64),
}

impl QueryType {
    /// Returns true if the settings select this query type.
    pub(in crate::experiments) fn is_asked(self, settings: &Settings) -> bool {
        let kind = match self {
            Self::Exact => QueryGroup::Exact,
            Self::ExactBatch => QueryGroup::Batch,
            Self::Range(percent) if percent > 50.0 => QueryGroup::WholeRange,
            Self::Range(_) => QueryGroup::Range,
            Self::Partial(percent) if percent > 50.0 => QueryGroup::WholePartial,
            Self::Partial(_) | Self::OneAndTwo(_) => QueryGroup::Partial,
        };
        let asked = &settings.tiers.asked;
        asked.is_empty() || asked.contains(&kind)
    }

    /// Returns the number of queries to draw for one measured point, which is more than it needs on any
    /// machine.
    pub(in crate::experiments) fn supply(self, quick: bool) -> usize {
        match (self, quick) {
            (Self::Exact | Self::ExactBatch, true) => 2_000,
            (Self::Exact | Self::ExactBatch, false) => 1_000_000,
            (Self::Range(percent) | Self::Partial(percent), _) if percent > 50.0 => 4,
            (Self::Range(_), true) => 200,
            (Self::Range(_), false) => 100_000,
            (Self::Partial(_) | Self::OneAndTwo(_), true) => 10,
            (Self::Partial(_) | Self::OneAndTwo(_), false) => 2_000,
        }
    }
}

impl fmt::Display for QueryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
            Self::ExactBatch => f.write_str("exact_batch"),
            Self::Range(percent) => write!(f, "range {percent} %"),
            Self::Partial(percent) => write!(f, "partial {percent} %"),
            Self::OneAndTwo(percent) => write!(f, "partial {percent} % on dimensions 1, 2"),
        }
    }
}

/// Queries of one kind.
#[derive(Debug)]
pub(in crate::experiments) struct Queries {
    pub(super) question: QueryType,
    pub(super) dims: usize,
    /// Exact matches: flat, `dims` codes each.
    pub(super) points: Vec<u64>,
    /// The others.
    pub(super) windows: Vec<Vec<CodePredicate>>,
}

impl Queries {
    pub(in crate::experiments) fn len(&self) -> usize {
        match self.question {
            QueryType::Exact | QueryType::ExactBatch => self.points.len() / self.dims,
            _ => self.windows.len(),
        }
    }

    /// Converts the queries to those of an advisor.
    pub(in crate::experiments) fn sample(&self) -> Vec<Query> {
        match self.question {
            QueryType::Exact | QueryType::ExactBatch => {
                let points = self.points.chunks_exact(self.dims);
                points.map(|point| Query::Exact(point.to_vec())).collect()
            }
            QueryType::Range(_) | QueryType::Partial(_) | QueryType::OneAndTwo(_) => {
                self.windows.iter().cloned().map(Query::Select).collect()
            }
        }
    }

    pub(in crate::experiments) fn question(&self) -> QueryType {
        self.question
    }
}

/// Draws rows of a table with skew, and makes queries of them.
#[derive(Debug)]
pub(in crate::experiments) struct QuerySource<'a> {
    table: &'a CodeTable,
    zipf: Zipf,
    random: SplitMix64,
}

impl<'a> QuerySource<'a> {
    /// Creates a source of queries about rows of `table`, which are drawn with skew `theta` from the random
    /// stream `stream` of `seed`.
    ///
    /// # Errors
    /// The table is empty, or the skew is not in `[0, 1)`.
    pub(in crate::experiments) fn new(
        table: &'a CodeTable,
        theta: f64,
        seed: u64,
        stream: u64,
    ) -> Result<Self, BenchError> {
        let zipf =
            Zipf::new(table.rows() as u64, theta).map_err(|error| BenchError::Setup(error.to_string()))?;
        Ok(Self {
            table,
            zipf,
            random: SplitMix64::stream(seed, stream),
        })
    }

    /// Draws the next `count` queries.
    pub(in crate::experiments) fn draw(&mut self, question: QueryType, count: usize) -> Queries {
        let dims = self.table.dims();
        let mut queries = Queries {
            question,
            dims,
            points: vec![],
            windows: vec![],
        };
        match question {
            QueryType::Exact | QueryType::ExactBatch => {
                queries.points.reserve(count * dims);
                for _ in 0..count {
                    let row = self.zipf.sample(&mut self.random) as usize;
                    self.table.push_row(row, &mut queries.points);
                }
            }
            QueryType::Range(percent) | QueryType::Partial(percent) | QueryType::OneAndTwo(percent) => {
                let is_bounded = |dim: usize| match question {
                    QueryType::Partial(_) => dim.is_multiple_of(2),
                    QueryType::OneAndTwo(_) => dim == 1 || dim == 2,
                    _ => true,
                };
                let mut point = Vec::with_capacity(dims);
                for _ in 0..count {
                    point.clear();
                    let row = self.zipf.sample(&mut self.random) as usize;
                    self.table.push_row(row, &mut point);
                    let window = (0..dims).map(|dim| {
                        if is_bounded(dim) {
                            window(point[dim], self.table.max_code(dim), percent)
                        } else {
                            CodePredicate::Any
                        }
                    });
                    queries.windows.push(window.collect());
                }
            }
        }
        queries
    }
}

/// Returns the range of codes that begins at `code` and spans `percent` % of the domain, cut off at `max`;
/// the whole domain for 100 %.
fn window(code: u64, max: u64, percent: f64) -> CodePredicate {
    if percent >= 100.0 {
        return CodePredicate::Range { lo: 0, hi: max };
    }
    let width = ((max as f64 + 1.0) * percent / 100.0).round() as u64;
    CodePredicate::Range {
        lo: code,
        hi: code.saturating_add(width).min(max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_start_at_their_point_and_are_clamped() {
        assert_eq!(window(10, 99, 2.0), CodePredicate::Range { lo: 10, hi: 12 });
        assert_eq!(window(99, 99, 2.0), CodePredicate::Range { lo: 99, hi: 99 });
        assert_eq!(window(7, 99, 100.0), CodePredicate::Range { lo: 0, hi: 99 });
    }

    #[test]
    fn a_source_never_repeats_itself_and_equal_ones_agree() {
        let table = CodeTable::uniform(1000, 4, 50, 3);
        let mut one = QuerySource::new(&table, 0.5, 42, 1).unwrap();
        let mut two = QuerySource::new(&table, 0.5, 42, 1).unwrap();
        let (first, second) = (one.draw(QueryType::Exact, 50), one.draw(QueryType::Exact, 50));
        assert_eq!(first.len(), 50);
        assert_ne!(first.points, second.points);
        assert_eq!(two.draw(QueryType::Exact, 50).points, first.points);
        let partial = two.draw(QueryType::Partial(2.0), 1);
        assert_eq!(partial.windows[0][1], CodePredicate::Any);
        assert_ne!(partial.windows[0][2], CodePredicate::Any);
        assert!(QuerySource::new(&table, 1.0, 42, 1).is_err());
    }
}
