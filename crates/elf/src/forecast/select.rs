//! Estimates of selections through an index that is not built.
//!
//! Lists are counted as the estimates of an index count them ([`packed::estimate`](crate::packed::estimate)):
//! one by one in the upper levels, and below by the numbers of distinct values. So both agree on whether an
//! index is worth using. Rows are those of the sample, in which columns may be correlated.

use super::Forecast;
use super::tree::PlannedList;
use super::tuples::TupleDepth;
use crate::Estimate;
use crate::packed::estimate::{LEAF_ROWS, MAX_LISTS_READ};
use std::borrow::Cow;
use std::ops::Range;

/// Sampled matches from which on their share is taken as it is.
const MIN_MATCHES: f64 = 8.0;
/// Maximum factor by which a share with fewer matches is assumed to be below that of the sample.
const MAX_FACTOR_BELOW: f64 = 4.0;
/// Maximum number of sampled rows by which it is assumed to be above that of the sample.
const MAX_ROWS_ABOVE: f64 = 3.0;

/// A condition on one dimension.
#[derive(Debug, Clone, Copy)]
pub struct DimensionTest<'a> {
    /// For each distinct code of the sample, whether it satisfies the condition.
    pub passes: &'a [bool],
    /// Estimated share of the rows that satisfy it, from 0 to 1.
    pub share: f64,
}

/// The tests of the depths: those of the dimensions, and that of the buckets.
struct DepthTests<'a> {
    passes: Vec<Option<Cow<'a, [bool]>>>,
    /// Share of the rows that pass the test of each depth, of the rows in its buckets if there are any.
    shares: Vec<f64>,
    /// From this depth on there are none.
    open_from: usize,
}

impl DepthTests<'_> {
    fn pass(&self, depth: usize, rank: usize) -> bool {
        self.passes[depth]
            .as_ref()
            .is_none_or(|passes| passes.get(rank).copied().unwrap_or(false))
    }

    /// Returns true if the ranks that pass the test of a depth are consecutive.
    fn is_range(&self, depth: usize) -> bool {
        self.passes[depth].as_ref().is_some_and(|passes| {
            let first = passes.iter().position(|pass| *pass).unwrap_or(passes.len());
            passes[first..].iter().skip_while(|pass| **pass).all(|pass| !pass)
        })
    }
}

/// Sums over the lists that a selection visits.
#[derive(Default)]
struct Visited {
    lists: f64,
    ranges: f64,
    /// Lists that were counted one by one.
    read: usize,
}

/// Children of a list that pass its test.
struct PassingChildren {
    planned: Vec<usize>,
    /// Estimated number of the others, and of their rows.
    others: (f64, f64),
}

impl Forecast {
    /// Estimates a selection by a test for each dimension, as [`Elf::estimate`](crate::Elf::estimate) would.
    /// O(s) for s sampled rows.
    ///
    /// # Panics
    /// If there is not one test, or none, for each dimension.
    #[must_use]
    pub fn estimate(&self, tests: &[Option<DimensionTest<'_>>]) -> Estimate {
        assert_eq!(tests.len(), self.geometry.columns(), "a test for each dimension");
        let Some(root) = self.tree.lists.len().checked_sub(1) else {
            return Estimate::default();
        };
        let depths = self.depth_tests(tests);
        let mut sum = Visited {
            read: 1,
            ..Visited::default()
        };
        let mut level = vec![root];
        for depth in 0..=self.geometry.dims() {
            let mut next = vec![];
            for list in level {
                sum.lists += 1.0;
                self.visit(list, depth, &depths, &mut sum, &mut next);
            }
            level = next;
        }
        let all = self.geometry.rows as f64;
        let independent: f64 = tests.iter().flatten().map(|test| test.share).product();
        let matches = self.matches(&(0..self.tuples.len()), 0, &depths);
        let rows = (all * self.share(matches, independent)).min(all);
        Estimate {
            rows,
            lists: sum.lists,
            ranges: if self.is_clustered() {
                sum.ranges.min(rows)
            } else {
                rows
            },
        }
    }

    fn depth_tests<'a>(&self, tests: &[Option<DimensionTest<'a>>]) -> DepthTests<'a> {
        let of_depth = |depth: &TupleDepth| {
            // A condition that all rows satisfy is none.
            let restricts = |test: &DimensionTest<'_>| test.share < 1.0 || test.passes.contains(&false);
            let test = tests[depth.dimension].filter(restricts)?;
            Some(match &depth.of_code {
                None => Cow::Borrowed(test.passes),
                Some(of_code) => {
                    // A bucket passes if one of its codes does.
                    let mut buckets = vec![false; depth.values.len()];
                    for (bucket, pass) in of_code.iter().zip(test.passes) {
                        buckets[*bucket as usize] |= pass;
                    }
                    Cow::Owned(buckets)
                }
            })
        };
        let passes: Vec<Option<Cow<'_, [bool]>>> = self.tuples.depths.iter().map(of_depth).collect();
        let mut shares: Vec<f64> = Vec::with_capacity(passes.len());
        for (at, (depth, passes)) in self.tuples.depths.iter().zip(&passes).enumerate() {
            let share = match (passes, &depth.of_code) {
                (None, _) => 1.0,
                (Some(passes), Some(_)) => {
                    let passing = passes.iter().filter(|pass| **pass).count();
                    passing as f64 / passes.len().max(1) as f64
                }
                (Some(_), None) => {
                    let own = tests[depth.dimension].map_or(1.0, |test| test.share);
                    let above = at
                        .checked_sub(1)
                        .filter(|&above| self.geometry.is_of_buckets(above));
                    above.map_or(own, |above| (own / shares[above].max(f64::MIN_POSITIVE)).min(1.0))
                }
            };
            shares.push(share);
        }
        DepthTests {
            open_from: passes
                .iter()
                .rposition(Option::is_some)
                .map_or(0, |last| last + 1),
            passes,
            shares,
        }
    }

    /// Returns the share of the rows that match if `matches` rows of the sample do. Few matches are combined
    /// with the share that independent conditions would have.
    fn share(&self, matches: usize, independent: f64) -> f64 {
        let (matches, sampled) = (matches as f64, self.tuples.len() as f64);
        if self.tree.scale <= 1.0 || matches >= MIN_MATCHES {
            return matches / sampled;
        }
        independent.clamp(
            matches / MAX_FACTOR_BELOW / sampled,
            (matches + MAX_ROWS_ABOVE) / sampled,
        )
    }

    /// Counts what is below a list; of children that are counted one by one, `next` receives the numbers.
    fn visit(
        &self,
        list: usize,
        depth: usize,
        tests: &DepthTests<'_>,
        sum: &mut Visited,
        next: &mut Vec<usize>,
    ) {
        match &self.tree.lists[list] {
            PlannedList::Leaf(rows) => {
                sum.ranges += if tests.open_from <= depth + 1 {
                    1.0
                } else {
                    self.matches(rows, depth, tests) as f64 * self.tree.scale
                };
            }
            PlannedList::Inner { .. } if depth >= tests.open_from => sum.ranges += 1.0,
            PlannedList::Inner { .. }
                if self.is_clustered() && depth + 1 >= tests.open_from && tests.is_range(depth) =>
            {
                sum.ranges += 1.0;
                sum.read += 2;
            }
            PlannedList::Inner { rows, .. } => {
                let passing = self.passing(list, depth, tests);
                let (others, of_others) = passing.others;
                let children = passing.planned.len() as f64 + others;
                if sum.read as f64 + children <= MAX_LISTS_READ as f64 {
                    sum.read += children.ceil() as usize;
                    next.extend(passing.planned);
                    self.add_below(tests, depth, others, of_others, sum);
                } else {
                    let matches = |row: &usize| tests.pass(depth, self.tuples.rank(*row, depth));
                    let rows = rows.clone().filter(matches).count() as f64 * self.tree.scale;
                    self.add_below(tests, depth, children, rows, sum);
                }
            }
        }
    }

    fn passing(&self, list: usize, depth: usize, tests: &DepthTests<'_>) -> PassingChildren {
        let PlannedList::Inner { children, light, .. } = &self.tree.lists[list] else {
            return PassingChildren {
                planned: vec![],
                others: (0.0, 0.0),
            };
        };
        let pass = |(rank, _): &&(u32, usize)| tests.pass(depth, *rank as usize);
        let mut others = (0.0, 0.0);
        for light in light {
            let sampled: usize = light.rows.iter().map(Range::len).sum();
            let passing = light
                .rows
                .iter()
                .filter(|rows| tests.pass(depth, self.tuples.rank(rows.start, depth)));
            let rows: usize = passing.map(Range::len).sum();
            others.0 += light.groups * rows as f64 / sampled.max(1) as f64;
            others.1 += rows as f64 * self.tree.scale;
        }
        PassingChildren {
            planned: children.iter().filter(pass).map(|(_, child)| *child).collect(),
            others,
        }
    }

    /// Adds what is below `lists` lists of depth `depth + 1` that hold `rows` rows.
    fn add_below(&self, tests: &DepthTests<'_>, depth: usize, lists: f64, rows: f64, sum: &mut Visited) {
        let (mut lists, mut rows) = (lists, rows);
        let (mut leaves, mut ranges) = (false, lists);
        for below in depth + 1..tests.open_from {
            if !leaves {
                lists = lists.min(rows);
                sum.lists += lists;
                leaves = rows < lists * LEAF_ROWS;
                ranges = lists;
            }
            lists *= (self.distinct(below) * tests.shares[below]).max(1.0);
            rows *= tests.shares[below];
        }
        sum.ranges += if leaves { rows } else { ranges.min(rows) };
    }

    /// Returns the number of distinct values of a depth; per bucket, if there are any.
    fn distinct(&self, depth: usize) -> f64 {
        let distinct = |depth: usize| self.tuples.depths[depth].distinct as f64;
        match depth
            .checked_sub(1)
            .filter(|&above| self.geometry.is_of_buckets(above))
        {
            Some(buckets) => distinct(depth) / distinct(buckets).max(1.0),
            None => distinct(depth),
        }
    }

    /// Counts the sampled rows that pass the tests from `depth` on.
    fn matches(&self, rows: &Range<usize>, depth: usize, tests: &DepthTests<'_>) -> usize {
        let matches = |row: &usize| {
            (depth..tests.open_from).all(|depth| tests.pass(depth, self.tuples.rank(*row, depth)))
        };
        rows.clone().filter(matches).count()
    }
}
