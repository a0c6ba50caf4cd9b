//! The smallest and largest keys of a build side, and a list of few keys, as a dynamic filter of the probe
//! side.
//!
//! Invariant: the filter is set when the last stream of the build side has been read to its end, before the
//! first row of the probe side is read.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, SchemaRef};
use arrow_select::concat::concat;
use arrow_select::filter::filter;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::{Accumulator, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, DynamicFilterPhysicalExpr, InListExpr, lit};

/// Collects the bounds of the keys of a build side.
pub(super) struct KeyBounds {
    filter: Arc<DynamicFilterPhysicalExpr>,
    /// For each key whose values have an order: its position among the columns of the build side, its type
    /// there, and the key of the probe side with its type.
    keys: Vec<BoundedKey>,
    /// The column of a single key, and the key of the probe side.
    single: Option<(usize, Arc<dyn PhysicalExpr>)>,
    /// Most rows of a build side whose keys are listed.
    listed: usize,
    probe_schema: SchemaRef,
    state: Mutex<BoundsState>,
}

struct BoundedKey {
    column: usize,
    data_type: DataType,
    probe: Arc<dyn PhysicalExpr>,
    probe_type: DataType,
}

struct BoundsState {
    /// Streams that have not been read to their end.
    streams: usize,
    rows: usize,
    bounds: Vec<Bounds>,
    /// The keys, if there is one column of them and no more than are listed.
    values: Vec<ArrayRef>,
}

/// The bounds of one key; they are NULL if there is no value.
struct Bounds {
    min: MinAccumulator,
    max: MaxAccumulator,
}

impl Bounds {
    fn new(key: &BoundedKey) -> Result<Self> {
        Ok(Self {
            min: MinAccumulator::try_new(&key.data_type)?,
            max: MaxAccumulator::try_new(&key.data_type)?,
        })
    }

    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        self.min.update_batch(std::slice::from_ref(values))?;
        self.max.update_batch(std::slice::from_ref(values))
    }
}

/// The bounds of one stream.
pub(super) struct StreamBounds {
    rows: usize,
    bounds: Vec<Bounds>,
    values: Vec<ArrayRef>,
}

impl KeyBounds {
    /// Returns a collection for `streams` streams of this schema. `columns` are the positions of the keys,
    /// `probe` those of the probe side. The keys of at most `listed` rows are listed.
    ///
    /// # Errors
    /// A key of the probe side has no type.
    pub(super) fn new<'a>(
        filter: Arc<DynamicFilterPhysicalExpr>,
        (schema, columns, streams): (&SchemaRef, &[usize], usize),
        (probe, probe_schema): (
            impl Iterator<Item = &'a Arc<dyn PhysicalExpr>> + Clone,
            &SchemaRef,
        ),
        listed: usize,
    ) -> Result<Self> {
        let mut keys = Vec::new();
        let single = match columns {
            [column] => probe.clone().next().map(|probe| (*column, Arc::clone(probe))),
            _ => None,
        };
        for (column, probe) in columns.iter().zip(probe) {
            let data_type = schema.field(*column).data_type().clone();
            // Floats have values without an order.
            let is_ordered = data_type.is_integer()
                || data_type.is_temporal()
                || data_type.is_decimal()
                || data_type.is_string();
            if is_ordered && !matches!(data_type, DataType::Interval(_)) {
                keys.push(BoundedKey {
                    column: *column,
                    data_type,
                    probe: Arc::clone(probe),
                    probe_type: probe.data_type(probe_schema)?,
                });
            }
        }
        let bounds = keys.iter().map(Bounds::new).collect::<Result<_>>()?;
        Ok(Self {
            filter,
            keys,
            single,
            listed,
            probe_schema: Arc::clone(probe_schema),
            state: Mutex::new(BoundsState {
                streams,
                rows: 0,
                bounds,
                values: Vec::new(),
            }),
        })
    }

    /// Returns the bounds of a stream of which nothing has been read.
    ///
    /// # Errors
    /// A type has no order.
    pub(super) fn of_stream(&self) -> Result<StreamBounds> {
        Ok(StreamBounds {
            rows: 0,
            bounds: self.keys.iter().map(Bounds::new).collect::<Result<_>>()?,
            values: Vec::new(),
        })
    }

    /// Adds the rows of a batch to those of a stream.
    ///
    /// # Errors
    /// The batch has other columns.
    pub(super) fn add(&self, stream: &mut StreamBounds, batch: &RecordBatch) -> Result<()> {
        stream.rows += batch.num_rows();
        match &self.single {
            Some((column, _)) if stream.rows <= self.listed => {
                stream.values.push(Arc::clone(batch.column(*column)));
            }
            _ => stream.values.clear(),
        }
        for (key, bounds) in self.keys.iter().zip(&mut stream.bounds) {
            bounds.add(batch.column(key.column))?;
        }
        Ok(())
    }

    /// Adds a stream that has been read to its end, and sets the filter with the last one.
    ///
    /// # Errors
    /// Bounds of the streams have different types.
    pub(super) fn finish(&self, mut stream: StreamBounds) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.rows += stream.rows;
        state.streams -= 1;
        if state.rows <= self.listed {
            state.values.append(&mut stream.values)
        } else {
            state.values.clear()
        }
        for (all, one) in state.bounds.iter_mut().zip(&mut stream.bounds) {
            for bound in [one.min.evaluate()?, one.max.evaluate()?] {
                all.add(&bound.to_array()?)?;
            }
        }
        if state.streams == 0 {
            self.filter.update(self.predicate(&mut state)?)?;
            self.filter.mark_complete();
        }
        Ok(())
    }

    /// Leaves the filter without a condition.
    pub(super) fn leave_out(&self) {
        self.filter.mark_complete();
    }

    /// Returns the condition that a key is one of some; `None` if they are not known.
    fn list(&self, values: &[ArrayRef]) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let Some((_, probe)) = self.single.as_ref().filter(|_| !values.is_empty()) else {
            return Ok(None);
        };
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        let values = concat(&values)?;
        let values = match values.nulls() {
            Some(nulls) => filter(&values, &BooleanArray::new(nulls.inner().clone(), None))?,
            None => values,
        };
        let values = cast(&values, &probe.data_type(&self.probe_schema)?)?;
        let list = InListExpr::try_new_from_array(Arc::clone(probe), values, false, &self.probe_schema)?;
        Ok(Some(Arc::new(list)))
    }

    fn predicate(&self, state: &mut BoundsState) -> Result<Arc<dyn PhysicalExpr>> {
        if state.rows == 0 {
            return Ok(lit(false));
        }
        let mut all = self.list(&state.values)?;
        for (key, bounds) in self.keys.iter().zip(&mut state.bounds) {
            for (operator, bound) in [
                (Operator::GtEq, bounds.min.evaluate()?),
                (Operator::LtEq, bounds.max.evaluate()?),
            ] {
                if bound.is_null() {
                    // All keys are NULL, which equals nothing.
                    return Ok(lit(false));
                }
                let bound: ScalarValue = bound.cast_to(&key.probe_type)?;
                let one = Arc::new(BinaryExpr::new(Arc::clone(&key.probe), operator, lit(bound)));
                all = Some(match all {
                    Some(all) => Arc::new(BinaryExpr::new(all, Operator::And, one)),
                    None => one,
                });
            }
        }
        Ok(all.unwrap_or_else(|| lit(true)))
    }
}
