//! Pieces of keys: so few bits of each key of a node that all of them fit one line.
//!
//! A [`KeyWindow`] says which bits: a key's distance from the window's start, without the lowest bits. Whatever the window, a
//! greater key has no lesser piece, so two keys with different pieces are in the order of their pieces; of two with the same piece,
//! nothing is known. That the window is the one that suits a node's keys is a matter of speed alone.

/// What is behind the last piece: more than any key's.
pub(crate) const NONE: u16 = 0x7FFF;

/// Bits that the keys of a node differ in at most. One bit fewer than pieces have: keys up to the same distance
/// behind the last one have pieces of their own too.
const BITS: u32 = 14;

/// Bits of a window that say how many bits of a distance are left out.
const SHIFT: u64 = 63;

/// Where the pieces of a node begin, a multiple of 64, and in the lowest bits how many bits are left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeyWindow(u64);

impl From<u64> for KeyWindow {
    #[inline(always)]
    fn from(stored: u64) -> KeyWindow {
        KeyWindow(stored)
    }
}

impl From<KeyWindow> for u64 {
    fn from(window: KeyWindow) -> u64 {
        window.0
    }
}

impl KeyWindow {
    /// One in which keys between these, the least and the greatest of a node, have different pieces as far as possible, and lesser
    /// keys another than the least.
    pub(crate) fn around(least: u64, greatest: u64) -> KeyWindow {
        let span = greatest.saturating_sub(least);
        let shift = (u64::BITS - span.leading_zeros()).saturating_sub(BITS);
        let start = least.saturating_sub(1 << shift);
        KeyWindow(start & !SHIFT | u64::from(shift))
    }

    /// Whether a key's piece is neither the least nor the greatest, which are those of all keys out of the window too.
    pub(crate) fn tells_apart(self, key: u64) -> bool {
        (1..NONE - 1).contains(&self.piece(key))
    }

    /// The piece of a key.
    #[inline(always)]
    pub(crate) fn piece(self, key: u64) -> u16 {
        let distance = key.saturating_sub(self.0 & !SHIFT) >> (self.0 & SHIFT);
        distance.min(u64::from(NONE - 1)) as u16
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_keep_the_order(window: u64, a: u64, b: u64, near in 0_u64..1 << 20) {
            let window = KeyWindow::from(window);
            for b in [b, a.saturating_add(near)] {
                let (less, greater) = (a.min(b), a.max(b));
                prop_assert!(window.piece(less) <= window.piece(greater));
                prop_assert!(window.piece(greater) < NONE);
            }
        }

        #[test]
        fn keys_of_a_node_have_fine_pieces(a: u64, b: u64, bits in 0_u32..64) {
            let (least, span) = (a.min(b), a.abs_diff(b) >> bits);
            let window = KeyWindow::around(least, least + span);
            let pieces = window.piece(least + span) - window.piece(least);
            // At least half of the pieces that there are for a node's keys, or one for each key.
            prop_assert!(u64::from(pieces) >= span.min(1 << (BITS - 1)) - u64::from(span >> BITS > 0));
            // None of them as great as any other key.
            prop_assert!(window.piece(least + span) < NONE - 1);
            if least > 64 + span {
                prop_assert!(window.piece(least - 65 - (span >> (BITS - 1))) < window.piece(least));
            }
        }
    }
}
