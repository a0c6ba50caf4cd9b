//! The best sort keys of each group, which decide whether a row can be among the first ones.

/// The position of a group that is not kept.
pub(super) const NO_GROUP: u32 = u32::MAX;

/// The `fetch` least keys seen of each group, ascending. A group of fewer rows is filled with the greatest
/// key there is, after which no row sorts.
#[derive(Debug)]
pub(super) struct Thresholds {
    fetch: usize,
    keys: Vec<u64>,
}

impl Thresholds {
    /// Begins with no group. `fetch` is at least 1.
    pub(super) fn new(fetch: usize) -> Self {
        Self {
            fetch: fetch.max(1),
            keys: Vec::new(),
        }
    }

    /// Returns the number of bytes of DRAM for each group.
    pub(super) fn group_bytes(&self) -> usize {
        self.fetch * size_of::<u64>()
    }

    /// Adds groups up to a number of them, with room for `capacity`.
    pub(super) fn extend_to(&mut self, groups: usize, capacity: usize) {
        let keys = groups * self.fetch;
        if keys > self.keys.capacity() {
            let wanted = capacity.max(groups) * self.fetch;
            self.keys.reserve_exact(wanted - self.keys.len());
        }
        if keys > self.keys.len() {
            self.keys.resize(keys, u64::MAX);
        }
    }

    /// Returns false if the group has `fetch` rows with smaller keys than this one; otherwise notes the key.
    /// True for [`NO_GROUP`]. O(`fetch`) if the key is noted, else O(1).
    ///
    /// # Panics
    /// There is no such group.
    #[inline]
    pub(super) fn admit(&mut self, group: u32, key: u64) -> bool {
        if group == NO_GROUP {
            return true;
        }
        let from = group as usize * self.fetch;
        let best = &mut self.keys[from..from + self.fetch];
        let last = best.len() - 1;
        if key >= best[last] {
            return key == best[last];
        }
        // The last key gives way, and those after the new one move up.
        let mut place = last;
        while place > 0 && best[place - 1] > key {
            best[place] = best[place - 1];
            place -= 1;
        }
        best[place] = key;
        true
    }

    /// Returns false if the group has `fetch` rows with smaller keys than that of one of its rows. True for
    /// [`NO_GROUP`].
    ///
    /// # Panics
    /// There is no such group.
    #[inline]
    pub(super) fn still_admits(&self, group: u32, key: u64) -> bool {
        group == NO_GROUP || key <= self.keys[(group as usize + 1) * self.fetch - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn only_rows_behind_enough_others_are_dropped(
            rows in proptest::collection::vec((0u32..6, 0u64..40), 0..400),
            fetch in 1usize..9,
        ) {
            let mut thresholds = Thresholds::new(fetch);
            thresholds.extend_to(6, 8);
            for (at, &(group, key)) in rows.iter().enumerate() {
                let before = rows[..at].iter().filter(|(of, other)| *of == group && *other < key).count();
                prop_assert_eq!(thresholds.admit(group, key), before < fetch, "row {}", at);
            }
            for &(group, key) in &rows {
                let before = rows.iter().filter(|(of, other)| *of == group && *other < key).count();
                prop_assert_eq!(thresholds.still_admits(group, key), before < fetch);
            }
        }
    }

    #[test]
    fn the_greatest_key_always_passes_beside_few_others() {
        let mut thresholds = Thresholds::new(2);
        thresholds.extend_to(1, 1);
        for (key, passes) in [
            (u64::MAX, true),
            (u64::MAX, true),
            (5, true),
            (u64::MAX, true),
            (7, true),
            (u64::MAX, false),
            (7, true),
        ] {
            assert_eq!(thresholds.admit(0, key), passes, "{key}");
        }
        assert!(thresholds.admit(NO_GROUP, u64::MAX) && thresholds.still_admits(NO_GROUP, u64::MAX));
    }

    #[test]
    fn groups_are_added_without_loss() {
        let mut thresholds = Thresholds::new(1);
        thresholds.extend_to(1, 4);
        assert!(thresholds.admit(0, 3));
        thresholds.extend_to(9, 9);
        assert!(!thresholds.admit(0, 4) && thresholds.admit(8, 4));
        assert_eq!(thresholds.group_bytes(), 8);
    }
}
