//! Parquet files in place: DataFusion's format over metadata without what cannot be trusted
//! ([`sound_metadata`]).

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::parquet::{ParquetFormat, ParquetFormatFactory};
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory, FileMeta};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{
    FileScanConfig, FileScanConfigBuilder, FileSinkConfig, FileSource, ParquetFileReaderFactory,
    ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::future::{BoxFuture, FutureExt};
use halocline_import::sound_metadata;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::file::metadata::ParquetMetaData;

/// Makes the format of Parquet files.
#[derive(Debug, Default)]
pub struct ParquetFiles {
    inner: ParquetFormatFactory,
}

impl GetExt for ParquetFiles {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }
}

impl FileFormatFactory for ParquetFiles {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let inner = self.inner.create(state, options)?;
        Ok(Arc::new(SoundParquet { inner }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        let inner = Arc::new(ParquetFormat::default());
        Arc::new(SoundParquet { inner })
    }
}

/// DataFusion's format over metadata without what cannot be trusted.
#[derive(Debug)]
struct SoundParquet {
    inner: Arc<dyn FileFormat>,
}

impl SoundParquet {
    async fn statistics(
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: &SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
        let metadata = DFParquetMetadata::new(store, object)
            .with_file_metadata_cache(Some(cache))
            .fetch_metadata()
            .await?;
        DFParquetMetadata::statistics_from_parquet_metadata(&sound_metadata(metadata), schema)
    }
}

#[async_trait]
impl FileFormat for SoundParquet {
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
        Self::statistics(state, store, &schema, object).await
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        self.inner.infer_ordering(state, store, schema, object).await
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        let statistics = Self::statistics(state, store, &schema, object).await?;
        let ordering = self.inner.infer_ordering(state, store, schema, object).await?;
        Ok(FileMeta::new(statistics).with_ordering(ordering))
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.inner.create_physical_plan(state, config).await?;
        let config = plan
            .downcast_ref::<DataSourceExec>()
            .and_then(|exec| exec.data_source().downcast_ref::<FileScanConfig>());
        let Some(config) = config else { return Ok(plan) };
        let Some(source) = config.file_source().downcast_ref::<ParquetSource>() else {
            return Ok(plan);
        };
        let Some(readers) = source.parquet_file_reader_factory() else {
            return Ok(plan);
        };
        let readers = Arc::new(SoundReaders(Arc::clone(readers)));
        let source = source.clone().with_parquet_file_reader_factory(readers);
        let config = FileScanConfigBuilder::from(config.clone())
            .with_source(Arc::new(source))
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner
            .create_writer_physical_plan(input, state, config, order)
            .await
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        self.inner.file_source(schema)
    }
}

/// Makes readers of files.
#[derive(Debug)]
struct SoundReaders(Arc<dyn ParquetFileReaderFactory>);

impl ParquetFileReaderFactory for SoundReaders {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let inner = self
            .0
            .create_reader(partition, file, metadata_size_hint, metrics)?;
        Ok(Box::new(SoundReader(inner)))
    }
}

/// A reader of a file.
struct SoundReader(Box<dyn AsyncFileReader + Send>);

impl fmt::Debug for SoundReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SoundReader")
    }
}

impl AsyncFileReader for SoundReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        self.0.get_bytes(range)
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        self.0.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        let metadata = self.0.get_metadata(options);
        async move { Ok(sound_metadata(metadata.await?)) }.boxed()
    }
}
