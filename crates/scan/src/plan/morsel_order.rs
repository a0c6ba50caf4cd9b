//! The order of morsels for a scan whose first rows in some order are wanted: those whose zone maps promise
//! them come first, so that a threshold is found early and excludes the others.

use arrow_array::{Array, ArrayRef};
use arrow_schema::SortOptions;
use arrow_select::concat::concat;
use datafusion::arrow::compute::sort_to_indices;
use halocline_catalog::OpenTable;

use super::morsels::ScanMorsel;

/// Returns the morsels with the most promising ones first. Rows of the delta, which have no zone maps, come
/// before them. The order stays if the zone maps of a segment cannot be read or say nothing.
pub(super) fn promising_first(
    morsels: &[ScanMorsel],
    open: &OpenTable,
    column: usize,
    options: SortOptions,
) -> Vec<ScanMorsel> {
    let (rows, others): (Vec<_>, Vec<_>) = morsels
        .iter()
        .cloned()
        .partition(|morsel| matches!(morsel, ScanMorsel::Rows { .. }));
    let Some(order) = order(&rows, open, column, options) else {
        return morsels.to_vec();
    };
    let rows = order.into_iter().map(|at| rows[at as usize].clone());
    others.into_iter().chain(rows).collect()
}

/// Returns the positions of morsels of rows in the order of their best values.
fn order(rows: &[ScanMorsel], open: &OpenTable, column: usize, options: SortOptions) -> Option<Vec<u32>> {
    let best = rows.iter().map(|morsel| best(morsel, open, column, options));
    let best: Vec<ArrayRef> = best.collect::<Option<_>>()?;
    let best: Vec<&dyn Array> = best.iter().map(AsRef::as_ref).collect();
    let best = concat(&best).ok()?;
    // Equal ones stay in the order of the table.
    let ranks = sort_to_indices(&best, Some(options), None).ok()?;
    let mut order: Vec<(usize, u32)> = Vec::with_capacity(ranks.len());
    let mut group = 0;
    for (at, position) in ranks.values().iter().enumerate() {
        let before = at.checked_sub(1).map(|before| ranks.value(before) as usize);
        let same = before.is_some_and(|before| {
            best.slice(before, 1).to_data() == best.slice(*position as usize, 1).to_data()
        });
        group += usize::from(!same);
        order.push((group, *position));
    }
    order.sort_unstable();
    Some(order.into_iter().map(|(_, position)| position).collect())
}

/// Returns the first value in the order that the zone maps of a morsel allow, as an array of one.
fn best(morsel: &ScanMorsel, open: &OpenTable, column: usize, options: SortOptions) -> Option<ArrayRef> {
    let ScanMorsel::Rows { segment, rows } = morsel else {
        return None;
    };
    let segment = &open.table.segments()[*segment];
    let column = segment.column(column);
    let space = column.code_space()?;
    let chunks = rows.start / segment.chunk_rows()..rows.end.div_ceil(segment.chunk_rows());
    let zones = chunks.map(|chunk| column.zone(chunk));
    let zones: Vec<(u64, u64)> = zones.collect::<Result<_, _>>().ok()?;
    let low = zones.iter().map(|(low, _)| *low).min()?;
    let high = zones.iter().map(|(_, high)| *high).max()?;
    let code = match (space.null_code(), options.descending) {
        (Some(null), _) if low == null && (options.nulls_first || high == null) => null,
        (_, true) => high,
        // The zone map of a chunk with NULLs does not say its smallest value.
        (Some(null), false) => low.max(null + 1),
        (None, false) => low,
    };
    space.decode(&[code]).ok()
}
