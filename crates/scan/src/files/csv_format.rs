//! CSV files as `COPY … TO` writes them: NULL is an empty field, an empty text or binary a quoted one, and a
//! binary the text that imports read back. DataFusion writes both as nothing, and binaries as bare digits.
//! All else is DataFusion's format: reading, and files for which a statement sets the text of NULL or the
//! style of quotes.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, StringViewArray};
use arrow_cast::cast::cast;
use arrow_cast::display::FormatOptions;
use arrow_schema::{ArrowError, DataType, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::arrow::csv::{QuoteStyle, WriterBuilder};
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
use halocline_import::{CsvRows, CsvStyle, text_of_bytes};

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
        let builder = &self.options.writer_options;
        let is_default = builder.null().is_empty() && matches!(builder.quote_style(), QuoteStyle::Necessary);
        let has_nested = batch
            .columns()
            .iter()
            .any(|column| column.data_type().is_nested());
        // DataFusion's writer has the error for nested types.
        if !is_default || has_nested {
            let serializer = CsvSerializer::new().with_builder(builder.clone());
            return serializer.with_header(builder.header()).serialize(batch, initial);
        }
        let style = style_of(builder);
        let mut text = Vec::new();
        if initial && builder.header() {
            style.push_names(&batch.schema(), &mut text);
        }
        let mut rows = CsvRows::new(&batch, &style)?;
        for row in 0..batch.num_rows() {
            rows.push(row, &mut text).map_err(|(column, error)| {
                let (row, column) = (row + 1, column + 1);
                ArrowError::CsvError(format!("Error processing row {row}, col {column}: {error}"))
            })?;
        }
        Ok(text.into())
    }
}

/// Returns the style that the options of a statement ask for.
fn style_of(builder: &WriterBuilder) -> CsvStyle<'_> {
    CsvStyle {
        delimiter: builder.delimiter(),
        quote: builder.quote(),
        escape: (!builder.double_quote()).then(|| builder.escape()),
        trim: match (
            builder.ignore_leading_whitespace(),
            builder.ignore_trailing_whitespace(),
        ) {
            (true, true) => str::trim,
            (true, false) => str::trim_start,
            (false, true) => str::trim_end,
            (false, false) => |text| text,
        },
        formats: FormatOptions::default()
            .with_date_format(builder.date_format())
            .with_datetime_format(builder.datetime_format())
            .with_timestamp_format(builder.timestamp_format())
            .with_timestamp_tz_format(builder.timestamp_tz_format())
            .with_time_format(builder.time_format()),
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
