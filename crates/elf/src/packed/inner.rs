//! Writing the inner lists of layout `packed`.

use crate::geometry::Geometry;
use crate::packed::node::{DENSE, INNER};

/// A child of a list that is being written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) value: u64,
    /// Its position.
    pub(crate) at: u64,
}

/// Writes the inner list of `entries`, at least one, that will stand at position `at`.
pub(crate) fn write(
    geometry: &Geometry,
    depth: usize,
    rows: usize,
    entries: &[Entry],
    at: u64,
    bytes: &mut Vec<u8>,
) {
    let [first, ..] = entries else { return };
    let last = entries.last().unwrap_or(first);
    let value_len = geometry.levels[depth].value_len;
    let link_len = (64 - (at - first.at).leading_zeros() as usize).div_ceil(8).max(1);
    let sparse_len = entries.len() as u64 * (link_len + value_len) as u64;
    // Positions stand for values where that is no larger, holes included; from 0 on if possible.
    let places = |from: u64| {
        let places = (last.value - from).checked_add(1)?;
        (places.checked_mul(link_len as u64)? <= sparse_len && places <= u64::from(u32::MAX))
            .then_some((from, places))
    };
    let dense = places(0).or_else(|| places(first.value));
    let kind = INNER | ((link_len - 1) as u8) << 2;
    let flags = if dense.is_some() { DENSE } else { 0 };
    let count = dense.map_or(entries.len() as u64, |(_, places)| places) as u32;
    bytes.push(kind | flags);
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&(rows as u32).to_le_bytes());
    match dense {
        Some((from, _)) => bytes.extend_from_slice(&from.to_le_bytes()[..value_len]),
        None => {
            entries
                .iter()
                .for_each(|entry| bytes.extend_from_slice(&entry.value.to_le_bytes()[..value_len]));
        }
    }
    let mut next = dense.map_or(0, |(from, _)| from);
    for entry in entries {
        if dense.is_some() {
            bytes.resize(bytes.len() + (entry.value - next) as usize * link_len, 0);
            next = entry.value.wrapping_add(1);
        }
        bytes.extend_from_slice(&(at - entry.at).to_le_bytes()[..link_len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(values: &[u64], step: u64) -> Vec<Entry> {
        let entry = |(i, &value)| Entry {
            value,
            at: i as u64 * step,
        };
        values.iter().enumerate().map(entry).collect()
    }

    #[test]
    fn links_are_as_long_as_the_subtree_needs() {
        let geometry = Geometry::new(1 << 31, vec![99, 1 << 40]);
        let values: Vec<u64> = (0..16).filter(|&value| value != 7).collect();
        for (step, len) in [
            (10, 1),
            (1000, 2),
            (1 << 19, 3),
            (1 << 29, 5),
            (1 << 40, 6),
            (1 << 59, 8),
        ] {
            let mut bytes = vec![];
            write(&geometry, 0, 1000, &entries(&values, step), 15 * step, &mut bytes);
            assert_eq!(usize::from(bytes[0] >> 2 & 7) + 1, len);
            // Dense from 0 on, one of sixteen places empty.
            assert_eq!(
                (bytes[0] & DENSE, bytes[1], bytes.len()),
                (DENSE, 16, 10 + 16 * len)
            );
            assert_eq!(bytes[10..10 + len], (15 * step).to_le_bytes()[..len]);
            assert_eq!(bytes[10 + 7 * len..10 + 8 * len], vec![0; len]);
        }
    }

    #[test]
    fn far_apart_values_are_listed() {
        let geometry = Geometry::new(1 << 31, vec![99, 1 << 40]);
        let mut bytes = vec![];
        write(
            &geometry,
            1,
            1000,
            &entries(&[7, 1 << 30, 1 << 40], 50),
            150,
            &mut bytes,
        );
        assert_eq!((bytes[0] & DENSE, bytes[1]), (0, 3));
        assert_eq!(bytes.len(), 9 + 3 * 8 + 3);
        assert_eq!(bytes[9 + 24..], [150, 100, 50]);
    }
}
