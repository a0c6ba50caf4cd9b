//! Whether the shortcuts of a new index are to be quartered: decided by a look at some of its rows, as records are written
//! before all lists are known.

use crate::build::record::{SortRecord, code};
use crate::geometry::RecordGeometry;
use crate::packed::shortcut_builder::{REGULAR, place};
use crate::packed::shortcuts::QUARTERED;
use crate::packed::subranges::SubrangeScheme;

/// Lines of places that are looked at.
const SAMPLE: usize = 1024;
/// Most rows of a line whose lists have counts as a rule.
const MOST_ROWS: usize = QUARTERED * 32;

/// How the array of `dims` depths is quartered; `None` if it cannot be, or if too many of its lists are long. `records` are in
/// order, their fields those of `geometry`; `lists` is what is written.
pub(crate) fn quarters<const W: usize>(
    geometry: &RecordGeometry,
    lists: &RecordGeometry,
    records: &[SortRecord<W>],
    dims: usize,
) -> Option<SubrangeScheme> {
    let quarters = SubrangeScheme::possible(lists, dims)?;
    let sizes = geometry.max_codes[..dims].iter().map(|&max| max as usize + 1);
    let lines = sizes.product::<usize>().div_ceil(QUARTERED);
    let first = |line: usize| {
        let before = |record: &SortRecord<W>| {
            let codes = geometry.fields[..dims].iter().map(|&field| code(record, field));
            place(geometry, codes) < line * QUARTERED
        };
        records.partition_point(before)
    };
    let row_bytes = 1 + lists.levels[dims].record_len;
    let looked_at = lines.min(SAMPLE);
    let long = (0..looked_at)
        .map(|i| i * lines / looked_at)
        .map(|line| first(line + 1) - first(line))
        .filter(|&rows| rows > MOST_ROWS || rows * row_bytes > usize::from(u16::MAX))
        .count();
    (long * REGULAR <= looked_at).then_some(quarters)
}
