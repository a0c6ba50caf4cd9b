//! Rows in the order of the clustering columns: an external sort within a memory budget.
//!
//! Rows become byte records ([`RowCodec`]) that start with a key which sorts bytewise like the clustering
//! columns' codes, so that NULL is first and NaN last. They are collected in DRAM; beyond the budget, sorted
//! runs go to scratch space of the pool and are merged in the end. Rows with equal keys stay in the order in
//! which they came.

mod codec;
mod run;

use crate::format::meta::TableMeta;
use crate::{ColumnsError, Result};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use codec::{RowCodec, key};
use halocline_media::trim_heap;
use halocline_pool::{FrozenScratch, Txn};
use run::SortedRun;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Rows that are encoded or decoded at once.
const BATCH_ROWS: usize = 8192;
/// Bytes of records that are decoded at once at most.
const BATCH_BYTES: usize = 4 << 20;

/// Takes rows in any order and gives them back in the order of the clustering columns.
pub(crate) struct Sorter<'t> {
    txn: &'t Txn,
    codec: RowCodec,
    run: SortedRun,
    /// Sorted runs in scratch space, in the order of their rows.
    spilled: Vec<FrozenScratch<'t>>,
    memory: usize,
}

impl<'t> Sorter<'t> {
    /// Creates a sorter by the table's clustering columns; `None` if it has none.
    ///
    /// # Errors
    /// [`ColumnsError::NoSuchColumn`] if the table's description is damaged.
    pub(crate) fn new(
        txn: &'t Txn,
        table: &str,
        meta: &TableMeta,
        schema: &SchemaRef,
        memory: usize,
    ) -> Result<Option<Self>> {
        let Some(names) = &meta.cluster else {
            return Ok(None);
        };
        let position = |name: &String| {
            schema.index_of(name).map_err(|_| ColumnsError::NoSuchColumn {
                table: table.into(),
                column: name.clone(),
            })
        };
        let columns = names.iter().map(position).collect::<Result<Vec<_>>>()?;
        Ok(Some(Self {
            txn,
            codec: RowCodec::new(SchemaRef::clone(schema), columns),
            run: SortedRun::default(),
            spilled: Vec::new(),
            memory,
        }))
    }

    /// Takes the rows of a batch, whose first one is `first_row` for errors.
    ///
    /// # Errors
    /// [`ColumnsError::TypeMismatch`], [`ColumnsError::NullInNotNull`],
    /// [`ColumnsError::Pool`].
    pub(crate) fn push(&mut self, batch: &RecordBatch, first_row: u64) -> Result<()> {
        for start in (0..batch.num_rows()).step_by(BATCH_ROWS) {
            let slice = batch.slice(start, BATCH_ROWS.min(batch.num_rows() - start));
            let rows = self.codec.prepare(&slice, first_row + start as u64)?;
            for row in 0..slice.num_rows() {
                self.run.push(|out| self.codec.encode(&rows, row, out));
            }
            if self.run.bytes() >= self.memory {
                self.spill()?;
            }
        }
        Ok(())
    }

    fn spill(&mut self) -> Result<()> {
        let bytes = self.run.record_bytes();
        let run = std::mem::take(&mut self.run).sorted();
        let scratch = self.txn.scratch(bytes)?;
        let mut at = 0;
        for record in run.records() {
            scratch.write_at(at, record);
            at += record.len() as u64;
        }
        tracing::debug!(bytes, "spilled a sorted run");
        self.spilled.push(scratch.freeze());
        Ok(())
    }

    /// Gives all rows back, in order. Returns how many bytes were spilled.
    ///
    /// # Errors
    /// The first error of `each`; [`ColumnsError::Pool`].
    pub(crate) fn drain(mut self, mut each: impl FnMut(&RecordBatch) -> Result<()>) -> Result<u64> {
        if !self.spilled.is_empty() {
            if self.run.bytes() > 0 {
                self.spill()?;
            }
            // What the runs took is for those who take the rows.
            trim_heap();
        }
        let mut decoder = self.codec.decoder(BATCH_BYTES.min(self.memory / 8));
        if self.spilled.is_empty() {
            for record in std::mem::take(&mut self.run).sorted().records() {
                decoder.push(record, &mut each)?;
            }
            decoder.flush(&mut each)?;
            return Ok(0);
        }
        let mut heads: BinaryHeap<Reverse<Head<'_>>> = (self.spilled.iter().enumerate())
            .filter_map(|(run, scratch)| Head::new(run, scratch))
            .map(Reverse)
            .collect();
        while let Some(mut top) = heads.peek_mut() {
            decoder.push(top.0.record, &mut each)?;
            match Head::new(top.0.run, top.0.rest) {
                Some(next) => *top = Reverse(next),
                None => drop(PeekMut::pop(top)),
            }
        }
        decoder.flush(&mut each)?;
        Ok(self.spilled.iter().map(|scratch| scratch.len() as u64).sum())
    }
}

/// The next record of a spilled run.
struct Head<'a> {
    record: &'a [u8],
    rest: &'a [u8],
    run: usize,
}

impl<'a> Head<'a> {
    fn new(run: usize, bytes: &'a [u8]) -> Option<Self> {
        if bytes.is_empty() {
            return None;
        }
        let (record, rest) = bytes.split_at(codec::len(bytes));
        Some(Self { record, rest, run })
    }
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        key(self.record)
            .cmp(key(other.record))
            .then(self.run.cmp(&other.run))
    }
}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head<'_> {}
