//! Writing the inner lists of layout `packed`.

use crate::geometry::Geometry;
use crate::packed::node::{DENSE, FORWARD, Forward, INNER};

/// A child of a list that is being written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) value: u64,
    /// Its position.
    pub(crate) at: u64,
    /// What it is like, if it is a dense list from value 0 on.
    pub(crate) forward: Option<Forward>,
}

/// Whether a search should skip the heads of the children of a list of `rows` rows: not where they are so few in the
/// whole tree that they stay in the CPU's caches.
pub(crate) fn worth_forwarding(all_rows: u64, rows: u64, entries: u64) -> bool {
    rows / entries.max(1) < all_rows / 512
}

/// Writes the inner list of `entries` that will stand at position `at`; gives the entry's place in the list above.
pub(crate) fn write(
    geometry: &Geometry,
    depth: usize,
    rows: usize,
    entries: &[Entry],
    at: u64,
    bytes: &mut Vec<u8>,
) -> Option<Forward> {
    let (first, last) = (entries.first()?, entries.last()?);
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
    let forward = if worth_forwarding(geometry.rows, rows as u64, entries.len() as u64) {
        Forward::of(entries.iter().map(|entry| entry.forward))
    } else {
        None
    };
    let kind = INNER | ((link_len - 1) as u8) << 2;
    let flags = if dense.is_some() { DENSE } else { 0 } | if forward.is_some() { FORWARD } else { 0 };
    let count = dense.map_or(entries.len() as u64, |(_, places)| places) as u32;
    let start = bytes.len();
    bytes.push(kind | flags);
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&(rows as u32).to_le_bytes());
    if let Some(forward) = forward {
        bytes.extend_from_slice(&forward.to_bytes());
    }
    match dense {
        Some((from, _)) => bytes.extend_from_slice(&from.to_le_bytes()[..value_len]),
        None => {
            entries
                .iter()
                .for_each(|entry| bytes.extend_from_slice(&entry.value.to_le_bytes()[..value_len]));
        }
    }
    let links = bytes.len() - start;
    let mut next = dense.map_or(0, |(from, _)| from);
    for entry in entries {
        if dense.is_some() {
            bytes.resize(bytes.len() + (entry.value - next) as usize * link_len, 0);
            next = entry.value.wrapping_add(1);
        }
        bytes.extend_from_slice(&(at - entry.at).to_le_bytes()[..link_len]);
    }
    let dense_from_0 = dense.is_some_and(|(from, _)| from == 0);
    dense_from_0.then_some(Forward {
        entries: count,
        links: links as u8,
        link_len: link_len as u8,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(values: &[u64], step: u64) -> Vec<Entry> {
        let entry = |(i, &value)| Entry {
            value,
            at: i as u64 * step,
            forward: None,
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
