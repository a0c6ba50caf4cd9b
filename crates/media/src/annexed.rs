//! A medium with some bytes in DRAM far past its end: [`Annexed`].
//!
//! A reader that must see what nobody has stored yet, and that may not store it either, annexes it: offsets
//! lead to it as they lead to the medium below. Nobody else sees the bytes, and they never change.

use crate::{MediaError, Medium, MediumAccess, MediumBackend, forward_medium};

/// A medium for reading, with bytes in DRAM from [`START`](Self::START) on. What is between its end and them
/// reads as zeros.
#[derive(Debug)]
pub struct Annexed {
    medium: Medium,
    bytes: Vec<u8>,
}

impl Annexed {
    /// Offset of the annexed bytes.
    pub const START: u64 = 1 << 60;

    /// Annexes bytes to a medium.
    pub fn new(medium: impl Into<Medium>, bytes: Vec<u8>) -> Annexed {
        Annexed {
            medium: medium.into(),
            bytes,
        }
    }

    /// Copies what the annexed bytes have of a range to `into`, which is all zeros otherwise.
    fn load_annexed(&self, offset: u64, into: &mut [u8]) {
        into.fill(0);
        let part = |from: u64| usize::try_from(from).ok().and_then(|from| self.bytes.get(from..));
        if let Some(rest) = offset.checked_sub(Self::START).and_then(part) {
            let len = rest.len().min(into.len());
            into[..len].copy_from_slice(&rest[..len]);
        }
    }

    fn is_below(&self, offset: u64, len: u64) -> bool {
        offset
            .checked_add(len)
            .is_some_and(|end| end <= self.medium.len())
    }
}

impl MediumAccess for Annexed {
    forward_medium!(medium: slice, prefetch, store, store_u64, flush, fence);

    fn len(&self) -> u64 {
        Self::START + self.bytes.len() as u64
    }

    fn load(&self, offset: u64, into: &mut [u8]) {
        if self.is_below(offset, into.len() as u64) {
            self.medium.load(offset, into)
        } else {
            self.load_annexed(offset, into)
        }
    }

    fn load_u64(&self, offset: u64) -> u64 {
        if self.is_below(offset, 8) {
            return self.medium.load_u64(offset);
        }
        let mut word = [0; 8];
        self.load_annexed(offset, &mut word);
        u64::from_le_bytes(word)
    }
}

impl MediumBackend for Annexed {
    forward_medium!(medium: kind, grow, allocated, sync, fence_is_durable, observer, as_file);

    fn refresh(&self) -> Result<u64, MediaError> {
        self.medium.refresh().map(|_| self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Dram;

    #[test]
    fn both_parts_are_read_and_the_rest_is_zero() {
        let dram = Medium::from(Dram::new(4096).unwrap());
        dram.store(4088, &[7; 8]);
        let medium = Medium::over(Arc::new(Annexed::new(&dram, vec![1, 2, 3, 4, 5, 6, 7, 8, 9])));
        let load = |offset: u64| {
            let mut bytes = [0xff; 8];
            medium.load(offset, &mut bytes);
            bytes
        };
        assert_eq!(load(4088), [7; 8]);
        assert_eq!(load(4096), [0; 8]);
        assert_eq!(load(Annexed::START), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(load(Annexed::START + 4), [5, 6, 7, 8, 9, 0, 0, 0]);
        assert_eq!(load(u64::MAX - 3), [0; 8]);
        assert_eq!(medium.load_u64(Annexed::START), 0x0807_0605_0403_0201);
        assert_eq!(medium.len(), Annexed::START + 9);
    }
}
