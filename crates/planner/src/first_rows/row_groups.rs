//! Groups by the values of any columns, which are encoded to be compared as bytes.

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::error::Result;

use super::ids::{GroupIds, GroupMemory, mix};
use super::thresholds::NO_GROUP;

/// The groups by the encoded values of columns.
#[derive(Debug)]
pub(super) struct RowGroups {
    converter: RowConverter,
    rows: Rows,
    ids: GroupIds,
    /// The encoded values of all groups, one after the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl RowGroups {
    /// Begins with no group. Each will take `group_bytes` bytes elsewhere.
    ///
    /// # Errors
    /// Values of one of the types cannot be compared.
    pub(super) fn new(types: &[DataType], group_bytes: usize) -> Result<Self> {
        let converter = RowConverter::new(types.iter().cloned().map(SortField::new).collect())?;
        Ok(Self {
            rows: converter.empty_rows(0, 0),
            converter,
            ids: GroupIds::new(group_bytes + size_of::<usize>()),
            bytes: Vec::new(),
            ends: Vec::new(),
        })
    }

    /// Returns the numbers of the groups.
    pub(super) fn ids(&self) -> &GroupIds {
        &self.ids
    }

    /// Adds to `groups` the groups of rows with these columns.
    ///
    /// # Errors
    /// The columns are not of the types that were announced.
    pub(super) fn assign(
        &mut self,
        columns: &[ArrayRef],
        memory: &mut GroupMemory,
        groups: &mut Vec<u32>,
    ) -> Result<()> {
        self.rows.clear();
        self.converter.append(&mut self.rows, columns)?;
        for row in &self.rows {
            let key = row.data();
            let word = hash(key);
            let is_same = |group| key == encoded(&self.bytes, &self.ends, group);
            let group = match self.ids.find(word, is_same) {
                Some(group) => group,
                None if !make_room(&mut self.bytes, key.len(), memory) => NO_GROUP,
                None => match self.ids.add(word, memory) {
                    Some(group) => {
                        self.bytes.extend_from_slice(key);
                        self.ends.push(self.bytes.len());
                        group
                    }
                    None => NO_GROUP,
                },
            };
            groups.push(group);
        }
        Ok(())
    }
}

/// Returns the encoded values of a group.
fn encoded<'a>(bytes: &'a [u8], ends: &[usize], group: u32) -> &'a [u8] {
    let group = group as usize;
    let from = group.checked_sub(1).map_or(0, |before| ends[before]);
    &bytes[from..ends[group]]
}

/// Reserves memory for more bytes; false if there is none.
fn make_room(bytes: &mut Vec<u8>, more: usize, memory: &mut GroupMemory) -> bool {
    let needed = bytes.len() + more;
    if needed <= bytes.capacity() {
        return true;
    }
    let wanted = needed.max(bytes.capacity() * 2).max(4096);
    let fits = !memory.is_exhausted() && memory.take(wanted - bytes.capacity());
    if fits {
        bytes.reserve_exact(wanted - bytes.len());
    }
    fits
}

/// Returns a hash of some bytes.
fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    words.fold(bytes.len() as u64, |hash, word| mix(hash ^ word))
}
