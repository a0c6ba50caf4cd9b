//! The decision to compare further rows or not.

/// Rows after which that is decided again.
const ROUND_ROWS: u64 = 256 << 10;
/// A round pays if one row of this many is dropped.
const DROPPED_PART: u64 = 4;
/// Rows of each group, for each wanted one, from which most rows in a random order are dropped.
const FULL_GROUP_FACTOR: u64 = 4;
/// Rows to wait for groups to become full.
const MAX_WARM_UP_ROWS: u64 = 16 * ROUND_ROWS;

/// The counts of a filter, by which it gives up.
///
/// While the groups are still filled, nearly all rows pass, so that a round without effect says nothing. It
/// does if the groups are full, as when each row is better than those before it or equal to them, if nearly
/// every row begins a group, and after [`MAX_WARM_UP_ROWS`] rows.
#[derive(Debug, Default)]
pub(super) struct Trial {
    rows: u64,
    round_rows: u64,
    round_dropped: u64,
}

impl Trial {
    /// Counts rows, of which some were dropped, when there are `groups` groups with `fetch` wanted rows each.
    /// Returns false if comparing more of them does not pay.
    pub(super) fn pays(&mut self, rows: usize, dropped: usize, groups: usize, fetch: usize) -> bool {
        self.rows += rows as u64;
        self.round_rows += rows as u64;
        self.round_dropped += dropped as u64;
        if self.round_rows < ROUND_ROWS {
            return true;
        }
        let drops = self.round_dropped * DROPPED_PART >= self.round_rows;
        (self.round_rows, self.round_dropped) = (0, 0);
        let groups = groups as u64;
        let are_full = self.rows
            >= FULL_GROUP_FACTOR
                .saturating_mul(fetch as u64)
                .saturating_mul(groups);
        let are_new = groups >= self.rows / 16 * 15;
        drops || !(are_full || are_new || self.rows >= MAX_WARM_UP_ROWS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: usize = 8192;

    /// Returns the number of rows until the trial ends, at most `most`.
    fn rows_until_end(most: usize, fetch: usize, of: impl Fn(usize) -> (usize, usize)) -> usize {
        let mut trial = Trial::default();
        for rows in (BATCH..=most).step_by(BATCH) {
            let (dropped, groups) = of(rows);
            if !trial.pays(BATCH, dropped, groups, fetch) {
                return rows;
            }
        }
        most
    }

    #[test]
    fn it_ends_early_where_nothing_is_dropped() {
        let (most, round) = (64 << 20, ROUND_ROWS as usize);
        assert_eq!(rows_until_end(most, 2, |_| (0, 100)), round);
        assert_eq!(rows_until_end(most, 2, |rows| (0, rows)), round);
        assert_eq!(rows_until_end(most, 2, |rows| (0, rows.min(50_000))), 2 * round);
        // Two rows in each group.
        assert_eq!(
            rows_until_end(most, 2, |rows| (0, rows / 2)),
            MAX_WARM_UP_ROWS as usize
        );
    }

    #[test]
    fn it_goes_on_while_rows_are_dropped_or_groups_are_filled() {
        let most = 8 << 20;
        assert_eq!(rows_until_end(most, 1, |rows| (BATCH / 4, rows)), most);
        // 100,000 groups in a random order: after n rows of each, a row passes with a probability of 2/n.
        let random = |rows: usize| {
            let each = rows as f64 / 100_000.0;
            let dropped = (1.0 - 2.0 / each.max(2.0)) * BATCH as f64;
            (dropped as usize, rows.min(100_000))
        };
        assert_eq!(rows_until_end(most, 2, random), most);
    }
}
