//! When commits were made: [`CommitTimes`], for what readers in other processes may have seen of keys that
//! expire.
//!
//! A reader pins a commit, not a time. It cannot have read before its commit was made, so a key that had
//! expired by then is one that it has never seen. The clock may go back: then a time that was noted is no
//! later than the present one, as readers may see keys again until these expire for the second time.

/// Most times that are kept.
const MAX_TIMES: usize = 256;

/// Least time in ms between two that are noted.
const MIN_INTERVAL: u64 = 100;

/// Lower bounds of the times at which commits were made.
#[derive(Debug, Default)]
pub(crate) struct CommitTimes {
    /// Commits, ascending, and a time: the commit and all later ones were made at it or after it.
    bounds: Vec<(u64, u64)>,
}

impl CommitTimes {
    /// Notes that a commit is the newest one at a time in ms since 1970.
    pub(crate) fn note(&mut self, newest: u64, now: u64) {
        self.bound(now);
        let is_apart = |(commit, time): &(u64, u64)| *commit <= newest && now >= time + MIN_INTERVAL;
        if self.bounds.last().is_none_or(is_apart) {
            // The newest one itself was made before.
            let from = if self.bounds.is_empty() {
                newest
            } else {
                newest + 1
            };
            self.bounds.push((from, now));
        }
        if self.bounds.len() > MAX_TIMES {
            let mut at = 0;
            self.bounds.retain(|_| {
                at += 1;
                at == 1 || at % 2 == 0
            });
        }
    }

    /// Lowers the times that are later than the present one, since the clock has gone back.
    fn bound(&mut self, now: u64) {
        for (_, time) in self.bounds.iter_mut().rev().take_while(|(_, time)| *time > now) {
            *time = now;
        }
    }

    /// Returns a time before which a commit was certainly not read; 0 if nothing is known.
    pub(crate) fn read_since(&self, commit: u64) -> u64 {
        let after = self.bounds.partition_point(|(from, _)| *from <= commit);
        after.checked_sub(1).map_or(0, |at| self.bounds[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_lower_bounds() {
        let mut times = CommitTimes::default();
        assert_eq!(times.read_since(7), 0);
        times.note(5, 1000);
        assert_eq!((times.read_since(4), times.read_since(5)), (0, 1000));
        times.note(5, 5000);
        // Commit 5 may have been read at 1000 already.
        assert_eq!((times.read_since(5), times.read_since(6)), (1000, 5000));
        times.note(9, 5010);
        times.note(9, 7000);
        assert_eq!((times.read_since(9), times.read_since(10)), (5000, 7000));
        times.note(20, 4000);
        assert_eq!((times.read_since(5), times.read_since(10)), (1000, 4000));
        for commit in 0..10_000 {
            times.note(20 + commit, 10_000 + 200 * commit);
        }
        assert!(times.bounds.len() <= MAX_TIMES && times.bounds.is_sorted());
        assert_eq!(times.read_since(5), 1000);
        assert!(times.read_since(10_019) > 1_900_000);
    }
}
