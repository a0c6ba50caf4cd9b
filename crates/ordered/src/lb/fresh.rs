//! Writing a leaf that nobody knows yet.

use crate::hybrid::StoreWords;
use crate::kernel::fingerprint;

use super::layout::{LINES, LbHeader, SLOTS};
use super::leaf::LbLeafRef;
use super::mistake::{Mistake, made};
use super::put::home;

/// The order in which a block's slots are filled in a leaf that is flushed only where there are entries: the line of the links, which is
/// flushed anyway, another line, and the header's, so that the fourth line stays free as long as possible. As the lower keys of a split
/// come first, a line has neighbours, of which the next split takes all or none: what it leaves free is together, and so an insert
/// finds room there for more of the header's line (1.636 lines an insert instead of 1.663).
const COMPACT: [usize; SLOTS] = [11, 12, 13, 3, 4, 5, 6, 0, 1, 2, 7, 8, 9, 10];

/// The order in one that is filled: the header's line last, as entries to come cost least there.
const FULL: [usize; SLOTS] = [11, 12, 13, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 2];

impl<W: StoreWords, const B: usize> LbLeafRef<W, B> {
    /// Stores and flushes a whole leaf, all but lines in which nothing is; at most all its slots.
    pub(crate) fn write_new(
        self,
        entries: impl Iterator<Item = (u64, u64)>,
        next: u64,
        filled: bool,
    ) -> [LbHeader; B] {
        let order = if filled { &FULL } else { &COMPACT };
        let forgets = made(if filled {
            Mistake::LoadUnflushed
        } else {
            Mistake::NewLeafUnflushed
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
            *header = LbHeader::of(used[block], &fingerprints[block]);
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
