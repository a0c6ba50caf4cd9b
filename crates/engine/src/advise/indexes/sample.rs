//! Samples of the rows of a table, and the conditions of queries on them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use halocline_catalog::OpenTable;
use halocline_columns::{CodePredicate, CodeSpace, Dictionary, RowId, Segment};
use halocline_elf::SampledColumn;
use halocline_scan::plan::{ScanPredicate, column_share};
use halocline_sql::EngineError;

use super::recorder::QueryScan;

/// Rows of a table that are sampled, at least.
const ROWS: usize = 32_768;
/// Most segments that are sampled; the others are assumed to be like them.
const SEGMENTS: usize = 16;
/// Least rows of a segment that are sampled.
const SEGMENT_ROWS: usize = 1_024;
/// Passing rows of the sample from which on their share is better than an estimate by codes.
const MIN_PASSING_ROWS: usize = 8;

/// A column of a sample.
pub(super) struct ColumnSample {
    pub(super) sampled: SampledColumn,
    /// The codes of the sample, if the column has none of its own.
    own_space: Option<CodeSpace>,
    /// The distinct codes of the rows, ascending.
    codes: Vec<u64>,
    distinct: u64,
    /// Predicted bytes of the dictionary that an index makes for the column.
    pub(super) dictionary_bytes: f64,
}

impl ColumnSample {
    /// Returns the estimated number of distinct values.
    pub(super) fn distinct(&self) -> u64 {
        self.distinct
    }
}

/// Sampled rows of a segment.
pub(super) struct SegmentSample {
    /// Position of the segment.
    pub(super) number: usize,
    /// Rows of the segment.
    pub(super) rows: u64,
    /// The columns that an index can have, by position.
    pub(super) columns: BTreeMap<usize, ColumnSample>,
}

/// Sampled rows of a table.
pub(super) struct TableSample {
    pub(super) segments: Vec<SegmentSample>,
    /// Rows of the table, those of the log included, for each row of a sampled segment.
    pub(super) scale: f64,
}

/// The conditions of a query on a column, in the sample of a segment.
pub(super) struct ColumnTest {
    /// Positions of the conditions that an index answers.
    pub(super) conditions: Vec<usize>,
    /// For each distinct code of the sample, whether it satisfies them.
    pub(super) passes: Vec<bool>,
    /// Estimated share of the rows that satisfy them.
    pub(super) share: f64,
}

impl TableSample {
    /// Samples these columns. `None` if `cancel` was set.
    ///
    /// # Errors
    /// The columns cannot be read.
    pub(super) fn new(
        open: &OpenTable,
        columns: &BTreeSet<usize>,
        cancel: &AtomicBool,
    ) -> Result<Option<Self>, EngineError> {
        let mut largest: Vec<(usize, &Segment)> = open.table.segments().iter().enumerate().collect();
        largest.retain(|(_, segment)| segment.rows() > 0);
        largest.sort_by_key(|(number, segment)| (std::cmp::Reverse(segment.rows()), *number));
        largest.truncate(SEGMENTS);
        let of_sampled: usize = largest.iter().map(|(_, segment)| segment.rows()).sum();
        let can_be_indexed = |column: &usize| {
            open.table.segments().iter().all(|segment| {
                let column = segment.column(*column);
                column.code_space().is_some() || column.is_rankable() && is_text(column.data_type())
            })
        };
        let columns: Vec<usize> = columns.iter().copied().filter(can_be_indexed).collect();
        let mut segments = Vec::with_capacity(largest.len());
        for (number, segment) in largest {
            let share = segment.rows() as f64 / of_sampled as f64;
            let count = ((ROWS as f64 * share) as usize).max(SEGMENT_ROWS);
            let rows = random_rows(segment.rows(), count);
            let mut sampled = BTreeMap::new();
            for column in &columns {
                if cancel.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                sampled.insert(*column, column_sample(segment, *column, &rows)?);
            }
            segments.push(SegmentSample {
                number,
                rows: segment.rows() as u64,
                columns: sampled,
            });
        }
        let in_log = open.delta.as_ref().map_or(0, |delta| delta.live_rows());
        Ok(Some(Self {
            segments,
            scale: (open.table.rows() as f64 + in_log as f64) / of_sampled.max(1) as f64,
        }))
    }

    /// Returns the tests of a query on each column that an index can answer, per sampled segment.
    pub(super) fn tests(&self, scan: &QueryScan) -> Vec<BTreeMap<usize, ColumnTest>> {
        self.segments.iter().map(|segment| segment.tests(scan)).collect()
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// Returns `count` random rows of `rows`, or all, ascending; always the same.
fn random_rows(rows: usize, count: usize) -> Vec<RowId> {
    if rows <= count {
        return (0..rows as RowId).collect();
    }
    let mut chosen = BTreeSet::new();
    let mut state = 0_u64;
    while chosen.len() < count {
        // SplitMix64 (Steele, Lea and Flood, 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        chosen.insert(((u128::from(mixed) * rows as u128) >> 64) as RowId);
    }
    chosen.into_iter().collect()
}

fn column_sample(segment: &Segment, number: usize, rows: &[RowId]) -> Result<ColumnSample, EngineError> {
    let column = segment.column(number);
    let values = column.gather(rows)?;
    let mut codes = Vec::with_capacity(rows.len());
    let (max_code, distinct, own_space, dictionary_bytes);
    match column.code_space() {
        Some(space) => {
            space.encode(values.as_ref(), &mut codes)?;
            max_code = space.max_code();
            distinct = space.distinct_estimate() + u64::from(space.has_null());
            (own_space, dictionary_bytes) = (None, 0.0);
        }
        None => {
            let space = space_of(column.data_type(), &values)?;
            space.encode(values.as_ref(), &mut codes)?;
            let seen = space.max_code() as f64 + 1.0;
            let all = column_distinct(segment, number).unwrap_or(seen).max(seen);
            // Codes are ranks among all strings, of which the sample has some.
            let spread = (all / seen).max(1.0);
            codes
                .iter_mut()
                .for_each(|code| *code = (*code as f64 * spread) as u64);
            (max_code, distinct) = (all as u64 - 1, all as u64);
            dictionary_bytes = all * mean_length(&values) + all * 4.0;
            own_space = Some(space);
        }
    }
    let mut distinct_codes = codes.clone();
    distinct_codes.sort_unstable();
    distinct_codes.dedup();
    Ok(ColumnSample {
        sampled: SampledColumn::new(max_code, distinct, &codes),
        own_space,
        distinct,
        codes: distinct_codes,
        dictionary_bytes,
    })
}

/// Returns the codes that a dictionary of these strings gives.
fn space_of(data_type: &DataType, values: &ArrayRef) -> Result<CodeSpace, EngineError> {
    let text = arrow_cast::cast(values, &DataType::Utf8).map_err(datafusion::error::DataFusionError::from)?;
    let strings: BTreeSet<&[u8]> = text
        .as_string::<i32>()
        .iter()
        .flatten()
        .map(str::as_bytes)
        .collect();
    let dictionary = Dictionary::from_vec(Dictionary::encode(strings))?;
    Ok(CodeSpace::from_dictionary(
        data_type,
        dictionary,
        values.null_count() > 0,
    )?)
}

/// Returns the estimated number of distinct strings of a column without codes.
fn column_distinct(segment: &Segment, number: usize) -> Option<f64> {
    let sketches = segment.sketches().ok().flatten()?;
    Some(sketches.get(number)?.estimate() as f64)
}

fn mean_length(values: &ArrayRef) -> f64 {
    let Ok(text) = arrow_cast::cast(values, &DataType::Utf8) else {
        return 0.0;
    };
    let strings: BTreeSet<&str> = text.as_string::<i32>().iter().flatten().collect();
    strings.iter().map(|string| string.len()).sum::<usize>() as f64 / strings.len().max(1) as f64
}

impl SegmentSample {
    fn tests(&self, scan: &QueryScan) -> BTreeMap<usize, ColumnTest> {
        let mut tests: BTreeMap<usize, ColumnTest> = BTreeMap::new();
        for (at, (condition, _)) in scan.filters.conditions.iter().enumerate() {
            let column = condition.column;
            let Some(sample) = self.columns.get(&column) else {
                continue;
            };
            let Some(predicate) = self.predicate(scan, at, sample) else {
                continue;
            };
            let test = tests.entry(column).or_insert_with(|| ColumnTest {
                conditions: vec![],
                passes: vec![true; sample.codes.len()],
                share: 1.0,
            });
            test.conditions.push(at);
            for (rank, (code, pass)) in sample.codes.iter().zip(&mut test.passes).enumerate() {
                // The codes of a sampled dictionary are the ranks.
                let code = if sample.own_space.is_some() {
                    rank as u64
                } else {
                    *code
                };
                *pass &= predicate.matches(code);
            }
        }
        for (column, test) in &mut tests {
            let ranks = self.columns[column].sampled.rank_of_rows();
            let passing = ranks.iter().filter(|rank| test.passes[**rank as usize]).count();
            let own = passing as f64 / ranks.len().max(1) as f64;
            test.share = if passing >= MIN_PASSING_ROWS || ranks.len() as u64 == self.rows {
                own
            } else {
                column_share(&scan.open, &scan.filters, &test.conditions, self.number, *column).unwrap_or(own)
            };
        }
        tests
    }

    /// Returns a condition as a predicate on the codes that the sample has of its column; `None` if an index
    /// would not answer it.
    fn predicate(&self, scan: &QueryScan, condition: usize, sample: &ColumnSample) -> Option<CodePredicate> {
        let (condition, translation) = &scan.filters.conditions[condition];
        match &sample.own_space {
            Some(space) => {
                let field = scan.open.table.schema().field(condition.column);
                condition.translate(field, space)
            }
            None => match translation.scan.as_ref()?.get(self.number)? {
                ScanPredicate::Codes(codes) => Some(codes.clone()),
                ScanPredicate::Strings(_) => None,
            },
        }
    }
}
