//! CSV files as `COPY … TO` writes them: NULL is an empty field, an empty text or binary a quoted one, and a
//! binary the text that imports read back. DataFusion writes both as nothing, and binaries as bare digits. All
//! else, reading included, is its own format.
//!
//! Its writer has no such option, so empty texts (and in files of one column NULLs, which it would quote) go
//! through it as markers that no value holds, and are replaced in what it has written.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericStringArray, OffsetSizeTrait, RecordBatch, StringViewArray};
use arrow_cast::cast::cast;
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::arrow::csv::QuoteStyle;
use datafusion::catalog::Session;
use datafusion::common::config::CsvOptions;
use datafusion::common::file_options::csv_writer::CsvWriterOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{GetExt, Statistics};
use datafusion::datasource::file_format::csv::{CsvFormat, CsvFormatFactory, CsvSerializer, CsvSink};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::write::BatchSerializer;
use datafusion::datasource::file_format::write::demux::DemuxedStreamReceiver;
use datafusion::datasource::file_format::write::orchestration::spawn_writer_tasks_and_join;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSink, FileSinkConfig, FileSource};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use halocline_import::text_of_bytes;

/// Makes the format of CSV files.
#[derive(Debug, Default)]
pub struct CsvFiles {
    inner: CsvFormatFactory,
}

impl GetExt for CsvFiles {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }
}

impl FileFormatFactory for CsvFiles {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let inner = self.inner.create(state, options)?;
        Ok(Arc::new(QuotedCsv { inner }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        let inner = Arc::new(CsvFormat::default().with_options(CsvOptions::default()));
        Arc::new(QuotedCsv { inner })
    }
}

/// DataFusion's format, but for empty texts that are written.
#[derive(Debug)]
struct QuotedCsv {
    inner: Arc<dyn FileFormat>,
}

#[async_trait]
impl FileFormat for QuotedCsv {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.inner.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.inner.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        self.inner.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        self.inner.infer_stats(state, store, schema, object).await
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.create_physical_plan(state, config).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self
            .inner
            .create_writer_physical_plan(input, state, config, order);
        let plan = plan.await?;
        let exec = (plan.as_ref() as &dyn std::any::Any).downcast_ref::<DataSinkExec>();
        let Some(exec) = exec else { return Ok(plan) };
        let Some(sink) = (exec.sink() as &dyn std::any::Any).downcast_ref::<CsvSink>() else {
            return Ok(plan);
        };
        let quoted = QuotedSink {
            config: sink.config().clone(),
            options: sink.writer_options().clone(),
        };
        let (input, order) = (Arc::clone(exec.input()), exec.sort_order().clone());
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(quoted), order)))
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        self.inner.file_source(schema)
    }
}

/// Writes files.
struct QuotedSink {
    config: FileSinkConfig,
    options: CsvWriterOptions,
}

impl fmt::Debug for QuotedSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotedSink").finish_non_exhaustive()
    }
}

impl DisplayAs for QuotedSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CsvSink(file={})", self.config.original_url)
    }
}

#[async_trait]
impl DataSink for QuotedSink {
    fn schema(&self) -> &SchemaRef {
        self.config.output_schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        FileSink::write_all(self, data, context).await
    }
}

#[async_trait]
impl FileSink for QuotedSink {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        demux_task: SpawnedTask<Result<()>>,
        files: DemuxedStreamReceiver,
        store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let serializer = Arc::new(QuotedSerializer {
            options: self.options.clone(),
        });
        spawn_writer_tasks_and_join(
            context,
            serializer,
            self.options.compression.into(),
            self.options.compression_level,
            store,
            demux_task,
            files,
        )
        .await
    }
}

/// Turns batches into text.
struct QuotedSerializer {
    options: CsvWriterOptions,
}

impl BatchSerializer for QuotedSerializer {
    fn serialize(&self, batch: RecordBatch, initial: bool) -> Result<Bytes> {
        let batch = with_binaries_as_texts(batch)?;
        let builder = self.options.writer_options.clone();
        let header = builder.header();
        let serializer = |builder| CsvSerializer::new().with_builder(builder).with_header(header);
        let alone = batch.num_columns() == 1;
        let empty: usize = batch.columns().iter().map(empty_texts).sum();
        let plain = builder.null().is_empty() && matches!(builder.quote_style(), QuoteStyle::Necessary);
        if !plain || (empty == 0 && !alone) {
            return serializer(builder).serialize(batch, initial);
        }
        let quote = builder.quote();
        let nulls = match alone {
            true => batch.column(0).null_count(),
            false => 0,
        };
        // A run of private characters that is too long to occur in a value.
        for length in 4.. {
            let (of_empty, of_null) = ("\u{E000}".repeat(length), "\u{E001}".repeat(length));
            let columns = batch.columns().iter().map(|column| marked(column, &of_empty));
            let marked = RecordBatch::try_new(batch.schema(), columns.collect())?;
            let builder = match alone {
                true => builder.clone().with_null(of_null.clone()),
                false => builder.clone(),
            };
            let text = serializer(builder).serialize(marked, initial)?;
            let count = |marker: &str| {
                text.windows(marker.len())
                    .filter(|w| *w == marker.as_bytes())
                    .count()
            };
            if count(&of_empty) == empty && (!alone || count(&of_null) == nulls) {
                let text = replaced(&text, of_empty.as_bytes(), &[quote, quote]);
                return Ok(match alone {
                    true => replaced(&text, of_null.as_bytes(), &[]).into(),
                    false => text.into(),
                });
            }
        }
        unreachable!("a value is not longer than any marker")
    }
}

/// Returns the batch with its binaries as texts.
fn with_binaries_as_texts(batch: RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    let is_binary = |field: &FieldRef| {
        use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
        matches!(
            field.data_type(),
            Binary | LargeBinary | BinaryView | FixedSizeBinary(_)
        )
    };
    if !schema.fields().iter().any(is_binary) {
        return Ok(batch);
    }
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        if !is_binary(field) {
            fields.push(Arc::clone(field));
            columns.push(Arc::clone(column));
            continue;
        }
        let binaries = cast(column, &DataType::BinaryView)?;
        let texts = binaries
            .as_binary_view()
            .iter()
            .map(|bytes| bytes.map(text_of_bytes));
        columns.push(Arc::new(texts.collect::<StringViewArray>()) as ArrayRef);
        fields.push(Arc::new(
            field.as_ref().clone().with_data_type(DataType::Utf8View),
        ));
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// Returns the number of empty texts of a column.
fn empty_texts(column: &ArrayRef) -> usize {
    let empty = |text: &Option<&str>| *text == Some("");
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().iter().filter(empty).count(),
        DataType::LargeUtf8 => column.as_string::<i64>().iter().filter(empty).count(),
        DataType::Utf8View => column.as_string_view().iter().filter(empty).count(),
        _ => 0,
    }
}

/// Returns a column with `marker` for empty texts.
fn marked(column: &ArrayRef, marker: &str) -> ArrayRef {
    fn mark_texts<O: OffsetSizeTrait>(column: &ArrayRef, marker: &str) -> ArrayRef {
        let texts = column.as_string::<O>().iter().map(|text| mark(text, marker));
        Arc::new(texts.collect::<GenericStringArray<O>>())
    }
    match column.data_type() {
        _ if empty_texts(column) == 0 => Arc::clone(column),
        DataType::Utf8 => mark_texts::<i32>(column, marker),
        DataType::LargeUtf8 => mark_texts::<i64>(column, marker),
        _ => {
            let texts = column.as_string_view().iter().map(|text| mark(text, marker));
            Arc::new(texts.collect::<StringViewArray>())
        }
    }
}

fn mark<'a>(text: Option<&'a str>, marker: &'a str) -> Option<&'a str> {
    match text {
        Some("") => Some(marker),
        other => other,
    }
}

/// Replaces a marker in `text` by other bytes.
fn replaced(text: &[u8], marker: &[u8], by: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(byte) = rest.first() {
        match rest.strip_prefix(marker) {
            Some(behind) => {
                out.extend_from_slice(by);
                rest = behind;
            }
            None => {
                out.push(*byte);
                rest = &rest[1..];
            }
        }
    }
    out
}
