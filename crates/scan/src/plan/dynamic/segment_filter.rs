//! A dynamic filter translated to the codes of one segment.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use halocline_catalog::filter::{PossibleCodes, possible_codes};
use halocline_columns::{Bitset, CodePredicate, CodeSpace, Segment};

use super::row_check::on_positions;
use crate::plan::spec::ScanSpec;

/// Number of codes that are evaluated at once.
const CODES_AT_ONCE: u64 = 8192;
/// Number of codes on which a predicate is evaluated in any segment.
const FEW_CODES: u64 = 4096;
/// Codes are evaluated instead of rows if there is at most one for this many rows of the segment.
const ROWS_PER_CODE: u64 = 4;
/// Largest code that a set of codes may have (2 MiB of bits).
const MAX_CODE: u64 = (1 << 24) - 1;
/// Largest code that a set of a join's keys may have, for each row of the segment.
const CODES_PER_ROW: u64 = 8;
/// Largest code of a column whose rows can be looked up in a set of codes.
const LOOKUP_CODES: u64 = u32::MAX as u64 - 1;

/// The parts of a dynamic filter for one segment, all of which must hold.
#[derive(Debug, Default)]
pub(super) struct SegmentFilter {
    /// True if no row can pass.
    pub(super) excludes_all: bool,
    /// Predicates for the scan kernels, with columns of the table.
    pub(super) kernels: Vec<(usize, CodePredicate)>,
    /// The codes of columns that pass: those of a join's keys, or found by evaluating the filter on each
    /// code.
    pub(super) codes: Vec<(usize, Bitset)>,
    /// True if the filter must be evaluated on rows for the rest.
    pub(super) by_rows: bool,
}

/// The result of evaluating a predicate on codes.
enum Evaluated {
    /// These pass.
    Some(Bitset),
    /// Nearly all pass, so that a lookup is not worth it.
    Nearly,
    /// There are too many codes, or NULL passes, which a set of codes does not say.
    ByRows,
}

impl SegmentFilter {
    /// Translates a predicate that refers to these columns of the scan's output. `keys` has columns that a
    /// join compares with its keys, and the values of these.
    pub(super) fn new(
        predicate: &Arc<dyn PhysicalExpr>,
        outputs: &[usize],
        keys: &[(usize, Vec<ArrayRef>)],
        spec: &ScanSpec,
        segment: &Segment,
    ) -> Self {
        let mut filter = Self::default();
        if let Some(literal) = predicate.downcast_ref::<Literal>() {
            filter.excludes_all = *literal.value() != ScalarValue::Boolean(Some(true));
            return filter;
        }
        for &output in outputs {
            let column = spec.projection[output];
            let Some(space) = segment.column(column).code_space() else {
                filter.by_rows = true;
                continue;
            };
            let field = spec.schema.field(output);
            let possible = possible_codes(predicate, output, field, space);
            let values = keys
                .iter()
                .find(|(of, _)| *of == output)
                .map(|(_, values)| &values[..]);
            let exact = possible.are_exact;
            // Bounds that say all about the predicate say little about the keys.
            let is_wide = match possible.codes {
                CodePredicate::Any => true,
                CodePredicate::Range { lo, hi } => lo < hi,
                CodePredicate::Set(_) | CodePredicate::Nothing => false,
            };
            let added = (!exact || is_wide) && filter.add_keys(values, segment, (column, space));
            if added && !exact {
                // Of a key of several columns, each is tested, and then all together.
                filter.by_rows |= outputs.len() > 1;
            } else if !exact {
                filter.add_inexact(predicate, outputs, field, segment, (column, space), &possible);
            }
            match possible.codes {
                CodePredicate::Any => {}
                CodePredicate::Nothing => filter.excludes_all = true,
                codes => filter.kernels.push((column, codes)),
            }
        }
        filter
    }

    /// Adds the codes of a join's keys in a column; returns false if they are not known, or have no codes.
    fn add_keys(
        &mut self,
        values: Option<&[ArrayRef]>,
        segment: &Segment,
        (column, space): (usize, &CodeSpace),
    ) -> bool {
        let Some(passing) = values.and_then(|values| codes_of_keys(values, segment.rows(), space)) else {
            return false;
        };
        match u64::from(passing.count()) {
            0 => self.excludes_all = true,
            // Nearly all pass.
            count if count > space.distinct_estimate() / 8 * 7 => {}
            _ => self.codes.push((column, passing)),
        }
        true
    }

    /// Decides how the part of a predicate is evaluated that its possible codes do not say.
    fn add_inexact(
        &mut self,
        predicate: &Arc<dyn PhysicalExpr>,
        outputs: &[usize],
        field: &Field,
        segment: &Segment,
        (column, space): (usize, &CodeSpace),
        possible: &PossibleCodes,
    ) {
        if outputs.len() > 1 {
            self.by_rows = true;
            return;
        }
        match evaluate(
            predicate,
            outputs,
            field,
            segment.rows() as u64,
            space,
            &possible.codes,
        ) {
            Evaluated::Some(codes) if codes.count() == 0 => self.excludes_all = true,
            Evaluated::Some(codes) => self.codes.push((column, codes)),
            Evaluated::Nearly => {}
            Evaluated::ByRows => self.by_rows = true,
        }
    }
}

/// Returns the codes of a join's keys; `None` if there are too many codes, or the keys have none.
fn codes_of_keys(values: &[ArrayRef], rows: usize, space: &CodeSpace) -> Option<Bitset> {
    let most = MAX_CODE
        .max((rows as u64).saturating_mul(CODES_PER_ROW))
        .min(LOOKUP_CODES);
    if space.max_code() > most {
        return None;
    }
    let mut passing = Bitset::new(space.max_code() as u32 + 1);
    let mut codes = Vec::new();
    for values in values {
        codes.clear();
        space.encode_present(values, &mut codes).ok()?;
        for code in &codes {
            passing.set(*code as u32);
        }
    }
    Some(passing)
}

/// Evaluates a predicate on one column on the possible codes.
fn evaluate(
    predicate: &Arc<dyn PhysicalExpr>,
    outputs: &[usize],
    field: &Field,
    rows: u64,
    space: &CodeSpace,
    possible: &CodePredicate,
) -> Evaluated {
    let Some((first, last)) = possible.bounds() else {
        return Evaluated::Nearly;
    };
    let last = last.min(space.max_code());
    let count = last.saturating_sub(first).saturating_add(1);
    if last > MAX_CODE
        || space.max_code() > LOOKUP_CODES
        || count > FEW_CODES.max(rows / ROWS_PER_CODE)
        || field.data_type() != space.data_type()
    {
        return Evaluated::ByRows;
    }
    let Ok(predicate) = on_positions(predicate, outputs) else {
        return Evaluated::ByRows;
    };
    let schema = Arc::new(Schema::new(vec![field.clone().with_nullable(true)]));
    let mut passing = Bitset::new(last as u32 + 1);
    let mut start = first;
    while start <= last {
        let codes: Vec<u64> = (start..=last.min(start + CODES_AT_ONCE - 1)).collect();
        start += CODES_AT_ONCE;
        let values = space.decode(&codes).ok();
        let batch = values.and_then(|values| RecordBatch::try_new(Arc::clone(&schema), vec![values]).ok());
        let answer = batch.and_then(|batch| predicate.evaluate(&batch).ok()?.into_array(codes.len()).ok());
        let Some(answer) = answer.as_ref().and_then(|answer| answer.as_boolean_opt()) else {
            return Evaluated::ByRows;
        };
        for (at, code) in codes.iter().enumerate() {
            if answer.is_valid(at) && answer.value(at) {
                if space.null_code() == Some(*code) {
                    return Evaluated::ByRows;
                }
                passing.set(*code as u32);
            }
        }
    }
    if u64::from(passing.count()) > count / 8 * 7 {
        Evaluated::Nearly
    } else {
        Evaluated::Some(passing)
    }
}
