//! The inputs of a cell as stored tables.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use halocline_columns::{Table, TableEncoding, TableOptions, TableProperties, TableWriter, create_table};
use halocline_media::{Dram, Medium};
use halocline_pool::{Pool, VerifyMode};
use halocline_workloads::{SplitMix64, Zipf};

use super::grid::GridCell;
use crate::BenchError;

/// Names of the tables.
const BUILD: &str = "build";
const PROBE: &str = "probe";

/// Rows that are written at a time.
const BATCH: u64 = 64 << 10;

/// The result that every join must have: the number of pairs, and the wrapping sum of the payloads of both
/// sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct JoinAnswer {
    pub(super) pairs: u64,
    pub(super) sum: i64,
}

/// A pool in DRAM with both tables.
pub(super) struct StoredTables {
    pub(super) medium: Medium,
    pub(super) expected: JoinAnswer,
}

/// The tables of a pool.
pub(super) struct OpenTables {
    pub(super) build: Table,
    pub(super) probe: Table,
}

impl StoredTables {
    /// Writes the tables of a cell.
    ///
    /// # Errors
    /// Memory is short.
    pub(super) fn make(cell: &GridCell, seed: u64) -> Result<StoredTables, BenchError> {
        let medium = Medium::from(Dram::new(1 << 20)?);
        let pool = Pool::create_on(medium.clone())?;
        let mut expected = JoinAnswer {
            pairs: cell.probe_rows,
            sum: 0,
        };
        write(&pool, BUILD, cell.build_rows, |row| {
            let key = cell.build_key(row);
            (cell.key_value(key), build_payload(key))
        })?;
        let zipf =
            Zipf::new(cell.build_rows, cell.theta).map_err(|error| BenchError::Setup(error.to_string()))?;
        let mut random = SplitMix64::new(seed);
        write(&pool, PROBE, cell.probe_rows, |_| {
            // Frequent keys are spread over all keys.
            let rank = if cell.theta > 0.0 {
                zipf.sample(&mut random)
            } else {
                random.below(cell.build_rows)
            };
            let (key, payload) = (cell.shuffled(rank), random.next_u64() as i64);
            expected.sum = expected
                .sum
                .wrapping_add(build_payload(key))
                .wrapping_add(payload);
            (cell.key_value(key), payload)
        })?;
        Ok(StoredTables { medium, expected })
    }
}

impl OpenTables {
    /// Opens the tables of a pool, whose checksums are not verified, so that all runs do the same.
    pub(super) fn open(pool: &Pool) -> Result<OpenTables, BenchError> {
        pool.set_verify_mode(VerifyMode::Off);
        let snapshot = pool.snapshot()?;
        Ok(OpenTables {
            build: Table::open(&snapshot, BUILD)?,
            probe: Table::open(&snapshot, PROBE)?,
        })
    }
}

fn build_payload(key: u64) -> i64 {
    SplitMix64::new(key).next_u64() as i64
}

/// Writes a table of two columns of 8 bytes, as wide as that.
fn write(
    pool: &Pool,
    name: &str,
    rows: u64,
    mut row: impl FnMut(u64) -> (i64, i64),
) -> Result<(), BenchError> {
    let mut batch = |from: u64, to: u64| {
        let (keys, payloads): (Vec<i64>, Vec<i64>) = (from..to).map(&mut row).unzip();
        let columns: [(&str, ArrayRef); 2] = [
            ("key", Arc::new(Int64Array::from(keys))),
            ("payload", Arc::new(Int64Array::from(payloads))),
        ];
        RecordBatch::try_from_iter(columns).map_err(|error| BenchError::Setup(error.to_string()))
    };
    let properties = TableProperties {
        encoding: TableEncoding::Plain,
        ..TableProperties::default()
    };
    let txn = pool.begin()?;
    create_table(&txn, name, &batch(0, 0)?.schema(), &properties)?;
    let mut writer = TableWriter::append(&txn, name, TableOptions::default())?;
    for from in (0..rows).step_by(BATCH as usize) {
        writer.write(&batch(from, (from + BATCH).min(rows))?)?;
    }
    writer.finish()?;
    txn.commit()?;
    Ok(())
}
