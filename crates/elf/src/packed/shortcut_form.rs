//! Choice of the form of a new index's shortcuts: records are written before all lists are known, so a sample
//! of the rows decides whether the shortcuts become quartered.

use crate::build::record::{SortRecord, code};
use crate::geometry::RecordGeometry;
use crate::packed::shortcut_builder::{REGULAR, place};
use crate::packed::shortcuts::QUARTERED;
use crate::packed::subranges::SubrangeScheme;

/// Lines of slots that are sampled.
const SAMPLED_LINES: usize = 1024;
/// Maximum number of rows of a line whose lists usually have counts.
const MAX_LINE_ROWS: usize = QUARTERED * 32;

/// Returns the subranges of the array of `dims` depths; `None` if it cannot be quartered, or if too many of
/// its lists are long. `records` are sorted and in geometry `geometry`; the lists will be in geometry
/// `lists`.
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
    let looked_at = lines.min(SAMPLED_LINES);
    let long = (0..looked_at)
        .map(|i| i * lines / looked_at)
        .map(|line| first(line + 1) - first(line))
        .filter(|&rows| rows > MAX_LINE_ROWS || rows * row_bytes > usize::from(u16::MAX))
        .count();
    (long * REGULAR <= looked_at).then_some(quarters)
}
