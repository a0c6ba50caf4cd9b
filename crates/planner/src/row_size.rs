//! The bytes that rows between operators are taken for, by which rules decide what may not fit into memory.
//!
//! The length of strings is not known when a query is planned. A query that has run out of memory is planned
//! again as if they were long ([`must_spill`]).

use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use datafusion::config::ConfigOptions;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use halocline_catalog::settings::{FeatureMode, SessionSettings};

/// Bytes that a value of variable length is taken for.
const VARIABLE_BYTES: usize = 48;
/// The same in a query that has run out of memory.
const LONG_BYTES: usize = 4096;

/// Returns true for a query that is planned of operators that spill, since it has run out of memory or as the
/// session asks for it.
pub(crate) fn must_spill(options: &ConfigOptions) -> bool {
    let settings = options.extensions.get::<SessionSettings>();
    settings.is_some_and(|settings| settings.spilling_join == FeatureMode::Force)
}

/// Returns the bytes that a row is taken for.
pub(crate) fn row_bytes(schema: &Schema, options: &ConfigOptions) -> usize {
    let variable = if must_spill(options) {
        LONG_BYTES
    } else {
        VARIABLE_BYTES
    };
    let width = |data_type: &DataType| data_type.primitive_width().unwrap_or(variable);
    schema.fields().iter().map(|field| width(field.data_type())).sum()
}

/// Returns the rows of a plan at most; `usize::MAX` if that is unknown.
pub(crate) fn known_rows(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    let rows = statistics
        .ok()
        .and_then(|known| known.num_rows.get_value().copied());
    rows.unwrap_or(usize::MAX)
}

/// Returns the bytes of the rows of a plan at most; `usize::MAX` if that is unknown.
pub(crate) fn known_bytes(plan: &Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> usize {
    known_rows(plan).saturating_mul(row_bytes(&plan.schema(), options))
}
