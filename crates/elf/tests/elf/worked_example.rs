//! Six tuples by hand, byte for byte, in both layouts.

use halocline_elf::{BuildOptions, CodePredicate, Elf, Layout, Rows, build_vec};
use std::sync::Arc;

/// Dimensions a, b, c, d.
const TUPLES: [[u64; 4]; 6] = [
    [0, 1, 2, 3],
    [0, 1, 0, 1],
    [0, 2, 0, 0],
    [1, 1, 2, 1],
    [1, 1, 2, 1],
    [3, 0, 0, 2],
];

struct Six;

impl Rows for Six {
    fn rows(&self) -> usize {
        TUPLES.len()
    }

    fn dims(&self) -> usize {
        4
    }

    fn max_code(&self, _dim: usize) -> u64 {
        3
    }

    fn read(&self, dim: usize, start: usize, out: &mut [u64]) {
        for (out, tuple) in out.iter_mut().zip(&TUPLES[start..]) {
            *out = tuple[dim];
        }
    }
}

fn build(layout: Layout) -> Vec<u8> {
    build_vec(
        &Six,
        &BuildOptions {
            layout,
            threads: 1,
            ..BuildOptions::default()
        },
    )
    .unwrap()
}

/// Offset of the lists: header of 64 bytes and 4 dimensions of 552, rounded up to 64.
const NODES: usize = 2304;

#[test]
fn published_bytes() {
    const MONO: u64 = 1 << 63;
    const LAST: u32 = 1 << 31;
    let mut expected: Vec<u8> = vec![];
    let links = |expected: &mut Vec<u8>, links: &[u64]| {
        links.iter().for_each(|link| expected.extend(link.to_le_bytes()))
    };
    let values = |expected: &mut Vec<u8>, values: &[u32]| {
        values
            .iter()
            .for_each(|value| expected.extend(value.to_le_bytes()))
    };
    let entry = |expected: &mut Vec<u8>, value: u32, link: u64| {
        expected.extend(value.to_le_bytes());
        expected.extend(link.to_le_bytes());
    };
    let at = |offset: u64| NODES as u64 + offset;
    // a: 0 -> list of b, 1 -> MonoList (two equal tuples), 3 -> MonoList.
    links(&mut expected, &[at(32), at(108) | MONO, 0, at(128) | MONO]);
    // b under a = 0: 1 -> list of c, 2 -> MonoList.
    entry(&mut expected, 1, at(56));
    entry(&mut expected, 2 | LAST, at(96) | MONO);
    // c under 0, 1: 0 -> MonoList, 2 -> MonoList.
    entry(&mut expected, 0, at(80) | MONO);
    entry(&mut expected, 2 | LAST, at(88) | MONO);
    values(&mut expected, &[1, 1 | LAST]);
    values(&mut expected, &[3, LAST]);
    values(&mut expected, &[0, 0, 2 | LAST]);
    values(&mut expected, &[1, 2, 1, 3, 4 | LAST]);
    values(&mut expected, &[0, 0, 2, 5 | LAST]);
    let bytes = build(Layout::Published);
    assert_eq!(bytes[NODES..NODES + 96], expected[..96]);
    assert_eq!(bytes[NODES..NODES + expected.len()], expected);
    assert!(bytes[NODES + expected.len()..].iter().all(|&byte| byte == 0));
}

#[test]
fn packed_bytes() {
    // Six rows are one leaf list: count, the values of a, then b, c and d (2 bits each) above the TID (3
    // bits).
    let mut expected = vec![6, 0, 0, 0, 1, 1, 3];
    for tid in [1, 0, 2, 3, 4, 5] {
        let [_, b, c, d] = TUPLES[tid];
        expected.extend(((b << 7 | c << 5 | d << 3 | tid as u64) as u16).to_le_bytes());
    }
    let bytes = build(Layout::Packed);
    assert_eq!(bytes[NODES..NODES + expected.len()], expected);
    assert!(bytes[NODES + expected.len()..].iter().all(|&byte| byte == 0));
}

#[test]
fn answers() {
    for layout in [Layout::Packed, Layout::Published] {
        let elf = Elf::open(Arc::<[u8]>::from(build(layout))).unwrap();
        elf.check().unwrap();
        assert_eq!(
            (elf.layout(), elf.rows(), elf.dims(), elf.max_code(2)),
            (layout, 6, 4, 3)
        );
        assert_eq!(elf.exact(&[1, 1, 2, 1]).unwrap().collect::<Vec<_>>(), [3, 4]);
        assert_eq!(elf.exact(&[0, 2, 0, 0]).unwrap().first(), Some(2));
        assert!(elf.exact(&[2, 2, 0, 0]).unwrap().is_empty());
        assert!(elf.exact(&[0, 1, 1, 3]).unwrap().is_empty());
        assert!(elf.exact(&[0, 1, 1]).is_err());
        let select = |predicates: [CodePredicate; 4]| {
            let mut tids = elf.select(&predicates).unwrap().tids().unwrap();
            tids.sort_unstable();
            tids
        };
        use CodePredicate::{Any, Nothing, Range, Set};
        let equal = CodePredicate::equal;
        assert_eq!(select([Any, Any, Any, Any]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(select([Any, equal(1), Any, equal(1)]), [1, 3, 4]);
        assert_eq!(select([Range { lo: 1, hi: 3 }, Any, Any, Any]), [3, 4, 5]);
        assert_eq!(select([Any, Set(vec![0, 2]), equal(0), Any]), [2, 5]);
        assert_eq!(select([Any, Any, Nothing, Any]), [0_u32; 0]);
    }
}
