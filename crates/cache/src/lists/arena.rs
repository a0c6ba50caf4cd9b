//! Copies of different sizes in one allocation: written one after another, and slid together when the end is reached.
//!
//! What is live is at most a given part of it ([`live_bytes`]), so sliding, which moves at most everything, frees at
//! least the rest: a byte written costs a bounded number of bytes moved, and no room is ever lost to fragments.

/// Before each copy: its owner, or [`NOBODY`], and its length.
const HEADER: usize = 8;
const NOBODY: u32 = u32::MAX;

/// What a copy of `len` bytes takes.
pub(super) fn copy_bytes(len: usize) -> usize {
    HEADER + len.next_multiple_of(HEADER)
}

/// How much of an arena may be live.
pub(super) fn live_bytes(arena: usize) -> usize {
    arena - arena / 16
}

#[derive(Debug)]
pub(super) struct Arena {
    bytes: Vec<u8>,
    /// Where the next copy goes.
    end: usize,
}

impl Arena {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            bytes: vec![0; bytes],
            end: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn get(&self, place: u32, len: u32) -> &[u8] {
        let start = place as usize * HEADER + HEADER;
        &self.bytes[start..start + len as usize]
    }

    /// Copies `bytes` in and answers their place; `moved` is told the owners whose copies are elsewhere from now on. There
    /// must be room among what is not live.
    pub(super) fn add(&mut self, owner: u32, bytes: &[u8], moved: impl FnMut(u32, u32)) -> u32 {
        if self.end + copy_bytes(bytes.len()) > self.bytes.len() {
            self.slide(moved);
        }
        let place = (self.end / HEADER) as u32;
        let (start, len) = (self.end + HEADER, bytes.len());
        self.bytes[self.end..self.end + 4].copy_from_slice(&owner.to_le_bytes());
        self.bytes[self.end + 4..start].copy_from_slice(&(len as u32).to_le_bytes());
        self.bytes[start..start + len].copy_from_slice(bytes);
        self.end += copy_bytes(len);
        place
    }

    /// A copy is no longer live.
    pub(super) fn remove(&mut self, place: u32) {
        let at = place as usize * HEADER;
        self.bytes[at..at + 4].copy_from_slice(&NOBODY.to_le_bytes());
    }

    fn word(&self, at: usize) -> u32 {
        let bytes = self.bytes[at..at + 4].try_into();
        u32::from_le_bytes(bytes.expect("four bytes are four"))
    }

    fn slide(&mut self, mut moved: impl FnMut(u32, u32)) {
        let (mut from, mut to) = (0, 0);
        while from < self.end {
            let owner = self.word(from);
            let size = copy_bytes(self.word(from + 4) as usize);
            if owner != NOBODY {
                if from != to {
                    self.bytes.copy_within(from..from + size, to);
                    moved(owner, (to / HEADER) as u32);
                }
                to += size;
            }
            from += size;
        }
        self.end = to;
    }
}
