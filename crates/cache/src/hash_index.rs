//! A hash table of 32-bit numbers whose keys are stored elsewhere. It uses open addressing with linear
//! probing and backward-shift deletion.

/// Marker of an empty position.
const EMPTY: u32 = u32::MAX;

/// Mixes the bits of a key (the finalizer of SplitMix64, a bijection).
#[inline]
pub(crate) fn mix(key: u64) -> u64 {
    let mut z = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Maps a hash to a position in `0..len`.
#[inline]
pub(crate) fn scale(hash: u64, len: usize) -> usize {
    ((u128::from(hash) * len as u128) >> 64) as usize
}

#[derive(Debug)]
pub(crate) struct HashIndex {
    table: Vec<u32>,
}

impl HashIndex {
    /// Bytes of the table for each two numbers of its capacity; it has one position more.
    pub(crate) const BYTES_FOR_TWO: u64 = 3 * size_of::<u32>() as u64;

    /// Creates a table for up to `most` numbers, with a load factor of at most two thirds.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            table: vec![EMPTY; most + most / 2 + 1],
        }
    }

    /// Returns the number with this hash for which `is` returns true.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let mut place = scale(hash, self.table.len());
        loop {
            match self.table[place] {
                EMPTY => return None,
                number if is(number) => return Some(number),
                _ => place = self.after(place),
            }
        }
    }

    /// Inserts a number, which must be absent.
    pub(crate) fn insert(&mut self, hash: u64, number: u32) {
        let mut place = scale(hash, self.table.len());
        while self.table[place] != EMPTY {
            place = self.after(place);
        }
        self.table[place] = number;
    }

    /// Removes a number if it is present. `hash_of` returns the hash of another number.
    pub(crate) fn remove(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        let len = self.table.len();
        let mut hole = scale(hash, len);
        while self.table[hole] != number {
            if self.table[hole] == EMPTY {
                return;
            }
            hole = self.after(hole);
        }
        let distance = |from: usize, to: usize| if to >= from { to - from } else { to + len - from };
        let mut place = hole;
        loop {
            place = self.after(place);
            let other = self.table[place];
            if other == EMPTY {
                break;
            }
            // A number may move into the hole only if the hole is not before its home position.
            if distance(scale(hash_of(other), len), place) >= distance(hole, place) {
                self.table[hole] = other;
                hole = place;
            }
        }
        self.table[hole] = EMPTY;
    }

    fn after(&self, place: usize) -> usize {
        if place + 1 == self.table.len() {
            0
        } else {
            place + 1
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.table.capacity() * size_of::<u32>()
    }
}
