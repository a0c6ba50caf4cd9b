//! Distinct strings numbered as they come, for columns that may end up with a dictionary.
//!
//! Up to 65,536 distinct strings (16 MiB) end in a sorted dictionary. Beyond that, or if more than half of
//! the rows are distinct, strings are stored as they are, compressed one by one.

use crate::format::checksum;
use hashbrown::HashTable;

/// Numbers (ids) strings in the order of their first appearance.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    ids: HashTable<u32>,
    last: u32,
}

impl Interner {
    /// Creates an interner that holds `bytes` bytes of strings before it reallocates.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ..Self::default()
        }
    }

    /// Returns the bytes of DRAM that it uses besides those of the strings.
    pub(crate) fn table_memory(&self) -> usize {
        // A table entry is an id and a control byte, and one in eight stays free.
        self.ends.capacity() * size_of::<usize>() + self.ids.capacity() * 6
    }

    /// Returns the id of `string`, adding it if it is new.
    #[inline]
    pub(crate) fn intern(&mut self, string: &[u8]) -> u32 {
        if !self.ends.is_empty() && self.get(self.last) == string {
            return self.last;
        }
        let Self {
            bytes,
            ends,
            ids,
            last,
        } = self;
        let known = |id: u32| &bytes[start(ends, id)..ends[id as usize]];
        let hash = checksum(string);
        let id = match ids.find(hash, |&id| known(id) == string) {
            Some(&id) => id,
            None => {
                let id = ends.len() as u32;
                ids.insert_unique(hash, id, |&id| checksum(known(id)));
                bytes.extend_from_slice(string);
                ends.push(bytes.len());
                id
            }
        };
        *last = id;
        id
    }

    /// Returns the string of an id.
    ///
    /// # Panics
    /// If no string has this id.
    pub(crate) fn get(&self, id: u32) -> &[u8] {
        &self.bytes[start(&self.ends, id)..self.ends[id as usize]]
    }

    /// Returns the number of distinct strings.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the total size in bytes of all distinct strings.
    pub(crate) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes of DRAM that it uses, including reserved capacity.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.table_memory()
    }

    /// Forgets all strings, but not the memory they took.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.ids.clear();
        self.last = 0;
    }

    /// Returns all ids in the byte order of their strings.
    pub(crate) fn sorted(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = (0..self.len() as u32).collect();
        ids.sort_unstable_by(|&a, &b| self.get(a).cmp(self.get(b)));
        ids
    }
}

fn start(ends: &[usize], id: u32) -> usize {
    if id == 0 { 0 } else { ends[id as usize - 1] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_an_id_and_sort() {
        let mut interner = Interner::default();
        let ids: Vec<u32> = ["pear", "apple", "pear", "", "apple", "fig"]
            .iter()
            .map(|s| interner.intern(s.as_bytes()))
            .collect();
        assert_eq!(ids, [0, 1, 0, 2, 1, 3]);
        let sorted: Vec<&[u8]> = interner.sorted().iter().map(|&id| interner.get(id)).collect();
        assert_eq!(sorted, [&b""[..], b"apple", b"fig", b"pear"]);
        assert_eq!((interner.len(), interner.bytes_len()), (4, 12));
        (0..5000u32).for_each(|i| assert_eq!(interner.intern(&i.to_le_bytes()), 4 + i));
    }
}
