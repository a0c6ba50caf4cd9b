//! Compression of keys to short pieces, so that the pieces of all keys of a node fit in two lines.
//!
//! A [`KeyWindow`] defines which bits of a key form its piece: the distance from the window's start, without
//! the lowest bits. For every window, a greater key never has a lesser piece. Different pieces therefore
//! order their keys, and equal pieces do not. A window that does not match a node's keys costs only time.

/// Filler after the last piece; greater than the piece of any key.
pub(crate) const NONE: u16 = 0x7FFF;

/// Number of bits in which the pieces of a node's keys may differ. It is one bit less than a piece has,
/// so that keys beyond the last one, up to the same distance, have distinct pieces too.
const BITS: u32 = 14;

/// Mask of the window's bits that hold the number of dropped bits.
const SHIFT: u64 = 63;

/// The start of a node's window, a multiple of 64, with the number of dropped bits in the lowest bits.
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
    /// Returns a window in which the keys from `least` to `greatest` have different pieces as far as
    /// possible, and lesser keys have a lesser piece than `least`.
    pub(crate) fn around(least: u64, greatest: u64) -> KeyWindow {
        let span = greatest.saturating_sub(least);
        let shift = (u64::BITS - span.leading_zeros()).saturating_sub(BITS);
        let start = least.saturating_sub(1 << shift);
        KeyWindow(start & !SHIFT | u64::from(shift))
    }

    /// Returns true if the key's piece is neither the lowest nor the highest, which all keys outside the
    /// window share.
    pub(crate) fn tells_apart(self, key: u64) -> bool {
        (1..NONE - 1).contains(&self.piece(key))
    }

    /// Returns the piece of a key.
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
            // At least half of the possible pieces are used, or one for each key.
            prop_assert!(u64::from(pieces) >= span.min(1 << (BITS - 1)) - u64::from(span >> BITS > 0));
            // No piece equals that of keys beyond the window.
            prop_assert!(window.piece(least + span) < NONE - 1);
            if least > 64 + span {
                prop_assert!(window.piece(least - 65 - (span >> (BITS - 1))) < window.piece(least));
            }
        }
    }
}
