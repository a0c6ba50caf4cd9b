//! Keys of joins: the values that they are drawn from, and how many rows find a partner.

use super::column::ColumnEstimate;
use super::rows::PlanEstimate;

/// Share of the rows that an anti join is assumed to leave at least.
const MIN_ANTI_SHARE: f64 = 0.05;

/// Share of the rows from which on combinations of values are taken for a unique key.
const MIN_UNIQUE_SHARE: f64 = 0.9;

/// Estimates the number of values that the keys of two sides are drawn from: by containment, those of the
/// side with more of them. A join of the sides returns the product of their rows divided by this number.
///
/// Of keys of several columns, the combinations of values are at most as many as the rows. A side whose
/// columns have about as many combinations as rows, or more, is taken for one that has a unique key, to which
/// the other side refers: then the rows of that side are the domain, however many combinations the other one
/// seems to have.
pub fn key_domain(
    (left, left_rows): (&[ColumnEstimate], f64),
    (right, right_rows): (&[ColumnEstimate], f64),
) -> f64 {
    let [one] = left else {
        let of_side = |keys: &[ColumnEstimate], rows: f64| {
            let combinations: f64 = keys.iter().map(|key| key.base).product();
            let restricted: f64 = keys.iter().map(|key| key.domain / key.base).product();
            let is_unique = combinations >= MIN_UNIQUE_SHARE * rows;
            (combinations.min(rows) * restricted, is_unique)
        };
        let domain = match (of_side(left, left_rows), of_side(right, right_rows)) {
            ((a, true), (b, true)) => a.min(b),
            ((a, true), (_, false)) => a,
            ((_, false), (b, true)) => b,
            ((a, false), (b, false)) => a.max(b),
        };
        return domain.max(1.0);
    };
    one.domain
        .max(right.first().map_or(1.0, |key| key.domain))
        .max(1.0)
}

/// Estimates the share of the rows of `outer` that a semi join, or an anti join, with `inner` keeps.
pub fn semi_selectivity(
    outer_keys: &[ColumnEstimate],
    outer: &PlanEstimate,
    inner_keys: &[ColumnEstimate],
    inner: &PlanEstimate,
    anti: bool,
) -> f64 {
    let combinations = |keys: &[ColumnEstimate], rows: f64, of: fn(&ColumnEstimate) -> f64| {
        let all: f64 = keys.iter().map(of).product();
        all.min(rows).max(1.0)
    };
    let found = combinations(inner_keys, inner.rows, |key| key.distinct);
    let sought = combinations(outer_keys, outer.base_rows, |key| key.domain);
    let share = if inner.rows < 0.5 {
        0.0
    } else {
        (found / sought).min(1.0)
    };
    if anti {
        (1.0 - share).max(MIN_ANTI_SHARE)
    } else {
        share
    }
}

/// Estimates the number of rows that a left join with `inner` makes of a row of `outer`, at least 1.
pub fn outer_multiplicity(
    outer_keys: &[ColumnEstimate],
    outer: &PlanEstimate,
    inner_keys: &[ColumnEstimate],
    inner: &PlanEstimate,
) -> f64 {
    let domain = key_domain((outer_keys, outer.base_rows), (inner_keys, inner.base_rows));
    (inner.rows / domain).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(distinct: &[f64]) -> Vec<ColumnEstimate> {
        distinct
            .iter()
            .map(|distinct| ColumnEstimate::with_distinct(*distinct))
            .collect()
    }

    #[test]
    fn domains_of_keys() {
        // A foreign key: the table that it refers to has more values.
        assert_eq!(
            key_domain((&keys(&[150_000.0]), 6e6), (&keys(&[200_000.0]), 2e5)),
            200_000.0
        );
        // lineitem and partsupp on part and supplier: each row of lineitem has one in partsupp.
        let lineitem = (&keys(&[200_000.0, 10_000.0])[..], 6e6);
        let partsupp = (&keys(&[200_000.0, 10_000.0])[..], 8e5);
        assert_eq!(key_domain(lineitem, partsupp), 8e5);
        assert_eq!(key_domain(partsupp, lineitem), 8e5);
        // Two columns with few values each.
        assert_eq!(
            key_domain((&keys(&[7.0, 5.0]), 1e6), (&keys(&[3.0, 5.0]), 1e6)),
            35.0
        );
        // No key: every row has every other as a partner.
        assert_eq!(key_domain((&[], 10.0), (&[], 10.0)), 1.0);
    }

    #[test]
    fn semi_joins_keep_what_is_found() {
        let (outer, inner) = (PlanEstimate::uniform(1000.0, 1), PlanEstimate::uniform(100.0, 1));
        let of = |anti| semi_selectivity(&keys(&[1000.0]), &outer, &keys(&[100.0]), &inner, anti);
        assert_eq!((of(false), of(true)), (0.1, 0.9));
        let of = |anti| semi_selectivity(&keys(&[100.0]), &inner, &keys(&[1000.0]), &outer, anti);
        assert_eq!((of(false), of(true)), (1.0, MIN_ANTI_SHARE));
        let none = PlanEstimate::uniform(0.0, 1);
        let of = |anti| semi_selectivity(&keys(&[100.0]), &inner, &keys(&[1.0]), &none, anti);
        assert_eq!((of(false), of(true)), (0.0, 1.0));
    }

    #[test]
    fn left_joins_keep_each_row() {
        let (outer, inner) = (PlanEstimate::uniform(1000.0, 1), PlanEstimate::uniform(100.0, 1));
        let of = |outer_keys: &[f64], inner_keys: &[f64]| {
            outer_multiplicity(&keys(outer_keys), &outer, &keys(inner_keys), &inner)
        };
        assert_eq!((of(&[1000.0], &[100.0]), of(&[10.0], &[20.0])), (1.0, 5.0));
    }
}
