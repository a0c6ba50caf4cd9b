//! Writing new leaves.

use crate::hybrid::StoreWords;
use crate::kernel::fingerprint;

use super::fault::{LbFault, injected};
use super::layout::{LINES, LbHeader, SLOTS};
use super::leaf::LbLeafRef;
use super::put::home;

/// Slot order for a leaf of which only the lines with entries are flushed: first the line of the links, which
/// is flushed anyway, then another line, then the header's, so that the fourth stays free as long as
/// possible. A split writes the lower keys first, so entries of one line are neighbours in key order. The
/// next split then frees whole lines, and later inserts can move more entries out of the header's line (1.636
/// lines per insert instead of 1.663).
const COMPACT: [usize; SLOTS] = [11, 12, 13, 3, 4, 5, 6, 0, 1, 2, 7, 8, 9, 10];

/// Slot order for a bulk load: the header's line last, because later inserts are cheapest there.
const FULL: [usize; SLOTS] = [11, 12, 13, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2];

impl<W: StoreWords, const B: usize> LbLeafRef<W, B> {
    /// Stores and flushes a new leaf, except for lines without entries. Entries beyond its capacity are
    /// ignored.
    pub(crate) fn write_new(
        self,
        entries: impl Iterator<Item = (u64, u64)>,
        next: u64,
        filled: bool,
    ) -> [LbHeader; B] {
        let order = if filled { &FULL } else { &COMPACT };
        let forgets = injected(if filled {
            LbFault::LoadUnflushed
        } else {
            LbFault::NewLeafUnflushed
        });
        let mut fingerprints = [[0; SLOTS]; B];
        let mut used = [0; B];
        let mut taken = [0; B];
        for (key, value) in entries {
            let home = home::<B>(key);
            let with_room = (0..B)
                .map(|next| (home + next) % B)
                .find(|block| taken[*block] < SLOTS);
            let Some(block) = with_room else { break };
            let slot = order[taken[block]];
            taken[block] += 1;
            self.store_entry((block, slot), key, value);
            fingerprints[block][slot] = fingerprint(key);
            used[block] |= 1 << slot;
        }
        self.store_link(0, next);
        self.store_link(1, 0);
        let mut headers = [LbHeader::default(); B];
        for (block, header) in headers.iter_mut().enumerate() {
            *header = LbHeader::new(used[block], &fingerprints[block]);
            self.store_header(block, *header);
            for (line, slots) in LINES.iter().enumerate() {
                let links = (block, line) == (0, 3);
                if (line == 0 || links || used[block] & slots != 0) && !forgets {
                    self.flush_line(block, line);
                }
            }
        }
        headers
    }
}
