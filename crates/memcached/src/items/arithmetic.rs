//! Items that are counters.

use super::Items;
use super::change::{ChangeOutcome, Decision};
use crate::error::Result;
use crate::expiry::expires_at;
use crate::item::Item;
use crate::storage::ItemGeneration;

/// Most digits of a counter.
const DIGITS: usize = 20;

/// A change of a counter. Times are as clients send them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arithmetic {
    pub(crate) delta: u64,
    pub(crate) decrement: bool,
    /// The cas value that the item must have.
    pub(crate) cas: Option<u64>,
    /// The cas value that it gets.
    pub(crate) new_cas: Option<u64>,
    /// The new time of expiry.
    pub(crate) ttl: Option<i64>,
    /// Creates the counter with this time of expiry and this value if there is none.
    pub(crate) vivify: Option<i64>,
    pub(crate) initial: u64,
}

/// The result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calculated {
    /// The counter has this value now.
    Number {
        value: u64,
        cas: u64,
        /// Time of expiry in milliseconds since 1970.
        expires: Option<u64>,
        /// That before the change.
        expired_before: Option<u64>,
        /// The counter was created.
        created: bool,
        /// It was created, or is longer than before: an item that was not hit yet.
        is_new: bool,
    },
    NotFound,
    /// The item has another cas value.
    Exists,
    /// The item is no number.
    NotNumeric,
}

impl Items {
    /// Decides on an addition to a counter, or a subtraction from it, at least to 0. Sums wrap around.
    pub(super) fn decide_arithmetic(
        &self,
        generation: &dyn ItemGeneration,
        key: &[u8],
        change: &Arithmetic,
    ) -> Result<Decision> {
        let refused = |outcome| Ok(Decision::keep(ChangeOutcome::Calculate(outcome)));
        let now = self.now();
        let (value, mut item, old_len) = match self.load(generation, key)? {
            None => {
                let Some(exptime) = change.vivify else {
                    return refused(Calculated::NotFound);
                };
                let text = change.initial.to_string();
                (
                    change.initial,
                    Item::new(0, expires_at(exptime, now), text.as_bytes()),
                    None,
                )
            }
            Some(mut item) => {
                if item.data().is_empty() {
                    return refused(Calculated::NotNumeric);
                }
                // As in memcached, 0 stands for any cas value.
                if change.cas.is_some_and(|cas| cas != 0 && cas != item.cas) {
                    return refused(Calculated::Exists);
                }
                let Some(old) = number(item.data()) else {
                    return refused(Calculated::NotNumeric);
                };
                let value = if change.decrement {
                    old.saturating_sub(change.delta)
                } else {
                    old.wrapping_add(change.delta)
                };
                // As in memcached, a number that gets shorter keeps its length.
                let old_len = item.data().len();
                let text = format!("{value:<old_len$}");
                item.set_data(text.as_bytes());
                (value, item, Some(old_len))
            }
        };
        let expired_before = item.expires;
        let created = old_len.is_none();
        if let Some(ttl) = change.ttl.filter(|_| !created) {
            item.expires = expires_at(ttl, now);
        }
        item.cas = change.new_cas.map_or_else(|| self.cas.next(), Ok)?;
        let calculated = Calculated::Number {
            value,
            cas: item.cas,
            expires: item.expires,
            expired_before,
            created,
            is_new: old_len.is_none_or(|old| item.data().len() > old),
        };
        Ok(Decision::put(item, ChangeOutcome::Calculate(calculated)))
    }

    /// Notes the outcome of a change that was committed.
    pub(super) fn conclude_arithmetic(&self, key: &[u8], change: &Arithmetic, calculated: Calculated) {
        let counters = &self.counters;
        let (hits, misses) = if change.decrement {
            (&counters.decr_hits, &counters.decr_misses)
        } else {
            (&counters.incr_hits, &counters.incr_misses)
        };
        match calculated {
            Calculated::Number { is_new, .. } => {
                hits.add(1);
                if is_new {
                    self.accesses.stored(key, self.now());
                } else {
                    self.accesses.renew(key, self.now());
                }
            }
            Calculated::NotFound => misses.add(1),
            Calculated::Exists | Calculated::NotNumeric => {}
        }
    }
}

/// Returns the number that data is, which may end in spaces.
fn number(data: &[u8]) -> Option<u64> {
    let digits = data.trim_ascii_end();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && data.len() <= DIGITS;
    is_number.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_end_in_spaces() {
        assert_eq!(number(b"9 "), Some(9));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for bad in [
            &b""[..],
            b" ",
            b"-1",
            b"1a",
            b"18446744073709551616",
            b"000000000000000000001",
        ] {
            assert_eq!(number(bad), None);
        }
    }
}
