//! Writing the inner lists of layout `packed`.

use crate::geometry::RecordGeometry;
use crate::packed::node::{DENSE, INNER};

/// Lists are emitted in parts of up to twice this many bytes.
const PART_BYTES: usize = 32 << 10;

/// A child of a list that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListEntry {
    pub(crate) value: u64,
    /// Its position.
    pub(crate) at: u64,
}

/// An inner list that is being written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingList {
    pub(crate) depth: usize,
    pub(crate) rows: usize,
    /// Number of its entries, and the first and the last one.
    pub(crate) count: usize,
    pub(crate) first: ListEntry,
    pub(crate) last: ListEntry,
    /// Its position.
    pub(crate) at: u64,
}

/// Writes the inner list that `list` describes. From time to time `part` receives the bytes so far and may
/// drain them, so that a list of any length needs little memory.
#[inline(always)]
pub(crate) fn write<E>(
    geometry: &RecordGeometry,
    list: &PendingList,
    entries: impl Iterator<Item = ListEntry> + Clone,
    bytes: &mut Vec<u8>,
    mut part: impl FnMut(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let PendingList {
        count,
        first,
        last,
        at,
        ..
    } = *list;
    let value_len = geometry.levels[list.depth].value_len;
    let link_len = (64 - (at - first.at).leading_zeros() as usize).div_ceil(8).max(1);
    let sparse_len = count as u64 * (link_len + value_len) as u64;
    // Positions stand for values where that is no larger, holes included; from 0 on if possible.
    let places = |from: u64| {
        let places = (last.value - from).checked_add(1)?;
        (places.checked_mul(link_len as u64)? <= sparse_len && places <= u64::from(u32::MAX))
            .then_some((from, places))
    };
    let dense = places(0).or_else(|| places(first.value));
    let kind = INNER | ((link_len - 1) as u8) << 2;
    let flags = if dense.is_some() { DENSE } else { 0 };
    let count = dense.map_or(count as u64, |(_, places)| places) as u32;
    bytes.push(kind | flags);
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&(list.rows as u32).to_le_bytes());
    match dense {
        Some((from, _)) => bytes.extend_from_slice(&from.to_le_bytes()[..value_len]),
        None => {
            for entry in entries.clone() {
                bytes.extend_from_slice(&entry.value.to_le_bytes()[..value_len]);
                if bytes.len() >= PART_BYTES {
                    part(bytes)?;
                }
            }
        }
    }
    let mut next = dense.map_or(0, |(from, _)| from);
    for entry in entries {
        if dense.is_some() {
            let mut hole = (entry.value - next) as usize * link_len;
            while hole > 0 {
                let len = hole.min(PART_BYTES);
                bytes.resize(bytes.len() + len, 0);
                hole -= len;
                if bytes.len() >= PART_BYTES {
                    part(bytes)?;
                }
            }
            next = entry.value.wrapping_add(1);
        }
        bytes.extend_from_slice(&(at - entry.at).to_le_bytes()[..link_len]);
        if bytes.len() >= PART_BYTES {
            part(bytes)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn entries(values: &[u64], step: u64) -> Vec<ListEntry> {
        let entry = |(i, &value)| ListEntry {
            value,
            at: i as u64 * step,
        };
        values.iter().enumerate().map(entry).collect()
    }

    /// Returns the bytes of a list of dimension `depth` with 1,000 rows, and the number of parts in which
    /// they were written.
    fn written(geometry: &RecordGeometry, depth: usize, entries: &[ListEntry], at: u64) -> (Vec<u8>, usize) {
        let list = PendingList {
            depth,
            rows: 1000,
            count: entries.len(),
            first: entries[0],
            last: entries[entries.len() - 1],
            at,
        };
        let (mut whole, mut parts, mut rest) = (vec![], 0, vec![]);
        let Ok(()) = write(geometry, &list, entries.iter().copied(), &mut rest, |part| {
            assert!(part.len() <= 2 * PART_BYTES);
            whole.append(part);
            parts += 1;
            Ok::<_, Infallible>(())
        });
        whole.append(&mut rest);
        let mut at_once = vec![];
        let Ok(()) = write(geometry, &list, entries.iter().copied(), &mut at_once, |_| {
            Ok::<_, Infallible>(())
        });
        assert!(whole == at_once);
        (whole, parts)
    }

    #[test]
    fn links_are_as_long_as_the_subtree_needs() {
        let geometry = RecordGeometry::new(1 << 31, vec![99, 1 << 40]);
        let values: Vec<u64> = (0..16).filter(|&value| value != 7).collect();
        for (step, len) in [
            (10, 1),
            (1000, 2),
            (1 << 19, 3),
            (1 << 29, 5),
            (1 << 40, 6),
            (1 << 59, 8),
        ] {
            let (bytes, _) = written(&geometry, 0, &entries(&values, step), 15 * step);
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
        let geometry = RecordGeometry::new(1 << 31, vec![99, 1 << 40]);
        let (bytes, _) = written(&geometry, 1, &entries(&[7, 1 << 30, 1 << 40], 50), 150);
        assert_eq!((bytes[0] & DENSE, bytes[1]), (0, 3));
        assert_eq!(bytes.len(), 9 + 3 * 8 + 3);
        assert_eq!(bytes[9 + 24..], [150, 100, 50]);
    }

    #[test]
    fn long_lists_come_in_parts() {
        let geometry = RecordGeometry::new(1 << 31, vec![1 << 31, 1 << 60]);
        let (count, step) = (100_000, 1 << 10);
        // Sparse: values and links one by one.
        let values: Vec<u64> = (0..count).map(|i| i << 30).collect();
        let (bytes, parts) = written(&geometry, 1, &entries(&values, step), count * step);
        assert!(parts > 20);
        let (links, values_at) = (9 + values.len() * 8, 9);
        assert_eq!(bytes.len(), links + values.len() * 4);
        for (i, value) in values.iter().enumerate() {
            assert_eq!(bytes[values_at + i * 8..][..8], value.to_le_bytes());
            let distance = ((count - i as u64) * step) as u32;
            assert_eq!(bytes[links + i * 4..][..4], distance.to_le_bytes());
        }
        // Dense, with a hole of several parts.
        let values: Vec<u64> = (0..count).map(|i| i + i / (count / 2) * 90_000).collect();
        let (bytes, parts) = written(&geometry, 0, &entries(&values, step), count * step);
        assert!(parts > 20);
        let mut expected = vec![0; 190_000 * 4];
        for (i, &value) in values.iter().enumerate() {
            let distance = ((count - i as u64) * step) as u32;
            expected[value as usize * 4..][..4].copy_from_slice(&distance.to_le_bytes());
        }
        assert!(bytes[9 + 4..] == expected);
    }
}
