//! Random conjunctions over `lineitem` with a given approximate selectivity.
//!
//! A conjunction is built around an *anchor*, a random row of the sample, so it never selects nothing.
//! Predicates are added one at a time. Each takes a part of the selectivity still missing, measured on the
//! sample rows that satisfy all previous predicates, so the selectivities of correlated columns (the three
//! dates) are not multiplied by mistake. If too few sample rows remain, the width of the range is
//! interpolated. The result is near the target, not on it: an experiment counts and reports the actual
//! selectivity.

use crate::sample::SampleColumn;
use crate::{Conjunction, LineitemSample, Predicate, SplitMix64};

/// Minimum number of matching sample rows for quantiles to be meaningful.
const MIN_SAMPLE_MATCHES: f64 = 30.0;

/// A generator of conjunctions. Equal samples and seeds yield equal conjunctions.
#[derive(Debug, Clone)]
pub struct ConjunctionGenerator<'a> {
    sample: &'a LineitemSample,
    rng: SplitMix64,
    drawn: usize,
}

impl<'a> ConjunctionGenerator<'a> {
    /// Creates a generator over `sample`.
    ///
    /// # Panics
    /// Panics if the sample has no rows.
    #[must_use]
    pub fn new(sample: &'a LineitemSample, seed: u64) -> Self {
        assert!(
            sample.rows() > 0,
            "conjunctions are grown around sample rows, and there are none"
        );
        Self {
            sample,
            rng: SplitMix64::new(seed),
            drawn: 0,
        }
    }

    /// Draws a conjunction of `predicates` predicates on as many different columns, with about the given
    /// selectivity (a fraction of all rows).
    ///
    /// # Panics
    /// Panics if `predicates` is 0 or more than 15, or `selectivity` is not in `(0, 1]`.
    pub fn draw(&mut self, predicates: usize, selectivity: f64) -> Conjunction {
        assert!(
            (1..=self.sample.columns().len()).contains(&predicates),
            "1 to 15 predicates, not {predicates}"
        );
        assert!(
            selectivity > 0.0 && selectivity <= 1.0,
            "a selectivity is in (0, 1], not {selectivity}"
        );
        let anchor = self.rng.below(self.sample.rows() as u64) as usize;
        let columns = self.choose_columns(predicates);
        let mut live: Vec<usize> = (0..self.sample.rows()).collect();
        // The number of rows that the live ones represent; a fraction when too few are left to count.
        let mut weight = live.len() as f64;
        let mut missing = selectivity;
        let mut conditions = Vec::with_capacity(predicates);
        for (i, &column) in columns.iter().enumerate() {
            let column = &self.sample.columns()[column];
            let left = (columns.len() - i) as f64;
            let share = missing.powf(self.part_of_the_rest(left));
            let (predicate, lo, hi) = narrow(column, anchor, &live, weight, share, &mut self.rng);
            let before = live.len() as f64;
            live.retain(|&row| (lo..=hi).contains(&column.values[row]));
            let kept = if live.len() as f64 >= MIN_SAMPLE_MATCHES {
                live.len() as f64 / before
            } else {
                share
            };
            weight *= kept;
            missing = (missing / kept).min(1.0);
            conditions.push(predicate);
        }
        let name = format!("random-{:03}", self.drawn);
        self.drawn += 1;
        Conjunction::new(&name, conditions)
    }

    /// Chooses columns, strings first: they can be narrowed only in coarse steps, which the ordered columns
    /// after them even out. At least one is an ordered column with many values.
    fn choose_columns(&mut self, count: usize) -> Vec<usize> {
        const MANY_VALUED_COLUMNS: [&str; 7] = [
            "l_orderkey",
            "l_partkey",
            "l_suppkey",
            "l_extendedprice",
            "l_shipdate",
            "l_commitdate",
            "l_receiptdate",
        ];
        let columns = self.sample.columns();
        let mut order: Vec<usize> = (0..columns.len()).collect();
        self.rng.shuffle(&mut order);
        let is_fine = |&column: &usize| MANY_VALUED_COLUMNS.contains(&columns[column].name);
        if let Some(fine) = order.iter().position(is_fine) {
            order.swap(0, fine);
        }
        let mut chosen = order[..count].to_vec();
        chosen.sort_by_key(|column| (is_fine(column), columns[*column].is_ordered()));
        chosen
    }

    /// Returns the fraction of the missing (logarithmic) selectivity for the next of `left` predicates.
    fn part_of_the_rest(&mut self, left: f64) -> f64 {
        if left <= 1.0 {
            1.0
        } else {
            ((0.3 + 1.4 * self.rng.unit()) / left).min(1.0)
        }
    }
}

/// Returns a predicate on `column` that holds for the anchor and for about `share` of the `live` rows,
/// with its inclusive bounds.
fn narrow(
    column: &SampleColumn,
    anchor: usize,
    live: &[usize],
    weight: f64,
    share: f64,
    rng: &mut SplitMix64,
) -> (Predicate, i64, i64) {
    let value = column.values[anchor];
    let equal = || (Predicate::equal(column.name, column.literal(value)), value, value);
    if !column.is_ordered() {
        return equal();
    }
    let mut sorted: Vec<i64> = live.iter().map(|&row| column.values[row]).collect();
    sorted.sort_unstable();
    let wanted = share * weight;
    let (lo, hi) = if wanted >= MIN_SAMPLE_MATCHES && sorted.len() as f64 >= wanted {
        let length = (wanted as usize).clamp(1, sorted.len());
        let first_of_value = sorted.partition_point(|&other| other < value);
        let before = rng.below(length as u64) as usize;
        let start = first_of_value.saturating_sub(before).min(sorted.len() - length);
        (sorted[start].min(value), sorted[start + length - 1].max(value))
    } else {
        // Too few rows to count: take the same fraction of the width, assuming a uniform distribution.
        let (min, max) = (
            sorted.first().copied().unwrap_or(value),
            sorted.last().copied().unwrap_or(value),
        );
        let width = ((max - min) as f64 * share) as i64;
        let below = if width > 0 {
            rng.below(width as u64 + 1) as i64
        } else {
            0
        };
        let lo = (value - below).max(min.min(value));
        (lo, lo + width)
    };
    if lo == hi {
        return equal();
    }
    (
        Predicate::between(column.name, column.literal(lo), column.literal(hi)),
        lo,
        hi,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Condition, Literal};

    fn count(sample: &LineitemSample, selection: &Conjunction) -> usize {
        let holds = |predicate: &Predicate, row: usize| {
            let column = sample
                .columns()
                .iter()
                .find(|c| c.name == predicate.column)
                .unwrap();
            let value = column.literal(column.values[row]);
            match &predicate.condition {
                Condition::Equal(wanted) => value == *wanted,
                Condition::In(wanted) => wanted.contains(&value),
                Condition::Range(lo, hi) => {
                    std::ops::RangeBounds::<Literal>::contains(&(lo.clone(), hi.clone()), &value)
                }
            }
        };
        (0..sample.rows())
            .filter(|&row| selection.predicates.iter().all(|p| holds(p, row)))
            .count()
    }

    #[test]
    fn conjunctions_come_near_their_target() {
        let sample = LineitemSample::generate(0.01, usize::MAX, 1);
        let mut generator = ConjunctionGenerator::new(&sample, 7);
        let mut worst: f64 = 1.0;
        let mut near = 0;
        for i in 0..60 {
            let predicates = 1 + i % 5;
            let target = [0.1, 0.01, 0.002][i % 3];
            let selection = generator.draw(predicates, target);
            assert_eq!(selection.predicates.len(), predicates);
            let actual = count(&sample, &selection) as f64 / sample.rows() as f64;
            assert!(actual > 0.0, "{}", selection.where_clause());
            let factor = (actual / target).max(target / actual);
            near += usize::from(factor < 2.0);
            worst = worst.max(factor);
        }
        assert!(
            near >= 45,
            "{near} of 60 within a factor of two, the worst off by {worst}"
        );
    }

    #[test]
    fn equal_seeds_draw_equal_conjunctions_on_different_columns() {
        let sample = LineitemSample::generate(0.002, usize::MAX, 1);
        let draw = |seed| -> Vec<Conjunction> {
            let mut generator = ConjunctionGenerator::new(&sample, seed);
            (0..20).map(|i| generator.draw(1 + i % 5, 1e-4)).collect()
        };
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3), draw(4));
        for selection in draw(3) {
            let mut columns: Vec<_> = selection.predicates.iter().map(|p| &p.column).collect();
            columns.sort_unstable();
            columns.dedup();
            assert_eq!(columns.len(), selection.predicates.len());
        }
    }
}
