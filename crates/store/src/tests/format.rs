//! Compares the tables of stores in `docs/format/stores.md` with the code, row by row.

use std::mem::{offset_of, size_of};

use crate::layout::{
    BOUND_EXCLUDED, BOUND_INCLUDED, BOUND_NONE, BRANCH, CHECKPOINT_COPY, CHUNK, CatalogDelta, CatalogHead,
    CatalogSegment, Checkpoint, DECIDED_VERSION, DecidedHead, DecidedOp, FRAME_FENCED, FRAME_LINK,
    FRAME_MORE, FRAME_MOVED, FrameHead, KIND_BRANCHES, KIND_LEAVES, KIND_LOG, KIND_NONE, LEAF, NO_VALUE,
    READER_EPOCH, RECORD_CHUNK, RECORD_CHUNKED, RECORD_DELETED, RECORD_EXPIRES, RECORD_FIRST, RECORD_RANGE,
    RangeBounds, ReaderEpoch, RecordHead, SEGMENT, SegmentEntry, StoreEntry, VERSION,
};
use crate::leaf::{ENTRIES, MAX_PREFIX};

/// Returns the page about stores up to the items of the memcached server, which are compared in its crate.
fn section() -> &'static str {
    let document = include_str!("../../../../docs/format/stores.md");
    let end = document.find("\n## Items of the memcached server\n").unwrap();
    &document[..end]
}

/// Returns the cells of the table under a heading, without the table's head.
fn table(heading: &str) -> Vec<Vec<String>> {
    let lines = section().lines().skip_while(|line| *line != heading).skip(1);
    let rows = lines.take_while(|line| !line.starts_with('#'));
    let rows = rows.filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells = row
            .split('|')
            .map(|cell| cell.trim().trim_matches('`').to_owned());
        cells.skip(1).collect()
    })
    .collect()
}

/// Returns the text about a field of a structure.
fn text_of(heading: &str, field: &str) -> String {
    let row = table(heading).into_iter().find(|row| row[2] == field);
    row.unwrap_or_else(|| panic!("{field} of {heading}"))[3].clone()
}

/// Compares offset, size and name of each field of a structure that has no gaps.
fn compare(heading: &str, size: usize, fields: &[(usize, usize, &str)]) {
    let heading = format!("{heading} ({size} bytes)");
    let rows = table(&heading);
    assert_eq!(rows.len(), fields.len(), "rows of {heading}");
    let mut end = 0;
    for (row, (offset, size, name)) in rows.iter().zip(fields) {
        let expected = [offset.to_string(), size.to_string(), (*name).to_owned()];
        assert_eq!(row[..3], expected, "{heading}");
        assert_eq!(*offset, end, "no gaps in {heading}");
        end = offset + size;
    }
    assert_eq!(end, size, "{heading} is described to its end");
}

/// Lists the fields of a structure with their offsets and sizes.
macro_rules! fields {
    ($heading:literal, $structure:ty: $($field:ident),*) => {{
        let empty: $structure = zerocopy::FromZeros::new_zeroed();
        let fields = [$((offset_of!($structure, $field), size_of_val(&empty.$field), stringify!($field))),*];
        compare($heading, size_of::<$structure>(), &fields);
    }};
}

#[test]
fn structures_are_as_documented() {
    fields!("## Checkpoint", Checkpoint: magic, version, reserved, number, log, log_segment, frame, chain,
        secret, commit, catalog, catalog_len, catalog_sum, checksum);
    fields!("### CatalogSegment", CatalogSegment: next, reserved);
    fields!("### CatalogHead", CatalogHead: segments, stores, next_store);
    fields!("### CatalogDelta", CatalogDelta: segments, stores, dropped, next_store, reserved);
    fields!("### SegmentEntry", SegmentEntry: offset, used, expires, kind, store);
    fields!("### StoreEntry", StoreEntry: id, name_len, levels, root, keys, bytes);
    fields!("## Frame", FrameHead: len, flags, records, number, chain, commit, checksum);
    fields!("## Version", RecordHead: key_len, flags, value_len, checksum, store, commit, prev);
    fields!("### RangeBounds", RangeBounds: from, to, from_len, to_len);
    fields!("### DecidedHead", DecidedHead: version, reserved, secret, commit, ops);
    fields!("### DecidedOp", DecidedOp: store, key_len, value_len);
    fields!("### ReaderEpoch", ReaderEpoch: openings, releases);
}

/// Every table of the section is one that a test here compares.
#[test]
fn no_table_is_left_out() {
    let heads = section().lines().filter(|line| line.starts_with("| offset |"));
    assert_eq!(heads.count(), 14);
}

#[test]
fn pages_are_as_documented() {
    let pairs = |heading: &str| -> Vec<(u64, Option<u64>)> {
        let rows = table(heading).into_iter();
        rows.map(|row| (row[0].parse().unwrap(), row[1].parse().ok()))
            .collect()
    };
    let leaf = pairs(&format!("## Leaf ({} KiB)", LEAF >> 10));
    let (entries, prefix) = (ENTRIES as u64, MAX_PREFIX as u64);
    let sizes = [8, entries, 1, 1, prefix, 8 * entries, 8 * entries];
    let mut at = 0;
    for (row, size) in leaf.iter().zip(sizes) {
        assert_eq!(*row, (at, Some(size)));
        at += size;
    }
    assert_eq!((leaf.len(), at), (sizes.len(), LEAF));
    let branch = pairs(&format!("## Branch (up to {} KiB)", BRANCH >> 10));
    let words = [8, 2, 2, 2, 2].map(Some);
    let offsets = [0, 8, 10, 12, 14];
    let heads: Vec<_> = offsets.into_iter().zip(words).chain([(16, None)]).collect();
    assert_eq!(branch, heads);
}

#[test]
fn constants_are_as_documented() {
    // The numbers before a colon, or before a word.
    let numbers = |heading: &str, field: &str| -> Vec<u32> {
        let text = text_of(heading, field);
        let parts = text.split([';', ',']);
        let words = parts.map(|part| part.trim().split([':', ' ']).next().unwrap().to_owned());
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let flags = [FRAME_MORE, FRAME_MOVED, FRAME_LINK, FRAME_FENCED].map(u32::from);
    assert_eq!(numbers("## Frame (40 bytes)", "flags"), flags);
    let flags = [
        RECORD_DELETED,
        RECORD_EXPIRES,
        RECORD_CHUNKED,
        RECORD_CHUNK,
        RECORD_FIRST,
        RECORD_RANGE,
    ];
    let flags = flags.map(u32::from);
    assert_eq!(numbers("## Version (32 bytes)", "flags"), flags);
    let kinds = [BOUND_NONE, BOUND_INCLUDED, BOUND_EXCLUDED].map(u32::from);
    assert_eq!(numbers("### RangeBounds (6 bytes)", "from"), kinds);
    let kinds = [KIND_NONE, KIND_LOG, KIND_LEAVES, KIND_BRANCHES];
    assert_eq!(numbers("### SegmentEntry (32 bytes)", "kind"), kinds);
    let versions = [
        ("## Checkpoint (104 bytes)", VERSION),
        ("### DecidedHead (32 bytes)", DECIDED_VERSION),
    ];
    for (heading, version) in versions {
        assert_eq!(numbers(heading, "version"), [version], "{heading}");
    }
    assert!(text_of("### DecidedOp (12 bytes)", "value_len").contains(&format!("0x{NO_VALUE:X}")));
    for sentence in [
        format!("nodes of {} KiB are the *segments*", SEGMENT >> 10),
        format!("{} leaves of 1 KiB", SEGMENT / LEAF),
        format!("{} branches of 4 KiB", SEGMENT / BRANCH),
        format!("and {CHECKPOINT_COPY} bytes after it"),
        format!("At offset {READER_EPOCH} of the root"),
        format!("more than {0} KiB is stored in chunks of {0} KiB", CHUNK >> 10),
    ] {
        assert!(section().contains(&sentence), "{sentence}");
    }
}
