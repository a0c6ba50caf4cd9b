//! An arena of copies of different sizes. Copies are appended, and compacted when the end is reached.
//!
//! Live copies take at most a fixed fraction of the arena ([`live_bytes`]). Compaction therefore frees at
//! least the rest and moves a bounded number of bytes per byte written. No space is lost to fragmentation.

/// Size of the header of a copy, which has its owner, or [`NOBODY`], and its length.
const HEADER: usize = 8;
const NOBODY: u32 = u32::MAX;

/// Returns the space that a copy of `len` bytes takes.
pub(super) fn copy_bytes(len: usize) -> usize {
    HEADER + len.next_multiple_of(HEADER)
}

/// Returns the maximum number of live bytes in an arena.
pub(super) fn live_bytes(arena: usize) -> usize {
    arena - arena / 16
}

#[derive(Debug)]
pub(super) struct Arena {
    bytes: Vec<u8>,
    /// Offset of the next copy.
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

    /// Appends a copy of `bytes` and returns its position. `moved` is called with the owner and the new
    /// position of each copy that compaction moves. The live bytes must stay within their limit.
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

    /// Marks a copy as dead.
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
