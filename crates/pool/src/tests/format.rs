//! Compares the tables of `docs/format/file.md` with the code, row by row.

use std::mem::{offset_of, size_of};

use crate::features::Features;
use crate::layout::{
    BLOCK, DATA_START, DIRECTORY_MAGIC, DirectoryHeader, ExtentEntry, FORMAT_VERSION, FORMAT_WITH_LOGS,
    FORMAT_WITH_SLABS, FORMAT_WITHOUT_LOGS, HUGE, LOCK_OPEN, LOCK_READERS, LOCK_SLAB_PIDS, LOCK_SLAB_PINS,
    LOCK_SLABS, LOCK_SYNC, LOCK_WRITER, LOCK_WRITER_PID, LOG_COUNTS, LOG_VERSION, LimboEntry, LimboHeader,
    LogCount, LogMeta, MAGIC, MAX_META, MAX_NAME, NO_SUM, NODE_SUM, ObjectEntry, RECORD_ALIGN,
    RECORD_OVERHEAD, RESERVE, RecordHeader, SLAB_CLOSED, SLAB_HEAD, SLAB_OPEN, SLAB_OPEN_WORD, SLAB_ROOT,
    SLAB_VERSION, SLAB_WITH_SUMS, SLOT_SIZE, SLOTS, SUMMED_FROM, SUMS_FOLLOW, SUMS_PER_PAGE, SlabHead,
    SlabMeta, Superblock, VACUUMS,
};

const DOCUMENT: &str = include_str!("../../../../docs/format/file.md");

/// Returns the cells of the first table after a heading or line that starts with `start`, without the table's
/// head.
fn table(start: &str) -> Vec<Vec<String>> {
    let section = DOCUMENT.lines().skip_while(|line| !line.starts_with(start));
    let rows = section
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'));
    let cells = |row: &str| {
        row.trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().trim_matches('`').to_owned())
            .collect()
    };
    rows.skip(2).map(cells).collect()
}

macro_rules! fields {
    ($structure:ty: $($field:ident),*) => {{
        let empty: $structure = zerocopy::FromZeros::new_zeroed();
        vec![$((offset_of!($structure, $field), size_of_val(&empty.$field), stringify!($field))),*]
    }};
}

fn compare(heading: &str, size: usize, fields: &[(usize, usize, &str)]) {
    let heading = format!("{heading} ({size} bytes)");
    let rows = table(&heading);
    assert_eq!(rows.len(), fields.len(), "rows of {heading}");
    let mut end = 0;
    for (row, (offset, size, name)) in rows.iter().zip(fields) {
        assert_eq!(
            row[..3],
            [offset.to_string(), size.to_string(), (*name).to_owned()],
            "{heading}"
        );
        assert_eq!(*offset, end, "no gaps in {heading}");
        end = offset + size;
    }
    assert_eq!(end, size, "{heading} is described to its end");
}

#[test]
fn structures_are_as_documented() {
    compare(
        "## Superblock",
        size_of::<Superblock>(),
        &fields!(Superblock: magic, version, reserved_a, uuid, generation, synced_generation, boot_id, file_len,
            directory_offset, directory_len, directory_checksum, incompatible, read_compatible, compatible, checksum),
    );
    compare(
        "### DirectoryHeader",
        size_of::<DirectoryHeader>(),
        &fields!(DirectoryHeader: magic, generation, object_count, extent_count, heap_len, limbo_count, reserved),
    );
    compare(
        "### ObjectEntry",
        size_of::<ObjectEntry>(),
        &fields!(ObjectEntry: name_offset, meta_offset, name_len, meta_len, kind, reserved, first_extent, extent_count),
    );
    compare(
        "### ExtentEntry",
        size_of::<ExtentEntry>(),
        &fields!(ExtentEntry: offset, len, checksum, sums),
    );
    compare(
        "### LimboHeader",
        size_of::<LimboHeader>(),
        &fields!(LimboHeader: synced, reserved),
    );
    compare(
        "### LimboEntry",
        size_of::<LimboEntry>(),
        &fields!(LimboEntry: offset, len, born, freed),
    );
    compare(
        "### RecordHeader",
        size_of::<RecordHeader>(),
        &fields!(RecordHeader: len, salt),
    );
    compare(
        "### LogMeta",
        size_of::<LogMeta>(),
        &fields!(LogMeta: version, reserved),
    );
    compare(
        "### LogCount",
        size_of::<LogCount>(),
        &fields!(LogCount: start, end, records, seen_end, seen_records, reserved),
    );
    compare(
        "### SlabMeta",
        size_of::<SlabMeta>(),
        &fields!(SlabMeta: version, node_size, owner),
    );
    compare(
        "### SlabHead",
        size_of::<SlabHead>(),
        &fields!(SlabHead: boot_id, unsynced, root_sum, state, owner_word, reserved),
    );
}

#[test]
fn constants_are_as_documented() {
    let constants = [
        ("FORMAT_VERSION", u64::from(FORMAT_VERSION)),
        ("FORMAT_WITH_SLABS", u64::from(FORMAT_WITH_SLABS)),
        ("FORMAT_WITH_LOGS", u64::from(FORMAT_WITH_LOGS)),
        ("FORMAT_WITHOUT_LOGS", u64::from(FORMAT_WITHOUT_LOGS)),
        ("SLOT_SIZE", SLOT_SIZE),
        ("SLOTS", SLOTS as u64),
        ("DATA_START", DATA_START),
        ("BLOCK", BLOCK),
        ("HUGE", HUGE),
        ("MAX_NAME", MAX_NAME as u64),
        ("MAX_META", MAX_META as u64),
        ("RESERVE", RESERVE),
        ("SUMMED_FROM", SUMMED_FROM),
        ("SUMS_PER_PAGE", SUMS_PER_PAGE),
        ("SUMS_FOLLOW", SUMS_FOLLOW),
        ("RECORD_ALIGN", RECORD_ALIGN),
        ("RECORD_OVERHEAD", RECORD_OVERHEAD),
        ("VACUUMS", VACUUMS),
        ("LOG_VERSION", u64::from(LOG_VERSION)),
        ("LOG_COUNTS", LOG_COUNTS),
        ("SLAB_VERSION", u64::from(SLAB_VERSION)),
        ("SLAB_WITH_SUMS", u64::from(SLAB_WITH_SUMS)),
        ("NODE_SUM", NODE_SUM),
        ("NO_SUM", u64::from(NO_SUM)),
        ("SLAB_OPEN", SLAB_OPEN),
        ("SLAB_OPEN_WORD", SLAB_OPEN_WORD),
        ("SLAB_CLOSED", SLAB_CLOSED),
        ("SLAB_HEAD", SLAB_HEAD),
        ("SLAB_ROOT", SLAB_ROOT),
        ("LOCK_SLABS", LOCK_SLABS),
        ("LOCK_SLAB_PINS", LOCK_SLAB_PINS),
        ("LOCK_WRITER", LOCK_WRITER),
        ("LOCK_SYNC", LOCK_SYNC),
        ("LOCK_WRITER_PID", LOCK_WRITER_PID),
        ("LOCK_OPEN", LOCK_OPEN),
        ("LOCK_SLAB_PIDS", LOCK_SLAB_PIDS),
        ("LOCK_READERS", LOCK_READERS),
    ];
    let rows = table("# The pool file");
    let found: Vec<(&str, u64)> = rows
        .iter()
        .map(|row| (row[0].as_str(), row[1].parse().unwrap()))
        .collect();
    assert_eq!(found, constants);
    let magic = |heading: &str| table(heading)[0][3].clone();
    assert_eq!(magic("## Superblock").as_bytes(), MAGIC);
    assert_eq!(magic("### DirectoryHeader").as_bytes(), DIRECTORY_MAGIC);
}

#[test]
fn feature_bits_are_as_documented() {
    let rows = table("### Feature words");
    let found: Vec<(&str, u32, &str)> = rows
        .iter()
        .map(|row| (row[0].as_str(), row[1].parse().unwrap(), row[2].as_str()))
        .collect();
    assert_eq!(found, Features::NAMES);
    for (word, bit, name) in Features::NAMES {
        let features = match name {
            "LIMBO_LIST" => Features::LIMBO_LIST,
            "LOG_COUNT" => Features::LOG_COUNT,
            "BLOCK_SUMS" => Features::BLOCK_SUMS,
            "NODE_SUMS" => Features::NODE_SUMS,
            "IN_PLACE" => Features::IN_PLACE,
            other => panic!("{other} has no constant"),
        };
        assert_eq!(features.to_string(), format!("bit {bit} of `{word}`"), "{name}");
        assert!(features.check_writable(std::path::Path::new("known")).is_ok());
    }
}
