//! Which rows of a block match, told while its values are unpacked: nothing but a bit for each row is
//! written.
#![allow(unsafe_code, reason = "loops that are built for AVX2 and AVX-512")]

use super::BlockMask;
use super::{Lane, packed_len};
#[cfg(target_arch = "x86_64")]
use super::{filter_avx2, filter_avx512};
use crate::format::BLOCK;
use crate::read::bitset::Bitset;

/// Where the values of a block are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Values<'a, L> {
    /// Packed in this number of bits each.
    Packed(usize, &'a [L]),
    /// As they are; 1024 at most.
    Lanes(&'a [L]),
}

/// Returns the rows with `lo <= value <= lo + span`, wrapping. Bits after the last value are 0. Uses AVX-512
/// or AVX2 where available.
///
/// # Panics
/// If packed values are not exactly one block, or there are more values than a block holds.
pub(crate) fn within<L: Lane>(values: Values<'_, L>, lo: L, span: L) -> BlockMask {
    values.check();
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512bw") {
        // SAFETY: the machine has AVX-512BW.
        return unsafe { filter_avx512::within(values, lo, span) };
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { filter_avx2::within(values, lo, span) };
    }
    each(values, |value| value.within(lo, span))
}

/// Returns the rows whose slot `value + add`, wrapping at 32 bits, is set in `bits`. Bits after the last
/// value are 0. Uses AVX2 where available.
///
/// # Panics
/// As [`within`].
pub(crate) fn lookup<L: Lane>(values: Values<'_, L>, add: u32, bits: &Bitset) -> BlockMask {
    values.check();
    #[cfg(target_arch = "x86_64")]
    if L::BITS <= 32 && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { filter_avx2::lookup(values, add, bits) };
    }
    each(values, |value| {
        bits.has((value.widen() as u32).wrapping_add(add)) == 1
    })
}

impl<L: Lane> Values<'_, L> {
    fn check(&self) {
        match *self {
            Values::Packed(width, packed) => assert!(
                width <= L::BITS && packed.len() == packed_len::<L>(width),
                "packed block of the wrong size"
            ),
            Values::Lanes(lanes) => assert!(lanes.len() <= BLOCK, "more values than a block has"),
        }
    }
}

/// Tests the values one by one and returns the rows that match.
fn each<L: Lane>(values: Values<'_, L>, matches: impl Fn(L) -> bool) -> BlockMask {
    let mut room = [L::default(); BLOCK];
    let values = match values {
        Values::Packed(width, packed) => {
            super::unpack(width, packed, &mut room);
            &room[..]
        }
        Values::Lanes(lanes) => lanes,
    };
    let mut mask = [0; BLOCK / 64];
    for (mask, values) in mask.iter_mut().zip(values.chunks(64)) {
        for (row, value) in values.iter().enumerate() {
            *mask |= u64::from(matches(*value)) << row;
        }
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::super::{pack, with_lane};
    use super::*;

    fn filters_agree<L: Lane>(width: usize) {
        let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
        let values: [L; BLOCK] =
            std::array::from_fn(|i| L::truncate((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 9 & mask));
        let mut packed = vec![L::default(); packed_len::<L>(width)];
        pack(width, &values, &mut packed);
        let (lo, span) = (L::truncate(mask / 5), L::truncate(mask / 3));
        let mut bits = Bitset::new(mask.min(100_000) as u32 + 60);
        for place in (0..bits.places()).filter(|place| place % 31 < 9 && place % 7 != 1) {
            bits.set(place);
        }
        let sources = [1024, 1000, 127, 64, 3, 0].map(|rows| (Values::Lanes(&values[..rows]), rows));
        for (source, rows) in [(Values::Packed(width, &packed[..]), BLOCK)]
            .into_iter()
            .chain(sources)
        {
            let is_within = within(source, lo, span);
            assert_eq!(
                is_within,
                each(source, |value| value.within(lo, span)),
                "width {width}"
            );
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the machine has AVX2; `within` may have used AVX-512.
                let with_avx2 = unsafe { filter_avx2::within(source, lo, span) };
                assert_eq!(is_within, with_avx2, "width {width}");
            }
            for bits in [&bits, &bits.shared(4)] {
                let is_there = lookup(source, 50, bits);
                for row in 0..BLOCK {
                    let place = (values[row].widen() as u32).wrapping_add(50);
                    let expected = row < rows && bits.has(place) == 1;
                    assert_eq!(
                        is_there[row / 64] >> (row % 64) & 1 == 1,
                        expected,
                        "width {width}, row {row}"
                    );
                }
            }
        }
    }

    #[test]
    fn filters_of_every_width_agree() {
        for width in 0..=64 {
            with_lane!(width, L => filters_agree::<L>(width));
        }
    }
}
