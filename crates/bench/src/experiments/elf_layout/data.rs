//! The table of the experiment as an index sees it, and its queries.

use halocline_elf::{CodePredicate, Rows};
use halocline_workloads::{RangeQuery, UniformSpec, UniformTable, Zipf, queries};

use super::measure::Question;
use super::{CARDINALITY, DIMS, PERCENT, THETA};
use crate::Settings;

/// A table and the queries on it, made before anything is timed.
pub(super) struct Dataset {
    table: UniformTable,
    /// Flat, `DIMS` values each.
    pub(super) points: Vec<u64>,
    range: Vec<Vec<CodePredicate>>,
    every_second: Vec<Vec<CodePredicate>>,
    one_and_two: Vec<Vec<CodePredicate>>,
}

impl Dataset {
    pub(super) fn generate(rows: usize, settings: &Settings) -> Self {
        let spec = UniformSpec {
            rows,
            dims: DIMS,
            cardinality: CARDINALITY,
            seed: settings.seed,
        };
        let table = UniformTable::generate(&spec);
        let (exact, range, partial) = if settings.quick {
            (2_000, 200, 10)
        } else {
            (1_000_000, 50_000, 500)
        };
        let zipf = Zipf::new(rows.max(1) as u64, THETA).expect("the skew of this experiment is valid");
        let points = |count, stream| {
            queries::points(
                &table,
                &queries::zipf_rows(&zipf, count, settings.seed.wrapping_add(stream)),
            )
        };
        let windows = |count, dims: &[usize], stream| {
            let points = points(count, stream);
            queries::partial_matches(&points, DIMS, dims, table.max_value(), PERCENT)
                .iter()
                .map(predicates)
                .collect()
        };
        let all: Vec<usize> = (0..DIMS).collect();
        Self {
            points: points(exact, 1),
            range: windows(range, &all, 2),
            every_second: windows(partial, &[0, 2, 4, 6, 8], 3),
            one_and_two: windows(partial, &[1, 2], 4),
            table,
        }
    }

    /// The windows of a question.
    pub(super) fn windows(&self, question: Question) -> &[Vec<CodePredicate>] {
        match question {
            Question::Exact | Question::ExactBatch => &[],
            Question::Range => &self.range,
            Question::PartialEverySecond => &self.every_second,
            Question::PartialOneAndTwo => &self.one_and_two,
        }
    }

    /// How many queries one repetition of a question has.
    pub(super) fn count(&self, question: Question) -> usize {
        match question {
            Question::Exact | Question::ExactBatch => self.points.len() / DIMS,
            _ => self.windows(question).len(),
        }
    }
}

fn predicates(query: &RangeQuery) -> Vec<CodePredicate> {
    query
        .bounds
        .iter()
        .map(|bounds| match *bounds {
            Some((lo, hi)) => CodePredicate::Range { lo, hi },
            None => CodePredicate::Any,
        })
        .collect()
}

impl Rows for Dataset {
    fn rows(&self) -> usize {
        self.table.rows()
    }

    fn dims(&self) -> usize {
        DIMS
    }

    fn max_code(&self, _dim: usize) -> u64 {
        self.table.max_value()
    }

    fn read(&self, dim: usize, start: usize, out: &mut [u64]) {
        let column = &self.table.column(dim)[start..start + out.len()];
        for (code, &value) in out.iter_mut().zip(column) {
            *code = u64::from(value);
        }
    }
}
