//! Parts of DataFusion's description of a hash join, as those of an [`EquiJoin`].

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::Result;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use halocline_joins::JoinError;
use halocline_joins::equi::{JoinKind, Residual};

/// Returns the kind of a join, whose left side is the build side.
pub(super) fn kind_of(join_type: JoinType) -> JoinKind {
    match join_type {
        JoinType::Inner => JoinKind::Inner,
        JoinType::Left => JoinKind::BuildOuter,
        JoinType::Right => JoinKind::ProbeOuter,
        JoinType::Full => JoinKind::FullOuter,
        JoinType::LeftSemi => JoinKind::BuildSemi,
        JoinType::RightSemi => JoinKind::ProbeSemi,
        JoinType::LeftAnti => JoinKind::BuildAnti,
        JoinType::RightAnti => JoinKind::ProbeAnti,
        JoinType::LeftMark => JoinKind::BuildMark,
        JoinType::RightMark => JoinKind::ProbeMark,
    }
}

/// Columns of both sides, each once, and the places of the wanted ones among them: those of the build side
/// come first, then those of the probe side, then the mark.
#[derive(Debug, Clone)]
pub(super) struct SideColumns {
    pub(super) build: Vec<usize>,
    pub(super) probe: Vec<usize>,
    places: Vec<usize>,
}

impl SideColumns {
    /// Returns the columns of the two sides that are wanted.
    pub(super) fn new(wanted: &[ColumnIndex]) -> Self {
        let of_side = |side: JoinSide| {
            let mut columns: Vec<usize> = wanted
                .iter()
                .filter(|column| column.side == side)
                .map(|column| column.index)
                .collect();
            columns.sort_unstable();
            columns.dedup();
            columns
        };
        let (build, probe) = (of_side(JoinSide::Left), of_side(JoinSide::Right));
        let place = |columns: &[usize], index: usize| columns.partition_point(|other| *other < index);
        let places = wanted.iter().map(|column| match column.side {
            JoinSide::Left => place(&build, column.index),
            JoinSide::Right => build.len() + place(&probe, column.index),
            JoinSide::None => build.len() + probe.len(),
        });
        let places = places.collect();
        Self { build, probe, places }
    }

    /// Arranges the columns of a batch as wanted. Dictionaries were replaced by their values, which are
    /// encoded again.
    pub(super) fn arrange(&self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let columns = self.places.iter().zip(schema.fields());
        let columns = columns.map(|(place, field)| {
            let column = batch.column(*place);
            if column.data_type() == field.data_type() {
                Ok(Arc::clone(column))
            } else {
                arrow_cast::cast(column, field.data_type())
            }
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            columns,
            &options,
        )?)
    }
}

/// Returns the further condition of a join.
pub(super) fn residual_of(filter: &JoinFilter) -> Residual {
    let columns = SideColumns::new(filter.column_indices());
    let (schema, expression) = (Arc::clone(filter.schema()), Arc::clone(filter.expression()));
    let (build_columns, probe_columns) = (columns.build.clone(), columns.probe.clone());
    let filter = move |pairs: &RecordBatch| {
        let matching = || -> Result<BooleanArray> {
            let pairs = columns.arrange(pairs, &schema)?;
            let value = expression.evaluate(&pairs)?.into_array(pairs.num_rows())?;
            Ok(as_boolean_array(&value)?.clone())
        };
        matching().map_err(|error| JoinError::Sink(Box::new(error)))
    };
    Residual {
        build_columns,
        probe_columns,
        filter: Arc::new(filter),
    }
}
