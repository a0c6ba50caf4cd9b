//! The model of subtrees with few sampled rows.
//!
//! The number of distinct prefixes is estimated from the number in the sample: if each of `D` prefixes has
//! `N / D` rows and a share `f` of the rows is sampled, `D (1 - (1 - f)^(N / D))` prefixes are seen. Rows per
//! prefix are assumed to follow a Poisson distribution.

use super::tuples::SortedTuples;
use crate::geometry::RecordGeometry;
use crate::packed::node::{INNER_HEADER, SMALL_LEAF};
use crate::packed::write::{LEAF_ROWS, LEAF_RUN};
use std::ops::Range;

/// Factor by which the variance of equally large groups may exceed that of the distribution.
const MAX_VARIANCE_RATIO: f64 = 1.25;

/// Groups below one list that have too few sampled rows to be planned on their own.
#[derive(Debug)]
pub(super) struct LightGroups {
    /// The sampled rows.
    pub(super) rows: Vec<Range<usize>>,
    /// Estimated number of groups: entries of the list above.
    pub(super) groups: f64,
    /// Estimated bytes of the lists.
    pub(super) bytes: f64,
}

/// Estimates the number of distinct values of `rows` rows of which `sampled` have `seen` distinct ones.
pub(super) fn distinct_of(rows: f64, sampled: f64, seen: f64) -> f64 {
    if sampled >= rows || seen <= 0.0 {
        return seen;
    }
    if seen >= sampled {
        return rows;
    }
    let unsampled = 1.0 - sampled / rows;
    let expected = |distinct: f64| distinct * (1.0 - unsampled.powf(rows / distinct));
    let (mut low, mut high) = (seen, rows);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if expected(middle) < seen {
            low = middle
        } else {
            high = middle
        }
    }
    high
}

/// Returns the probability that a Poisson variable of this mean is at most `most`.
pub(super) fn poisson_at_most(mean: f64, most: usize) -> f64 {
    let mut term = (-mean).exp();
    let mut sum = term;
    for k in 1..=most {
        term *= mean / k as f64;
        sum += term;
    }
    sum.min(1.0)
}

/// Returns true if the numbers of sampled rows vary no more than those of equally large groups would: by a
/// Poisson distribution without zero.
pub(super) fn is_even(groups: &[Range<usize>]) -> bool {
    let count = groups.len().max(1) as f64;
    let mean = groups.iter().map(Range::len).sum::<usize>() as f64 / count;
    let squares = groups
        .iter()
        .map(|rows| (rows.len() as f64 - mean).powi(2))
        .sum::<f64>();
    squares / count <= MAX_VARIANCE_RATIO * mean * (1.0 + rate_of(mean) - mean).max(0.0) + f64::EPSILON
}

/// Returns the probability that none of `values` values of on average `mean` rows has more than
/// [`LEAF_RUN`] rows.
pub(super) fn has_short_runs(mean: f64, values: f64) -> f64 {
    // Nearly one row per value: the values are unique, not random.
    if mean < 1.02 {
        return 1.0;
    }
    let rate = rate_of(mean);
    let longer = (1.0 - poisson_at_most(rate, LEAF_RUN)) / (1.0 - (-rate).exp());
    (1.0 - longer).max(0.0).powf(values)
}

/// Returns the rate of the Poisson distribution whose values other than zero have this mean, which is at
/// least 1.
fn rate_of(mean: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, mean);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if middle / (1.0 - (-middle).exp()) < mean {
            low = middle
        } else {
            high = middle
        }
    }
    high
}

impl LightGroups {
    /// Models groups, `rows` as sampled rows, whose lists are at `depth`; each sampled row stands for `scale`
    /// rows.
    pub(super) fn new(
        geometry: &RecordGeometry,
        tuples: &SortedTuples,
        rows: Vec<Range<usize>>,
        depth: usize,
        scale: f64,
    ) -> Self {
        let sampled = rows.iter().map(Range::len).sum::<usize>() as f64;
        let all = sampled * scale;
        let dims = geometry.dims();
        // Distinct prefixes of each length from `depth` on: number of lists, were there no leaf list above.
        let mut prefixes: Vec<f64> = Vec::with_capacity(dims - depth + 1);
        for length in depth..=dims {
            let seen: usize = rows
                .iter()
                .map(|rows| tuples.groups(rows.start, rows.end, length - 1))
                .sum();
            let mut distinct = distinct_of(all, sampled, seen as f64);
            if let Some(above) = prefixes.last() {
                let values = tuples.depths[length - 1].distinct.max(1) as f64;
                distinct = distinct.min(above * values).max(*above);
            }
            prefixes.push(distinct.min(all));
        }
        let (mut bytes, mut left) = (0.0, 1.0);
        for (at, depth) in (depth..=dims).enumerate() {
            let format = geometry.levels[depth];
            let (count, mean) = (prefixes[at] * left, all / prefixes[at].max(1.0));
            let below = prefixes.get(at + 1).copied().unwrap_or(prefixes[at]);
            let (values, per_value) = (below / prefixes[at].max(1.0), all / below.max(1.0));
            let leaf = match depth {
                _ if depth == dims => 1.0,
                _ if geometry.is_of_buckets(depth) => 0.0,
                _ => {
                    // Seen from a row: its list has itself and others.
                    let short = poisson_at_most(mean, LEAF_ROWS - 1);
                    short + (1.0 - short) * has_short_runs(per_value, values)
                }
            };
            let head = if mean <= SMALL_LEAF as f64 { 1.0 } else { 5.0 } + geometry.base_len as f64;
            let row = (format.value_len + format.record_len) as f64;
            bytes += count * leaf * head + all * left * leaf * row;
            let link = link_len(mean * row);
            let span = geometry.max_codes.get(depth).map_or(0.0, |&max| max as f64 + 1.0);
            let entries = inner_entries(values, span, link, format.value_len as f64);
            bytes += count * (1.0 - leaf) * ((INNER_HEADER + geometry.base_len) as f64 + entries);
            left *= 1.0 - leaf;
        }
        Self {
            groups: prefixes.first().copied().unwrap_or(0.0),
            rows,
            bytes,
        }
    }
}

/// Returns the bytes of a link over a subtree of `bytes` bytes.
pub(super) fn link_len(bytes: f64) -> f64 {
    let bits = 64 - (bytes as u64).leading_zeros();
    f64::from(bits.div_ceil(8).max(1))
}

/// Returns the bytes of values and links of an inner list with `entries` entries, whose values span `span`.
pub(super) fn inner_entries(entries: f64, span: f64, link: f64, value: f64) -> f64 {
    let sparse = entries * (link + value);
    let dense = span * link;
    if dense <= sparse { dense + value } else { sparse }
}
