//! Dynamic filters answered by an index: a small build side of a join, or a threshold that few rows reach,
//! becomes a selection.

use std::sync::{Arc, OnceLock};

use halocline_columns::CodePredicate;
use halocline_elf::TableIndex;
use roaring::RoaringBitmap;

use crate::plan::cost;
use crate::plan::spec::ScanSpec;

/// The rows that an index locates for the filters of one version.
#[derive(Debug)]
pub(super) struct LocatedRows {
    pub(super) version: u64,
    /// The rows of each segment that are not deleted; `None` where a scan is cheaper.
    segments: Vec<OnceLock<Option<RoaringBitmap>>>,
}

impl LocatedRows {
    pub(super) fn new(version: u64, segments: usize) -> Self {
        Self {
            version,
            segments: (0..segments).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Returns the rows of a segment among which are all that match these predicates; `None` if a scan is
    /// estimated to find them faster.
    pub(super) fn of_segment(
        &self,
        spec: &ScanSpec,
        number: usize,
        kernels: &[(usize, CodePredicate)],
    ) -> Option<&RoaringBitmap> {
        self.segments[number]
            .get_or_init(|| locate(spec, number, kernels))
            .as_ref()
    }
}

/// Locates rows through the cheapest index. An index that cannot be read is none: the scan finds the rows.
fn locate(spec: &ScanSpec, number: usize, kernels: &[(usize, CodePredicate)]) -> Option<RoaringBitmap> {
    let segment = &spec.open.table.segments()[number];
    let mut best: Option<(Arc<TableIndex>, Vec<CodePredicate>)> = None;
    let mut least = cost::scan_rows(segment, kernels);
    for index in spec.open.indexes.iter().filter_map(|index| index.now()) {
        let Some(predicates) = predicates(&index, number, kernels) else {
            continue;
        };
        let elf = index.segments()[number].elf();
        let Ok(estimate) = elf.estimate(&predicates) else {
            continue;
        };
        let selection = cost::segment_selection(estimate, elf.is_clustered(), elf.size());
        let columns = kernels.iter().map(|(column, _)| *column);
        let fetched = cost::fetch_located(segment, columns, selection.rows, selection.adjacent_share());
        let cost = selection.cost(false) + fetched;
        if cost < least {
            least = cost;
            best = Some((index, predicates));
        }
    }
    let (index, predicates) = best?;
    let selection = index.segments()[number].elf().select(&predicates).ok()?;
    let mut rows = selection.bitmap().ok()?;
    if let Some(deleted) = segment.deletions().ok()? {
        rows -= deleted;
    }
    Some(rows)
}

/// Returns the predicates on the dimensions of an index; `None` if no dimension has one.
fn predicates(
    index: &TableIndex,
    number: usize,
    kernels: &[(usize, CodePredicate)],
) -> Option<Vec<CodePredicate>> {
    index.segments().get(number)?;
    let mut predicates = vec![CodePredicate::Any; index.columns().len()];
    let mut any = false;
    for (column, predicate) in kernels {
        if let Some(dimension) = index.columns().iter().position(|other| other == column) {
            predicates[dimension] = predicates[dimension].and(predicate);
            any = true;
        }
    }
    any.then_some(predicates)
}
