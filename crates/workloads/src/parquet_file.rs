//! Parquet files of generated tables.
//!
//! Several threads encode row groups, each from its own part of the generator; the results are appended in
//! order. Encoding takes far longer than generating, and the file does not depend on the number of threads.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::{SsbTable, TpchTable};

/// Compression of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ParquetCompression {
    /// Zstandard, level 1: smaller files.
    #[default]
    Zstd,
    /// Snappy: faster to write and to read.
    Snappy,
    /// No compression.
    Uncompressed,
}

/// Options of a Parquet file.
#[derive(Debug, Clone)]
pub struct ParquetOptions {
    /// Compression of all columns.
    pub compression: ParquetCompression,
    /// Approximate number of rows per row group.
    pub row_group_rows: usize,
    /// Number of threads that generate and encode; 0 means one per CPU.
    pub threads: usize,
}

impl Default for ParquetOptions {
    /// Returns Zstd, row groups of 1 Mi rows and one thread per CPU.
    fn default() -> Self {
        Self {
            compression: ParquetCompression::default(),
            row_group_rows: 1 << 20,
            threads: 0,
        }
    }
}

impl ParquetOptions {
    fn properties(&self) -> WriterProperties {
        let compression = match self.compression {
            ParquetCompression::Zstd => Compression::ZSTD(ZstdLevel::default()),
            ParquetCompression::Snappy => Compression::SNAPPY,
            ParquetCompression::Uncompressed => Compression::UNCOMPRESSED,
        };
        WriterProperties::builder()
            .set_compression(compression)
            .set_max_row_group_row_count(Some(self.row_group_rows.max(1)))
            .build()
    }
}

/// Writes all batches of `reader` to a new Parquet file at `path`, on the calling thread. Returns the number
/// of rows.
///
/// # Errors
/// Errors of the file system, the reader or the Parquet encoder.
pub fn write_parquet(
    path: &Path,
    reader: impl RecordBatchReader,
    options: &ParquetOptions,
) -> Result<u64, ParquetError> {
    let mut writer = ArrowWriter::try_new(create(path)?, reader.schema(), Some(options.properties()))?;
    let mut rows = 0;
    for batch in reader {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        writer.write(&batch)?;
    }
    writer.close()?;
    Ok(rows)
}

/// Generates a TPC-H table into a new Parquet file at `path`. Returns the number of rows. `progress` is
/// called from this thread, from time to time, with the number of rows written so far.
///
/// # Errors
/// Errors of the file system or the Parquet encoder.
pub fn write_tpch_parquet(
    path: &Path,
    table: TpchTable,
    scale_factor: f64,
    options: &ParquetOptions,
    progress: impl FnMut(u64),
) -> Result<u64, ParquetError> {
    let source = PartitionedSource {
        schema: table.schema(),
        rows: table.approximate_rows(scale_factor),
        part: &|part, parts| table.reader(scale_factor, part, parts),
    };
    write_parts(path, &source, options, progress)
}

/// Generates a table of the Star Schema Benchmark like [`write_tpch_parquet`].
///
/// # Errors
/// Errors of the file system or the Parquet encoder.
///
/// # Panics
/// As [`SsbTable::reader`].
pub fn write_ssb_parquet(
    path: &Path,
    table: SsbTable,
    scale_factor: f64,
    options: &ParquetOptions,
    progress: impl FnMut(u64),
) -> Result<u64, ParquetError> {
    let source = PartitionedSource {
        schema: table.schema(),
        rows: table.approximate_rows(scale_factor),
        part: &|part, parts| table.reader(scale_factor, part, parts),
    };
    write_parts(path, &source, options, progress)
}

/// A generator whose table can be generated in parts.
struct PartitionedSource<'a> {
    schema: SchemaRef,
    /// Approximate number of rows.
    rows: u64,
    /// Creates a reader of one part, given its index and the number of parts.
    part: &'a (dyn Fn(u32, u32) -> Box<dyn RecordBatchReader + Send> + Sync),
}

fn write_parts(
    path: &Path,
    source: &PartitionedSource<'_>,
    options: &ParquetOptions,
    mut progress: impl FnMut(u64),
) -> Result<u64, ParquetError> {
    let rows = source.rows.max(1);
    let parts = rows.div_ceil(options.row_group_rows.max(1) as u64).max(1) as u32;
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let threads = if options.threads == 0 {
        cpus
    } else {
        options.threads
    }
    .min(parts as usize);
    let writer = ArrowWriter::try_new(create(path)?, source.schema.clone(), Some(options.properties()))?;
    let (mut file, factory) = writer.into_serialized_writer()?;

    let next_part = AtomicU32::new(0);
    // The channel is bounded, so that encoders wait when the file is slower.
    let (sender, receiver) = mpsc::sync_channel(threads);
    thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next_part, factory) = (sender.clone(), &next_part, &factory);
            scope.spawn(move || {
                loop {
                    let part = next_part.fetch_add(1, Ordering::Relaxed);
                    if part >= parts {
                        return;
                    }
                    let encoded = encode_row_group(factory, part, (source.part)(part, parts));
                    if sender.send((part, encoded)).is_err() {
                        return; // the writer failed and left
                    }
                }
            });
        }
        drop(sender);

        let mut written = 0;
        let mut early = BTreeMap::new();
        let mut expected = 0;
        for (part, encoded) in receiver {
            early.insert(part, encoded?);
            while let Some((rows, chunks)) = early.remove(&expected) {
                let mut row_group = file.next_row_group()?;
                for chunk in chunks {
                    ArrowColumnChunk::append_to_row_group(chunk, &mut row_group)?;
                }
                row_group.close()?;
                written += rows;
                expected += 1;
                progress(written);
            }
        }
        file.close()?;
        Ok(written)
    })
}

fn create(path: &Path) -> Result<BufWriter<File>, ParquetError> {
    let file =
        File::create(path).map_err(|error| ParquetError::General(format!("{}: {error}", path.display())))?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}

/// Encodes all rows of `reader` as one row group, held in memory.
fn encode_row_group(
    factory: &ArrowRowGroupWriterFactory,
    index: u32,
    reader: Box<dyn RecordBatchReader + Send>,
) -> Result<(u64, Vec<ArrowColumnChunk>), ParquetError> {
    let schema = reader.schema();
    let mut columns = factory.create_column_writers(index as usize)?;
    let mut rows = 0;
    for batch in reader {
        let batch: RecordBatch = batch?;
        rows += batch.num_rows() as u64;
        let mut writers = columns.iter_mut();
        for (field, array) in schema.fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, &Arc::clone(array))? {
                writers
                    .next()
                    .ok_or_else(|| ParquetError::General("more leaves than column writers".to_owned()))?
                    .write(&leaf)?;
            }
        }
    }
    let chunks = columns
        .into_iter()
        .map(|column| column.close())
        .collect::<Result<_, _>>()?;
    Ok((rows, chunks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    fn read_back(path: &Path) -> (usize, Vec<RecordBatch>) {
        let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
        let groups = builder.metadata().num_row_groups();
        (groups, builder.build().unwrap().map(Result::unwrap).collect())
    }

    fn concatenated(batches: &[RecordBatch]) -> RecordBatch {
        arrow_select::concat::concat_batches(&batches[0].schema(), batches).unwrap()
    }

    #[test]
    fn a_parallel_file_holds_the_generated_rows_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lineitem.parquet");
        let options = ParquetOptions {
            row_group_rows: 4096,
            threads: 3,
            ..Default::default()
        };
        let mut last = 0;
        let rows = write_tpch_parquet(&path, TpchTable::Lineitem, 0.003, &options, |n| {
            assert!(n > last);
            last = n;
        })
        .unwrap();
        assert_eq!(rows, last);
        let generated: Vec<_> = TpchTable::Lineitem
            .reader(0.003, 0, 1)
            .map(Result::unwrap)
            .collect();
        let (groups, read) = read_back(&path);
        assert_eq!(groups, 5);
        assert_eq!(concatenated(&read), concatenated(&generated));
    }

    #[test]
    fn tables_of_the_star_schema_benchmark_are_written_likewise() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lineorder.parquet");
        let options = ParquetOptions {
            row_group_rows: 4096,
            threads: 3,
            ..Default::default()
        };
        let rows = write_ssb_parquet(&path, SsbTable::Lineorder, 0.003, &options, |_| {}).unwrap();
        let generated: Vec<_> = SsbTable::Lineorder
            .reader(0.003, 0, 1)
            .map(Result::unwrap)
            .collect();
        let (groups, read) = read_back(&path);
        assert_eq!(groups, 5);
        let read = concatenated(&read);
        assert_eq!(read.num_rows() as u64, rows);
        assert_eq!(read, concatenated(&generated));
    }

    #[test]
    fn the_simple_writer_writes_the_same_rows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nation.parquet");
        let options = ParquetOptions {
            compression: ParquetCompression::Snappy,
            ..Default::default()
        };
        assert_eq!(
            write_parquet(&path, TpchTable::Nation.reader(1.0, 0, 1), &options).unwrap(),
            25
        );
        let generated: Vec<_> = TpchTable::Nation.reader(1.0, 0, 1).map(Result::unwrap).collect();
        assert_eq!(concatenated(&read_back(&path).1), concatenated(&generated));
    }

    #[test]
    fn a_file_that_cannot_be_made_is_named() {
        let error = write_tpch_parquet(
            Path::new("/no/such/directory/x.parquet"),
            TpchTable::Region,
            1.0,
            &ParquetOptions::default(),
            |_| {},
        )
        .unwrap_err();
        assert!(
            error.to_string().contains("/no/such/directory/x.parquet"),
            "{error}"
        );
    }
}
