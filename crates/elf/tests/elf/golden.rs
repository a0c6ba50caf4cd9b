//! Indexes that earlier builds of this program wrote are read for ever: one of each version of the header.
//! The files are never made again; a new version gets a file of its own.

use halocline_elf::{CodePredicate, Elf, Layout, Matches};
use std::sync::Arc;

const ROWS: u64 = 300;

/// The rows of all files; those of `clustered-v2.elf` were sorted, some of them are equal.
fn rows() -> Vec<[u64; 3]> {
    (0..ROWS)
        .map(|row| [row % 5, row * 7 % 13, row * row % 101 / 50 * 1_000_000])
        .collect()
}

fn answers(elf: &Elf<Arc<[u8]>>, rows: &[[u64; 3]]) {
    elf.check().unwrap();
    assert_eq!((elf.rows(), elf.dims(), elf.layout()), (ROWS, 3, Layout::Packed));
    let matching = |test: &dyn Fn(&[u64; 3]) -> bool| -> Vec<u32> {
        (0..ROWS as u32)
            .filter(|&row| test(&rows[row as usize]))
            .collect()
    };
    let mut batch = Matches::new();
    elf.exact_batch(rows.as_flattened(), &mut batch).unwrap();
    for (i, row) in rows.iter().enumerate() {
        let equal = matching(&|other| other == row);
        assert_eq!(elf.exact(row).unwrap().collect::<Vec<_>>(), equal);
        assert_eq!(batch.get(i), equal);
    }
    assert!(elf.exact(&[4, 12, 7]).unwrap().is_empty());
    for lo in 0..5 {
        let predicates = [
            CodePredicate::Range { lo, hi: lo + 1 },
            CodePredicate::Any,
            CodePredicate::Range {
                lo: 1_000_000,
                hi: 2_000_000,
            },
        ];
        let expected = matching(&|row| (lo..=lo + 1).contains(&row[0]) && row[2] >= 1_000_000);
        let selection = elf.select(&predicates).unwrap();
        assert_eq!(selection.count().unwrap(), expected.len() as u64);
        let mut found = vec![];
        selection.ranges(|range| found.extend(range)).unwrap();
        assert_eq!(found, expected);
    }
}

/// The rows of `buckets-v4.elf`: 100 for each of the first codes, and too many second ones for shortcuts.
fn many() -> Vec<[u64; 3]> {
    (0..ROWS)
        .map(|row| [row % 3, row * 7 % 61, row * row % 101 / 50 * 1_000_000])
        .collect()
}

fn open(bytes: &[u8]) -> Elf<Arc<[u8]>> {
    Elf::open(Arc::from(bytes)).unwrap()
}

#[test]
fn version_1_has_tids() {
    let elf = open(include_bytes!("../golden/packed-v1.elf"));
    assert!(!elf.is_clustered());
    answers(&elf, &rows());
}

#[test]
fn version_2_is_clustered() {
    let elf = open(include_bytes!("../golden/clustered-v2.elf"));
    assert!(elf.is_clustered());
    let mut sorted = rows();
    sorted.sort_unstable();
    answers(&elf, &sorted);
}

#[test]
fn version_3_has_shortcuts_of_form_near() {
    let elf = open(include_bytes!("../golden/near-v3.elf"));
    assert!(!elf.is_clustered());
    answers(&elf, &rows());
}

#[test]
fn version_4_has_buckets() {
    let elf = open(include_bytes!("../golden/buckets-v4.elf"));
    assert!(!elf.is_clustered());
    assert_eq!(
        (elf.max_code(0), elf.max_code(1), elf.max_code(2)),
        (2, 60, 2_000_000)
    );
    answers(&elf, &many());
}

#[test]
fn version_5_has_quarters() {
    let bytes = include_bytes!("../golden/quarters-v5.elf");
    assert_eq!(bytes[8], 5);
    let elf = open(bytes);
    assert!(!elf.is_clustered());
    answers(&elf, &many());
}
