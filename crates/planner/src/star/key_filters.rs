//! Filters by the keys of joins above a star query: a group whose key no row of a join's build side has is
//! dropped there, so that its rows need not be aggregated.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use datafusion::physical_expr::PhysicalExpr;
use halocline_joins::star::{Dimension, DimensionBuilder, Probe};
use halocline_scan::plan::KeyFilter;

use super::aggregates::is_whole;
use super::branches::GroupSource;
use super::delta_rows::integers;
use super::shape::StarShape;

/// The filters of one star query.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyFilters(Vec<Arc<KeyFilter>>);

impl KeyFilters {
    /// Keeps those of the filters that restrict a group by a column of the fact table.
    pub(super) fn for_shape(filters: Vec<Arc<KeyFilter>>, shape: &StarShape) -> Self {
        let restricts = |filter: &Arc<KeyFilter>| {
            filter
                .outputs()
                .any(|(_, output)| column(shape, output).is_some())
        };
        Self(filters.into_iter().filter(restricts).collect())
    }

    /// Returns true if there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the filters as expressions.
    pub(super) fn expressions(&self) -> impl Iterator<Item = Arc<dyn PhysicalExpr>> {
        self.0.iter().map(|filter| Arc::clone(filter.expression()))
    }

    /// Returns the names of the columns that are filtered, for EXPLAIN.
    pub(super) fn describe(&self, shape: &StarShape) -> String {
        let outputs = self.0.iter().flat_map(|filter| filter.outputs());
        let columns = outputs.filter_map(|(_, output)| column(shape, output));
        let schema = shape.fact.table.schema();
        let names: Vec<&str> = columns
            .map(|column| schema.field(column).name().as_str())
            .collect();
        names.join(", ")
    }

    /// Returns a probe for each column of which all keys are known: it tests whether a key exists.
    pub(super) fn probes(&self, shape: &StarShape) -> Vec<Probe> {
        let mut probes = Vec::new();
        for filter in &self.0 {
            for (key, output) in filter.outputs() {
                let dimension = || existing(&filter.values(key)?);
                if let Some(column) = column(shape, output)
                    && let Some(dimension) = dimension()
                {
                    probes.push(Probe {
                        columns: vec![column],
                        dimension: Arc::new(dimension),
                    });
                }
            }
        }
        probes
    }
}

/// Returns the column of the fact table that an output has the values of, if a probe can read it.
fn column(shape: &StarShape, output: usize) -> Option<usize> {
    let GroupSource::Fact(group) = *shape.groups.get(output)? else {
        return None;
    };
    let group = &shape.fact_groups[group];
    let is_coded = |segment: &halocline_columns::Segment| {
        let space = segment.column(group.column).code_space();
        space.is_some_and(|space| space.integer_base().is_some())
    };
    let data_type = shape.fact.table.schema().field(group.column).data_type().clone();
    let is_readable = is_whole(&data_type) && shape.fact.table.segments().iter().all(is_coded);
    (group.expr.is_none() && is_readable).then_some(group.column)
}

/// Returns a dimension of these keys; `None` if one of them is no integer.
fn existing(values: &[ArrayRef]) -> Option<Dimension> {
    let mut builder = DimensionBuilder::new(1).existence();
    for values in values {
        if !is_whole(values.data_type()) {
            return None;
        }
        let values = integers(values).ok()?;
        let values = values.as_primitive::<Int64Type>();
        match values.null_count() {
            0 => builder.extend(values.values().to_vec(), &[], vec![]),
            _ => builder.extend(values.iter().flatten().collect(), &[], vec![]),
        }
    }
    builder.finish().ok()
}
