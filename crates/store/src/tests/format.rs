//! Compares tables of the section "Stores" of `docs/format.md` with the code.

use std::mem::{offset_of, size_of};

use crate::layout::{Checkpoint, FrameHead, RecordHead};

/// Returns offset and field of each row of the table under a heading.
fn table(heading: &str) -> Vec<(usize, String)> {
    let document = include_str!("../../../../docs/format.md");
    let lines = document.lines().skip_while(|line| *line != heading).skip(1);
    let rows = lines.take_while(|line| !line.starts_with('#'));
    let cells = rows.filter_map(|row| {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let offset = cells.next()?.parse().ok()?;
        Some((offset, cells.nth(1)?.trim_matches('`').to_owned()))
    });
    cells.collect()
}

/// Lists fields of a structure with their offsets.
macro_rules! fields {
    ($structure:ty: $($field:ident),*) => {
        vec![$((offset_of!($structure, $field), stringify!($field).to_owned())),*]
    };
}

#[test]
fn tables_of_the_document_are_those_of_the_code() {
    let checkpoint = fields!(Checkpoint: magic, version, reserved, number, log, log_segment, frame, chain,
        secret, commit, catalog, catalog_len, catalog_sum, checksum);
    let heading = format!("### Checkpoint ({} bytes)", size_of::<Checkpoint>());
    assert_eq!(table(&heading), checkpoint);
    let frame = fields!(FrameHead: len, flags, records, number, chain, commit, checksum);
    let heading = format!("### Frame ({} bytes)", size_of::<FrameHead>());
    assert_eq!(table(&heading), frame);
    let record = fields!(RecordHead: key_len, flags, value_len, checksum, store, commit, prev);
    let heading = format!("### Version ({} bytes)", size_of::<RecordHead>());
    assert_eq!(table(&heading), record);
}
