//! Merging an empty leaf with its right neighbour.
//!
//! Order: (1) the entries and the link that is not live; (2) in leaves of several blocks, all headers but the
//! first; (3) one store to the first header, which makes its entries and the new link live. Until (3),
//! recovery clears the entries of (2), because the next leaf is still linked. There is a fence between (1)
//! and (2) or (3) if an entry is not in the same line as the header that makes it valid.

use crate::TreeError;
use crate::hybrid::StoreWords;
use crate::write_gate::WriteGate;

use super::fault::{LbFault, injected};
use super::layout::LINES;
use super::leaf::LbLeafRef;

/// Moves all entries of `right` to the empty leaf `left` and links `left` to the leaf after `right`.
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
    // Entries of later blocks must be durable before their headers, except for those in the header's own
    // line, whose stores arrive in order.
    let mut waits = !several;
    for (block, header) in others.iter().enumerate() {
        for (line, slots) in LINES.iter().enumerate().skip(1) {
            let (entries, links) = (header.used() & slots != 0, (block, line) == (0, 3));
            if (entries || links) && !(links && injected(LbFault::AbsorbUnflushed)) {
                left.flush_line(block, line);
            }
            waits |= entries && block > 0;
        }
    }
    let mut result = if waits {
        write_gate.keep(left.0.fence())
    } else {
        Ok(())
    };
    if several {
        for block in 1..B {
            // Until the first header is switched, these entries also belong to the next leaf, and recovery
            // clears them here.
            left.store_header(block, own[block].replaced_by(others[block]));
            left.flush_line(block, 0);
        }
        result = result.and(write_gate.keep(left.0.fence()));
    }
    // This flush also covers the entries in the header's line.
    left.store_header(0, own[0].replaced_by(others[0]).flipped());
    left.flush_line(0, 0);
    result.and(write_gate.keep(left.0.fence()))
}
