//! An empty leaf takes over its right neighbour.
//!
//! Order: (1) entries and the link that is not live, durable before (2) if there is an entry that (2) makes count in another line than its header;
//! (2) in leaves of several blocks, the headers of all but the first, whose entries recovery clears as long as the next leaf is linked;
//! (3) one store to the first header, which makes its entries and the link live.

use crate::TreeError;
use crate::hybrid::StoreWords;
use crate::write_gate::WriteGate;

use super::layout::LINES;
use super::leaf::LbLeafRef;
use super::mistake::{Mistake, made};

/// Moves all entries of `right` to `left`, which is empty, and makes its link lead past `right`.
pub(super) fn take_over<W: StoreWords, const B: usize>(
    write_gate: &WriteGate,
    left: LbLeafRef<W, B>,
    right: LbLeafRef<W, B>,
) -> Result<(), TreeError> {
    let (own, others) = (left.headers(), right.headers());
    right.each(&others, |entry| {
        left.store_entry(entry.slot, entry.key, entry.value);
    });
    left.store_link(1 - own[0].alt(), right.next());
    let several = others[1..].iter().any(|header| header.used() != 0);
    // Entries of later blocks must be durable before their headers, but for those in the headers' own lines, whose stores arrive in
    // order.
    let mut waits = !several;
    for (block, header) in others.iter().enumerate() {
        for (line, slots) in LINES.iter().enumerate().skip(1) {
            let (entries, links) = (header.used() & slots != 0, (block, line) == (0, 3));
            if (entries || links) && !(links && made(Mistake::AbsorbUnflushed)) {
                left.flush_line(block, line);
            }
            waits |= entries && block > 0;
        }
    }
    let mut result = match waits {
        true => write_gate.keep(left.0.fence()),
        false => Ok(()),
    };
    if several {
        for block in 1..B {
            // Until the switch, these are entries that belong to the next leaf: recovery clears them.
            left.store_header(block, own[block].replaced_by(others[block]));
            left.flush_line(block, 0);
        }
        result = result.and(write_gate.keep(left.0.fence()));
    }
    // Entries of this line need no flush of their own.
    left.store_header(0, own[0].replaced_by(others[0]).flipped());
    left.flush_line(0, 0);
    result.and(write_gate.keep(left.0.fence()))
}
