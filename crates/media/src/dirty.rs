//! Page ranges flushed since the last fence, for a page cache in strict mode.

use std::sync::{Mutex, PoisonError};

use crate::PAGE;
use crate::region::round_up;

/// Ranges of pages that wait for a fence.
#[derive(Debug, Default)]
pub(crate) struct DirtyPages {
    waiting: Mutex<Vec<(u64, u64)>>,
    /// Held while ranges are written back, so that a fence never returns while another thread's fence is
    /// still writing lines that this fence's caller has flushed.
    writing: Mutex<()>,
}

impl DirtyPages {
    /// Records the pages of `from..to`.
    pub(crate) fn add(&self, from: u64, to: u64) {
        let (from, to) = (from / PAGE * PAGE, round_up(to, PAGE));
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.last_mut() {
            Some(last) if from <= last.1 && to >= last.0 => *last = (last.0.min(from), last.1.max(to)),
            _ => waiting.push((from, to)),
        }
    }

    /// Takes all recorded ranges, merged and sorted, and passes them to `write`.
    pub(crate) fn write_back<E>(&self, write: impl FnOnce(&[(u64, u64)]) -> Result<(), E>) -> Result<(), E> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let ranges = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        write(&merge(ranges))
    }
}

fn merge(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let touches = next.0 <= last.1;
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_pages_in_order() {
        let dirty = DirtyPages::default();
        for (from, to) in [
            (5000, 5001),
            (4096, 8200),
            (100_000, 100_001),
            (0, 1),
            (99_000, 99_001),
        ] {
            dirty.add(from, to);
        }
        let mut seen = Vec::new();
        let all = |ranges: &[(u64, u64)]| -> Result<(), ()> {
            seen = ranges.to_vec();
            Ok(())
        };
        dirty.write_back(all).unwrap();
        assert_eq!(seen, [(0, 12288), (98304, 102_400)]);
        dirty
            .write_back(|ranges| {
                if ranges.is_empty() {
                    Ok(())
                } else {
                    Err("taken twice")
                }
            })
            .unwrap();
    }
}
