//! Pairs in DRAM that are sorted before they are loaded or spilled: [`PairWindow`].

use std::cmp::Ordering;

use crate::leaf::slice_of;

/// Bytes before the key and the value of an encoded pair: their lengths, and the number of the pair.
const PAIR_HEAD: usize = 2 + 4 + 8;

/// A pair with its number among those given, which orders pairs with the same key.
#[derive(Debug, Clone, Copy)]
pub struct NumberedPair<'a> {
    /// The number.
    pub number: u64,
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl<'a> NumberedPair<'a> {
    /// Returns the number of bytes of the encoded pair.
    pub(crate) fn encoded_len(&self) -> usize {
        PAIR_HEAD + self.key.len() + self.value.len()
    }

    /// Appends the encoded pair.
    pub(crate) fn encode(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        into.extend_from_slice(&(self.value.len() as u32).to_le_bytes());
        into.extend_from_slice(&self.number.to_le_bytes());
        into.extend_from_slice(self.key);
        into.extend_from_slice(self.value);
    }

    /// Decodes the pair at the beginning of some bytes. `None` if they are cut.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (key_len, rest) = bytes.split_first_chunk()?;
        let (value_len, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(u16::from_le_bytes(*key_len).into())?;
        let value = rest.get(..u32::from_le_bytes(*value_len) as usize)?;
        Some(Self {
            number: u64::from_le_bytes(*number),
            key,
            value,
        })
    }
}

/// Pairs in the order in which they were given, or sorted.
#[derive(Debug)]
pub(crate) struct PairWindow {
    /// The encoded pairs, one after the other.
    bytes: Vec<u8>,
    slots: Vec<PairSlot>,
    /// Bytes of pairs and slots together.
    capacity: usize,
    /// Bytes of a pair as the window expects them: its allocations are made for as many pairs as fit then.
    expected: Option<usize>,
    /// Number of pairs whose key is not greater than that of the one before them.
    descents: usize,
}

/// A place in the order.
#[derive(Debug, Clone, Copy)]
struct PairSlot {
    /// The first eight bytes of the key.
    slice: u64,
    /// The place of the pair in the bytes.
    at: u32,
}

impl PairWindow {
    /// Creates a window of at most this many bytes, unless a single pair takes more.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            bytes: Vec::new(),
            slots: Vec::new(),
            capacity: capacity.min(u32::MAX as usize),
            expected: None,
            descents: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns true if a pair does not fit any more.
    pub(crate) fn is_full_for(&self, pair: &NumberedPair<'_>) -> bool {
        // The allocations never grow: that would take more than the capacity.
        let has_room = self.slots.len() < self.slots.capacity()
            && self.bytes.len() + pair.encoded_len() <= self.bytes.capacity();
        !self.slots.is_empty() && !has_room
    }

    /// Returns true if each pair is greater than the one before it.
    pub(crate) fn is_sorted(&self) -> bool {
        self.descents == 0
    }

    /// Returns true if at most one in `1 << bits` pairs is less than the one before it.
    pub(crate) fn is_nearly_sorted(&self, bits: u32) -> bool {
        self.descents <= self.slots.len() >> bits
    }

    /// Adds a pair.
    pub(crate) fn push(&mut self, pair: &NumberedPair<'_>) {
        if let Some(last) = self.slots.len().checked_sub(1)
            && self.get(last).key >= pair.key
        {
            self.descents += 1;
        }
        if self.slots.is_empty() && self.slots.capacity() == 0 {
            let expected = self.expected.unwrap_or(pair.encoded_len());
            let pairs = self.capacity / (expected + size_of::<PairSlot>());
            self.slots.reserve_exact(pairs);
            self.bytes
                .reserve_exact(self.capacity - pairs * size_of::<PairSlot>());
        }
        self.slots.push(PairSlot {
            slice: slice_of(pair.key, 0),
            at: self.bytes.len() as u32,
        });
        pair.encode(&mut self.bytes);
    }

    /// Returns the pair at a position.
    pub(crate) fn get(&self, at: usize) -> NumberedPair<'_> {
        let pair = self.slots.get(at).map(|slot| &self.bytes[slot.at as usize..]);
        let pair = pair.and_then(NumberedPair::decode);
        pair.unwrap_or_else(|| unreachable!("the window has no pair {at}"))
    }

    /// Sorts the pairs by their keys; those with the same key keep their order.
    pub(crate) fn sort(&mut self) {
        if self.descents == 0 {
            return;
        }
        let bytes = &self.bytes;
        let key = |slot: &PairSlot| NumberedPair::decode(&bytes[slot.at as usize..]).map(|pair| pair.key);
        self.slots.sort_unstable_by(|a, b| match a.slice.cmp(&b.slice) {
            Ordering::Equal => key(a).cmp(&key(b)).then(a.at.cmp(&b.at)),
            order => order,
        });
        self.descents = 0;
    }

    /// Removes all pairs. Keeps the allocations, unless the pairs were much longer or shorter than expected.
    pub(crate) fn clear(&mut self) {
        let used = self.bytes.len() + self.slots.len() * size_of::<PairSlot>();
        if used < self.capacity / 2 && !self.slots.is_empty() {
            self.expected = Some(self.bytes.len() / self.slots.len());
            (self.bytes, self.slots) = (Vec::new(), Vec::new());
        }
        self.bytes.clear();
        self.slots.clear();
        self.descents = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_sorted_and_equal_keys_keep_their_order() {
        let keys: [&[u8]; 6] = [b"b", b"a", b"12345678b", b"12345678a", b"a", b""];
        let mut window = PairWindow::new(1 << 10);
        for (at, key) in keys.iter().enumerate() {
            let pair = NumberedPair {
                number: at as u64 + 1,
                key,
                value: &[7; 3][..at % 4],
            };
            assert!(!window.is_full_for(&pair));
            window.push(&pair);
        }
        assert!(!window.is_nearly_sorted(2) && window.is_nearly_sorted(0));
        window.sort();
        let sorted: Vec<_> = (0..window.len()).map(|at| window.get(at)).collect();
        let found: Vec<_> = sorted
            .iter()
            .map(|pair| (pair.key, pair.number, pair.value.len()))
            .collect();
        let expected: [(&[u8], u64, usize); 6] = [
            (b"", 6, 1),
            (b"12345678a", 4, 3),
            (b"12345678b", 3, 2),
            (b"a", 2, 1),
            (b"a", 5, 0),
            (b"b", 1, 0),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn windows_take_one_pair_and_as_many_as_fit() {
        let long = [1; 100];
        let pair = NumberedPair {
            number: 1,
            key: &long,
            value: &[],
        };
        let mut window = PairWindow::new(300);
        let mut count = 0;
        while !window.is_full_for(&pair) {
            window.push(&pair);
            count += 1;
        }
        assert_eq!(count, 2);
        let mut small = PairWindow::new(10);
        assert!(!small.is_full_for(&pair));
        small.push(&pair);
        assert!(small.is_full_for(&pair));
    }

    #[test]
    fn a_long_pair_does_not_make_windows_small() {
        fn pair(key: &[u8]) -> NumberedPair<'_> {
            NumberedPair {
                number: 1,
                key,
                value: &[],
            }
        }
        let (short, long) = ([0; 8], [0; 900]);
        let mut window = PairWindow::new(4 << 10);
        let mut fill = |first: &[u8]| {
            window.push(&pair(first));
            while !window.is_full_for(&pair(&short)) {
                window.push(&pair(&short));
            }
            let pairs = window.len();
            window.clear();
            pairs
        };
        assert_eq!(fill(&long), 4);
        assert!(fill(&short) > 10);
        assert!(fill(&long) > 40);
    }

    #[test]
    fn cut_pairs_are_none() {
        let pair = NumberedPair {
            number: 9,
            key: b"key",
            value: b"value",
        };
        let mut bytes = Vec::new();
        pair.encode(&mut bytes);
        assert_eq!(bytes.len(), pair.encoded_len());
        assert!((0..bytes.len()).all(|len| NumberedPair::decode(&bytes[..len]).is_none()));
        assert_eq!(NumberedPair::decode(&bytes).map(|pair| pair.number), Some(9));
    }
}
