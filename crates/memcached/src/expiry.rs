//! Times of expiry as clients send them.

/// Longest time, in seconds, that is relative to the present: 30 days. Longer ones are seconds since 1970.
const MAX_RELATIVE_SECONDS: i64 = 60 * 60 * 24 * 30;

/// Returns the time of expiry in milliseconds since 1970 at a time `now`; `None` is never. Negative times
/// have passed.
pub(crate) fn expires_at(exptime: i64, now: u64) -> Option<u64> {
    match exptime {
        0 => None,
        ..0 => Some(0),
        1..=MAX_RELATIVE_SECONDS => Some(now + exptime as u64 * 1000),
        _ => Some(exptime as u64 * 1000),
    }
}

/// Returns the remaining seconds, rounded up, or `None` for ever.
pub(crate) fn remaining(expires: Option<u64>, now: u64) -> Option<u64> {
    expires.map(|expires| expires.saturating_sub(now).div_ceil(1000))
}

/// Returns true if the time has passed.
pub(crate) fn has_passed(expires: Option<u64>, now: u64) -> bool {
    expires.is_some_and(|expires| expires <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_up_to_30_days_are_relative() {
        let now = 1_000_000_000_000;
        assert_eq!(expires_at(0, now), None);
        assert_eq!(expires_at(-1, now), Some(0));
        assert_eq!(expires_at(10, now), Some(now + 10_000));
        assert_eq!(expires_at(MAX_RELATIVE_SECONDS, now), Some(now + 2_592_000_000));
        assert_eq!(expires_at(MAX_RELATIVE_SECONDS + 1, now), Some(2_592_001_000));
        assert!(has_passed(expires_at(-1, now), now) && !has_passed(None, now));
        assert_eq!(remaining(Some(now + 1500), now), Some(2));
        assert_eq!(remaining(Some(now - 1), now), Some(0));
    }
}
