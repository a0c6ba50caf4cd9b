//! When the records of a log segment expire: [`ExpiryHistogram`], in DRAM.
//!
//! Invariant: as of any time, no more bytes count as expired than records were added that have expired. Times
//! are joined with later ones only.

/// Most buckets of a histogram.
const BUCKETS: usize = 8;

/// Bytes of records by their time of expiry, of which those that are near each other share a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExpiryHistogram {
    /// The latest time of each bucket in ms since 1970, ascending, and its bytes.
    buckets: Vec<(u64, u64)>,
}

impl ExpiryHistogram {
    /// Adds bytes that expire at a time.
    pub(crate) fn add(&mut self, time: u64, bytes: u64) {
        match self.buckets.binary_search_by_key(&time, |bucket| bucket.0) {
            Ok(at) => self.buckets[at].1 += bytes,
            Err(at) => self.buckets.insert(at, (time, bytes)),
        }
        if self.buckets.len() > BUCKETS {
            self.join_nearest();
        }
    }

    /// Joins the two neighbours for which the fewest bytes count as needed for the shortest time too long.
    fn join_nearest(&mut self) {
        let delay = |at: usize| {
            let ((time, bytes), (next, _)) = (self.buckets[at], self.buckets[at + 1]);
            u128::from(next - time) * u128::from(bytes)
        };
        if let Some(at) = (0..self.buckets.len() - 1).min_by_key(|at| delay(*at)) {
            let (_, bytes) = self.buckets.remove(at);
            self.buckets[at].1 += bytes;
        }
    }

    /// Removes bytes that expire at a time, as far as they are there.
    pub(crate) fn remove(&mut self, time: u64, bytes: u64) {
        let at = self.buckets.partition_point(|bucket| bucket.0 < time);
        if let Some(bucket) = self.buckets.get_mut(at) {
            bucket.1 = bucket.1.saturating_sub(bytes);
            if bucket.1 == 0 {
                self.buckets.remove(at);
            }
        }
    }

    /// Returns the bytes that have expired at a time.
    pub(crate) fn expired(&self, now: u64) -> u64 {
        let expired = self.buckets.iter().take_while(|bucket| bucket.0 <= now);
        expired.map(|bucket| bucket.1).sum()
    }

    /// Returns the first time after `now` at which more bytes expire.
    pub(crate) fn next(&self, now: u64) -> Option<u64> {
        self.buckets
            .iter()
            .map(|bucket| bucket.0)
            .find(|time| *time > now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_few_that_live_long_are_told_apart() {
        let mut histogram = ExpiryHistogram::default();
        for at in 0..1000 {
            let time = if at % 100 == 0 { 86_400_000 + at } else { 1000 + at };
            histogram.add(time, 50);
        }
        assert!(histogram.buckets.len() <= BUCKETS);
        assert_eq!((histogram.expired(999), histogram.expired(1999)), (0, 990 * 50));
        assert!(histogram.next(1999).is_some_and(|next| next >= 86_400_000));
        assert_eq!(histogram.expired(u64::MAX), 50_000);
        histogram.remove(86_400_100, 40);
        histogram.remove(u64::MAX, 40);
        assert_eq!(histogram.expired(u64::MAX), 49_960);
    }

    proptest! {
        #[test]
        fn nothing_counts_as_expired_too_early(
            added in prop::collection::vec((0..500_u64, 1..100_u64), 0..60),
            now in 0..500_u64,
        ) {
            let mut histogram = ExpiryHistogram::default();
            added.iter().for_each(|(time, bytes)| histogram.add(*time, *bytes));
            let of = |now: u64| -> u64 {
                let expired = added.iter().filter(|(time, _)| *time <= now);
                expired.map(|(_, bytes)| bytes).sum()
            };
            prop_assert!(histogram.expired(now) <= of(now));
            prop_assert_eq!(histogram.expired(500), of(500));
            prop_assert!(histogram.next(now).is_none_or(|next| next > now));
            prop_assert_eq!(histogram.next(now).is_none(), histogram.expired(now) == of(500));
        }
    }
}
