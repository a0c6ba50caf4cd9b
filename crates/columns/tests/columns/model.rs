//! A table as a plain list of rows, and a stored table compared with it.

use crate::common::{Shape, assert_same, random_array};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema};
use halocline_columns::{CodePredicate, Table};
use halocline_workloads::SplitMix64;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The live rows of a table in their order, column by column.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) fields: Vec<Field>,
    shapes: Vec<Shape>,
    pub(crate) columns: Vec<ArrayRef>,
}

impl Model {
    /// Without rows.
    pub(crate) fn new(columns: &[(DataType, Shape)]) -> Self {
        let mut model = Self {
            fields: vec![],
            shapes: vec![],
            columns: vec![],
        };
        for (i, (data_type, shape)) in columns.iter().enumerate() {
            let field = Field::new(format!("c{i}"), data_type.clone(), shape.nulls > 0);
            model.columns.push(arrow_array::new_empty_array(data_type));
            model.fields.push(field);
            model.shapes.push(*shape);
        }
        model
    }

    pub(crate) fn schema(&self) -> Arc<Schema> {
        Arc::new(Schema::new(self.fields.clone()))
    }

    pub(crate) fn rows(&self) -> usize {
        self.columns[0].len()
    }

    /// Random rows for the table.
    pub(crate) fn batch(&self, rows: usize, seed: u64) -> RecordBatch {
        let shapes = self.fields.iter().zip(&self.shapes);
        let arrays = shapes.map(|(field, shape)| {
            let seed = shape.seed ^ seed.rotate_left(17);
            random_array(field.data_type(), rows, Shape { seed, ..*shape })
        });
        RecordBatch::try_new(self.schema(), arrays.collect()).expect("columns of one length")
    }

    pub(crate) fn append(&mut self, batch: &RecordBatch) {
        for (column, new) in self.columns.iter_mut().zip(batch.columns()) {
            *column = concat(&[column, new]);
        }
    }

    pub(crate) fn add_column(&mut self, field: Field, shape: Shape, value: &ArrayRef) {
        let same = UInt32Array::from(vec![0; self.rows()]);
        self.columns
            .push(arrow_select::take::take(value, &same, None).expect("one value"));
        self.fields.push(field);
        self.shapes.push(shape);
    }

    pub(crate) fn truncate(&mut self) {
        self.columns
            .iter_mut()
            .for_each(|column| *column = column.slice(0, 0));
    }

    /// Deletes about `share` of 256 rows, and returns them as the table knows them.
    pub(crate) fn delete(&mut self, table: &Table, share: u64, seed: u64) -> BTreeMap<u64, RoaringBitmap> {
        let mut rng = SplitMix64::new(seed);
        let (mut deleted, mut keep) = (BTreeMap::new(), vec![]);
        for segment in table.segments() {
            let rows: &mut RoaringBitmap = deleted.entry(segment.id()).or_default();
            for row in live_rows(segment) {
                let dies = rng.below(256) < share;
                keep.push(!dies);
                if dies {
                    rows.insert(row);
                }
            }
        }
        let keep = BooleanArray::from(keep);
        for column in &mut self.columns {
            *column = arrow_select::filter::filter(column, &keep).expect("one flag per row");
        }
        deleted
    }

    /// Asserts that the table holds these rows in this order, and that nothing is wrong with it.
    pub(crate) fn assert_is(&self, table: &Table) {
        assert_eq!(table.schema(), &self.schema());
        assert_eq!(table.live_rows(), self.rows() as u64);
        assert!(table.check().is_empty(), "{:?}", table.check());
        for (i, expected) in self.columns.iter().enumerate() {
            assert_same(&read(table, i), expected);
        }
        for (position, segment) in table.segments().iter().enumerate() {
            assert_eq!(table.segment_position(segment.id()), Some(position));
            let all = 0..segment.rows();
            assert_eq!(
                segment.count(&[], all.clone()).expect("sound"),
                segment.live_rows()
            );
            let raw = segment.with_deleted_rows();
            for column in 0..self.fields.len() {
                let Some(space) = segment.column(column).code_space() else {
                    continue;
                };
                let predicate = [(column, CodePredicate::range(0, space.max_code() / 2))];
                let mut expected = raw.select(&predicate, all.clone()).expect("sound");
                if let Some(deleted) = segment.deletions().expect("sound") {
                    expected -= deleted;
                }
                assert_eq!(segment.select(&predicate, all.clone()).expect("sound"), expected);
                assert_eq!(
                    segment.count(&predicate, all.clone()).expect("sound"),
                    expected.len()
                );
            }
        }
    }
}

/// A column of the live rows.
pub(crate) fn read(table: &Table, column: usize) -> ArrayRef {
    let data_type = table.schema().field(column).data_type().clone();
    let mut arrays = vec![arrow_array::new_empty_array(&data_type)];
    for segment in table.segments() {
        let rows: Vec<u32> = live_rows(segment).collect();
        arrays.push(segment.column(column).gather(&rows).expect("sound"));
    }
    concat(&arrays.iter().collect::<Vec<_>>())
}

fn live_rows(segment: &halocline_columns::Segment) -> impl Iterator<Item = u32> {
    let rows = segment.select(&[], 0..segment.rows()).expect("sound");
    rows.into_iter()
}

fn concat(arrays: &[&ArrayRef]) -> ArrayRef {
    let arrays: Vec<&dyn Array> = arrays.iter().map(|array| &***array).collect();
    arrow_select::concat::concat(&arrays).expect("arrays of one type")
}
