//! Buckets: a depth of the tree whose values are the upper bits of the next dimension's codes.
//!
//! Where the dimensions of the shortcuts leave some dozens of rows for each place, the next one has too many
//! codes to be among them. So its codes are taken together, a power of two of neighbours to a bucket, and the
//! tree gets a depth for the buckets: the shortcuts then lead to short leaf lists there too, with one load
//! instead of three that wait for each other. Points and predicates on dimensions are translated here to
//! those on depths.

use crate::CodePredicate;
use crate::geometry::{Buckets, MAX_DIMS, RecordGeometry};
use crate::packed::shortcuts::{MAX_BUCKET_PLACES, MIN_ROWS_PER_PLACE, Shortcuts};

/// Minimum number of rows per place for which there are buckets: fewer form a short leaf list.
const MIN_BUCKETED_ROWS_PER_PLACE: u64 = 24;

impl Buckets {
    /// Returns the buckets of a new index; `None` if they do not pay.
    pub(crate) fn worth(geometry: &RecordGeometry) -> Option<Self> {
        let depth = Shortcuts::worth(geometry);
        let places: u64 = geometry.max_codes[..depth].iter().map(|&max| max + 1).product();
        if depth == 0 || geometry.dims() == MAX_DIMS || geometry.rows / places < MIN_BUCKETED_ROWS_PER_PLACE {
            return None;
        }
        let max = *geometry.max_codes.get(depth)?;
        let most = (geometry.rows / MIN_ROWS_PER_PLACE).min(MAX_BUCKET_PLACES) / places;
        let shift = (1..64).find(|&shift| max >> shift < most)?;
        (max >> shift > 0).then_some(Self { depth, shift })
    }

    /// Returns true if a tree of this geometry can have these buckets.
    pub(crate) fn are_possible(self, geometry: &RecordGeometry) -> bool {
        let max = geometry.max_codes.get(self.depth).copied().unwrap_or(0);
        self.depth > 0 && geometry.dims() < MAX_DIMS && self.shift < 64 && max >> self.shift > 0
    }

    /// Returns the point with its bucket inserted; `None` if `room` is too small.
    #[inline(always)]
    pub(crate) fn point<'p>(self, point: &[u64], room: &'p mut [u64]) -> Option<&'p [u64]> {
        let room = room.get_mut(..point.len() + 1)?;
        let (before, from) = point.split_at_checked(self.depth)?;
        room[..self.depth].copy_from_slice(before);
        room[self.depth] = from.first()? >> self.shift;
        room[self.depth + 1..].copy_from_slice(from);
        Some(room)
    }

    /// Adds the bucket to each of many points of `dims` dimensions.
    pub(crate) fn points(self, points: &[u64], dims: usize, out: &mut Vec<u64>) {
        out.clear();
        out.reserve(points.len() / dims * (dims + 1));
        for point in points.chunks_exact(dims) {
            let (before, from) = point.split_at(self.depth);
            out.extend_from_slice(before);
            out.push(from[0] >> self.shift);
            out.extend_from_slice(from);
        }
    }

    /// Returns the predicates with one for the buckets inserted: it holds for each bucket with a code that
    /// satisfies the dimension's own predicate.
    pub(crate) fn predicates(self, predicates: &[CodePredicate]) -> Vec<CodePredicate> {
        let of = |code: u64| code >> self.shift;
        let buckets = match &predicates[self.depth] {
            CodePredicate::Any => CodePredicate::Any,
            CodePredicate::Range { lo, hi } => CodePredicate::Range {
                lo: of(*lo),
                hi: of(*hi),
            },
            CodePredicate::Set(codes) => {
                let mut buckets: Vec<u64> = codes.iter().copied().map(of).collect();
                buckets.dedup();
                CodePredicate::Set(buckets)
            }
            CodePredicate::Nothing => CodePredicate::Nothing,
        };
        let mut all = predicates.to_vec();
        all.insert(self.depth, buckets);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_leave_eight_rows_for_each_place() {
        let worth = |rows, max: &[u64]| {
            let found = Buckets::worth(&RecordGeometry::new(rows, max.to_vec()));
            found.map(|buckets| (buckets.depth, buckets.shift))
        };
        assert_eq!(worth(100_000_000, &[99; 10]), Some((3, 4)));
        assert_eq!(worth(30_000_000, &[99; 10]), Some((3, 6)));
        assert_eq!(worth(10_000_000, &[99; 10]), None, "the lists are short");
        assert_eq!(worth(1_000_000, &[3; 5]), None, "no dimension is left");
        assert_eq!(worth(1000, &[u64::MAX, 9]), None, "no dimension has a place");
        assert_eq!(worth(1000, &[9, u64::MAX]), Some((1, 61)));
        assert_eq!(
            worth(1_000_000, &[99; MAX_DIMS]),
            None,
            "there may be no more depths"
        );
    }

    #[test]
    fn a_point_gets_its_bucket() {
        let buckets = Buckets { depth: 1, shift: 2 };
        let mut room = [0; 4];
        assert_eq!(buckets.point(&[5, 9, 1], &mut room), Some(&[5, 2, 9, 1][..]));
        assert_eq!(buckets.point(&[5, 9, 1, 1], &mut room), None);
        let mut all = vec![];
        buckets.points(&[5, 9, 6, 3], 2, &mut all);
        assert_eq!(all, [5, 2, 9, 6, 0, 3]);
    }
}
