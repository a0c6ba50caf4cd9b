//! A join prepared for its inputs: the layout of both sides, and the state that all phases share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use halocline_costs::join::TABLE_ROW_BYTES;

use super::join::{EquiJoin, JoinContext, RowSink};
use super::key::{KeyEncoder, plain_type};
use super::kind::JoinKind;
use super::layout::RowLayout;
use super::spill::Spiller;
use super::workers::JoinWorkers;
use crate::{JoinError, JoinResult};

/// One side of a join.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) keys: KeyEncoder,
    pub(super) layout: RowLayout,
    /// Columns of the source that rows carry.
    pub(super) payload: Vec<usize>,
    /// Those columns, without dictionaries.
    pub(super) fields: Vec<Arc<Field>>,
    /// Those to return, as positions in `payload`.
    pub(super) output: Vec<usize>,
    /// Those that the residual reads, as positions in `payload`.
    pub(super) residual: Vec<usize>,
}

impl Side {
    fn new(schema: &Schema, keys: KeyEncoder, output: &[usize], residual: &[usize]) -> JoinResult<Side> {
        let mut payload: Vec<usize> = output.iter().chain(residual).copied().collect();
        payload.sort_unstable();
        payload.dedup();
        let mut fields = Vec::with_capacity(payload.len());
        for column in &payload {
            let field = column_of(schema, *column)?;
            let plain = plain_type(field.data_type());
            fields.push(Arc::new(field.clone().with_data_type(plain)));
        }
        let types = fields
            .iter()
            .map(|field| (field.data_type().clone(), field.is_nullable()));
        let layout = RowLayout::new(keys.key_form(), &types.collect::<Vec<_>>())?;
        let positions = |columns: &[usize]| -> Vec<usize> {
            let position = |column: &usize| payload.partition_point(|other| other < column);
            columns.iter().map(position).collect()
        };
        Ok(Side {
            keys,
            layout,
            fields,
            output: positions(output),
            residual: positions(residual),
            payload,
        })
    }

    /// Returns the fields to return.
    fn output_fields(&self, nullable: bool) -> impl Iterator<Item = Arc<Field>> + '_ {
        self.output.iter().map(move |position| {
            let field = &self.fields[*position];
            if nullable && !field.is_nullable() {
                Arc::new(field.as_ref().clone().with_nullable(true))
            } else {
                field.clone()
            }
        })
    }

    /// Returns the bytes that a row is estimated to take in a hash table.
    pub(super) fn table_row_bytes(&self) -> usize {
        self.layout.row_bytes() + TABLE_ROW_BYTES + self.layout.spans.len() * SPAN_BYTES
    }
}

/// Estimated length of a variable-length value.
const SPAN_BYTES: usize = 16;

fn column_of(schema: &Schema, column: usize) -> JoinResult<&Field> {
    let columns = schema.fields().len();
    if column >= columns {
        return Err(JoinError::NoSuchColumn { column, columns });
    }
    Ok(schema.field(column))
}

/// NULLs and rows seen so far, for null-aware joins.
#[derive(Debug, Default)]
pub(super) struct SeenRows {
    rows: AtomicBool,
    nulls: AtomicBool,
}

impl SeenRows {
    pub(super) fn note(&self, rows: bool, nulls: bool) {
        if rows {
            self.rows.store(true, Ordering::Relaxed);
        }
        if nulls {
            self.nulls.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if there was a row.
    pub(super) fn rows(&self) -> bool {
        self.rows.load(Ordering::Relaxed)
    }

    /// Returns true if there was a NULL key.
    pub(super) fn nulls(&self) -> bool {
        self.nulls.load(Ordering::Relaxed)
    }
}

/// A prepared join.
pub(super) struct EquiPlan<'a> {
    pub(super) join: &'a EquiJoin,
    pub(super) build: Side,
    pub(super) probe: Side,
    pub(super) schema: SchemaRef,
    /// Columns that the residual reads.
    pub(super) pair_schema: SchemaRef,
    pub(super) context: &'a JoinContext<'a>,
    pub(super) sink: &'a RowSink<'a>,
    pub(super) workers: JoinWorkers<'a>,
    pub(super) spiller: Spiller<'a>,
    pub(super) build_seen: SeenRows,
    pub(super) probe_seen: SeenRows,
}

impl<'a> EquiPlan<'a> {
    /// Prepares a join of two inputs.
    ///
    /// # Errors
    /// [`JoinError::KeyCount`], [`JoinError::NoSuchColumn`], [`JoinError::KeyTypes`],
    /// [`JoinError::UnsupportedType`], [`JoinError::Unsupported`].
    pub(super) fn new(
        join: &'a EquiJoin,
        build: &Schema,
        probe: &Schema,
        context: &'a JoinContext<'a>,
        sink: &'a RowSink<'a>,
    ) -> JoinResult<EquiPlan<'a>> {
        let (build, probe) = sides(join, build, probe)?;
        Ok(EquiPlan {
            schema: schema_of(join.kind, &build, &probe),
            pair_schema: pair_schema(&build, &probe),
            workers: JoinWorkers::new(context.threads, context.cancelled),
            spiller: Spiller::new(context.spill, context.writers.get()),
            build_seen: SeenRows::default(),
            probe_seen: SeenRows::default(),
            join,
            build,
            probe,
            context,
            sink,
        })
    }

    pub(super) fn kind(&self) -> JoinKind {
        self.join.kind
    }

    /// Returns true if probe rows with a NULL key take part, as rows without partner.
    pub(super) fn null_probe_rows_count(&self) -> bool {
        !self.join.null_aware || !self.build_seen.rows()
    }

    /// Returns true if a NULL on the other side means that an anti join returns nothing.
    pub(super) fn is_void(&self) -> bool {
        self.join.null_aware
            && match self.join.kind {
                JoinKind::ProbeAnti => self.build_seen.nulls(),
                _ => self.probe_seen.nulls(),
            }
    }
}

fn pair_schema(build: &Side, probe: &Side) -> SchemaRef {
    let of = |side: &Side| -> Vec<Arc<Field>> {
        side.residual
            .iter()
            .map(|position| side.fields[*position].clone())
            .collect()
    };
    Arc::new(Schema::new([of(build), of(probe)].concat()))
}

fn sides(join: &EquiJoin, build: &Schema, probe: &Schema) -> JoinResult<(Side, Side)> {
    if join.build_keys.len() != join.probe_keys.len() || join.build_keys.is_empty() {
        return Err(JoinError::KeyCount {
            build: join.build_keys.len(),
            probe: join.probe_keys.len(),
        });
    }
    if join.null_aware {
        let is_anti = matches!(join.kind, JoinKind::ProbeAnti | JoinKind::BuildAnti);
        if !is_anti || join.residual.is_some() || join.build_keys.len() > 1 || join.null_equals_null {
            return Err(JoinError::Unsupported(
                "only anti joins by one key without further conditions, of which NULL equals nothing, can be \
                 null-aware",
            ));
        }
    }
    let keys = |schema: &Schema, columns: &[usize]| -> JoinResult<Vec<_>> {
        let typed = |column: &usize| Ok((*column, column_of(schema, *column)?.data_type().clone()));
        columns.iter().map(typed).collect()
    };
    let (build_keys, probe_keys) = KeyEncoder::pair(
        &keys(build, &join.build_keys)?,
        &keys(probe, &join.probe_keys)?,
        join.null_equals_null,
    )?;
    let (build_residual, probe_residual) = join.residual.as_ref().map_or((&[][..], &[][..]), |residual| {
        (&residual.build_columns, &residual.probe_columns)
    });
    let returned = |is_returned: bool, columns| if is_returned { columns } else { &[][..] };
    let build_output = returned(join.kind.returns_build(), &join.build_output);
    let probe_output = returned(join.kind.returns_probe(), &join.probe_output);
    Ok((
        Side::new(build, build_keys, build_output, build_residual)?,
        Side::new(probe, probe_keys, probe_output, probe_residual)?,
    ))
}

fn schema_of(kind: JoinKind, build: &Side, probe: &Side) -> SchemaRef {
    let pads_build = kind.returns_pairs() && kind.keeps_lone_probe();
    let pads_probe = kind.returns_pairs() && kind.keeps_lone_build();
    let mut fields: Vec<Arc<Field>> = build.output_fields(pads_build).collect();
    fields.extend(probe.output_fields(pads_probe));
    if kind.has_mark() {
        fields.push(Arc::new(Field::new("mark", DataType::Boolean, false)));
    }
    Arc::new(Schema::new(fields))
}

impl EquiJoin {
    /// Returns the columns of the joined rows: those of the build side, then those of the probe side, then
    /// the mark, as far as the kind returns them. Dictionaries are replaced by their values.
    ///
    /// # Errors
    /// [`JoinError::KeyCount`], [`JoinError::NoSuchColumn`], [`JoinError::KeyTypes`],
    /// [`JoinError::UnsupportedType`], [`JoinError::Unsupported`].
    pub fn schema(&self, build: &Schema, probe: &Schema) -> JoinResult<SchemaRef> {
        let (build, probe) = sides(self, build, probe)?;
        Ok(schema_of(self.kind, &build, &probe))
    }

    /// Returns the estimated bytes of a build row in a hash table, and of a probe row that is spilled.
    ///
    /// # Errors
    /// As [`schema`](EquiJoin::schema).
    pub fn row_bytes(&self, build: &Schema, probe: &Schema) -> JoinResult<(usize, usize)> {
        let (build, probe) = sides(self, build, probe)?;
        let spilled = probe.layout.row_bytes() + probe.layout.spans.len() * SPAN_BYTES;
        Ok((build.table_row_bytes(), spilled))
    }
}
