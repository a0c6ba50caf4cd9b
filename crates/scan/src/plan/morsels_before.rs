//! The morsels of a scan whose rows all come before a rank in an order, by zone maps: they are counted
//! instead of read.

use arrow_schema::SortOptions;
use halocline_catalog::OpenTable;
use halocline_columns::CodeSpace;

use super::found_rows::span;
use super::morsels::ScanMorsel;

/// A morsel with the first and the last place in the order that its rows may have.
struct Placed {
    morsel: ScanMorsel,
    first: i128,
    last: i128,
    rows: usize,
}

/// Returns the morsels that may have rows at `rank` or after it in the order of a column, and the number of
/// rows of the others; `None` if zone maps do not say of any morsel that all of its rows come before. O(n log
/// n).
///
/// A morsel is left out if its rows, and all that may come before one of them, are at most `rank` together.
/// So the rows that are left have the ranks that they had, less the number of those that are left out.
pub(super) fn without_those_before(
    morsels: &[ScanMorsel],
    open: &OpenTable,
    column: usize,
    options: SortOptions,
    rank: usize,
) -> Option<(Vec<ScanMorsel>, usize)> {
    let mut left = Vec::new();
    // Nothing is known of the places of other rows.
    let mut before = 0;
    let mut placed = Vec::with_capacity(morsels.len());
    for morsel in morsels {
        match morsel {
            ScanMorsel::Rows { .. } => placed.push(place(morsel, open, column, options)?),
            ScanMorsel::Delta { rows, .. } => {
                before += rows.len();
                left.push(morsel.clone());
            }
            ScanMorsel::Found { .. } | ScanMorsel::Select { .. } => return None,
        }
    }
    let mut firsts: Vec<(i128, usize)> = placed.iter().map(|placed| (placed.first, placed.rows)).collect();
    firsts.sort_unstable();
    placed.sort_by_key(|placed| placed.last);
    let mut firsts = firsts.into_iter().peekable();
    let mut counted = 0;
    let mut placed = placed.into_iter().peekable();
    while let Some(next) = placed.peek() {
        while let Some((_, rows)) = firsts.next_if(|(first, _)| *first <= next.last) {
            before += rows;
        }
        if before > rank {
            break;
        }
        counted += next.rows;
        placed.next();
    }
    left.extend(placed.map(|placed| placed.morsel));
    (counted > 0).then_some((left, counted))
}

/// Reads the zone maps of a morsel; `None` if they do not say where its rows are.
fn place(morsel: &ScanMorsel, open: &OpenTable, column: usize, options: SortOptions) -> Option<Placed> {
    let ScanMorsel::Rows { segment, rows } = morsel else {
        return None;
    };
    let is_only = open.table.segments().len() == 1;
    let segment = &open.table.segments()[*segment];
    let column = segment.column(column);
    let base = base(column.code_space()?, is_only)?;
    let (mut low, mut high) = (u64::MAX, 0);
    for chunk in rows.start / segment.chunk_rows()..rows.end.div_ceil(segment.chunk_rows()) {
        let zone = column.zone(chunk).ok()?;
        (low, high) = (low.min(zone.0), high.max(zone.1));
    }
    let (low, high) = (base + i128::from(low), base + i128::from(high));
    let (first, last) = if options.descending {
        (-high, -low)
    } else {
        (low, high)
    };
    let deleted = segment.deletions().ok()?;
    let deleted = deleted.map_or(0, |deleted| deleted.range_cardinality(span(rows)));
    Some(Placed {
        morsel: morsel.clone(),
        first,
        last,
        rows: rows.len() - deleted as usize,
    })
}

/// Returns the number to add to a code so that sums of several segments are in the order of their values;
/// `None` if there is none. NULL, whose place depends on the order, is left to the scan.
fn base(space: &CodeSpace, is_only_segment: bool) -> Option<i128> {
    if space.null_code().is_some() || space.data_type().is_floating() {
        return None;
    }
    if is_only_segment {
        Some(0)
    } else {
        space.integer_base().map(i128::from)
    }
}
