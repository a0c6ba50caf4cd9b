//! The local file system as a statement that writes files sees it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::object_store::path::Path as ObjectPath;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use futures::stream::{BoxStream, StreamExt};
use halocline_sql::EngineError;

use super::OutputFiles;
use super::staged::StagedFile;

const NAME: &str = "files";

/// Reads files where they lie, and writes them as files of the statement.
#[derive(Debug)]
pub(super) struct WritingStore {
    inner: LocalFileSystem,
    files: Arc<OutputFiles>,
}

impl fmt::Display for WritingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

impl WritingStore {
    pub(super) fn new(files: Arc<OutputFiles>) -> Self {
        Self {
            inner: LocalFileSystem::new(),
            files,
        }
    }

    async fn create(&self, location: &ObjectPath) -> Result<Upload> {
        let path = self.inner.path_to_filesystem(location)?;
        let files = Arc::clone(&self.files);
        let file = blocking(&self.files, move || files.create(&path)).await?;
        Ok(Upload {
            files: Arc::clone(&self.files),
            file: Some(Arc::new(file)),
            offset: 0,
        })
    }
}

/// Runs something that may wait for the disk; an error of ours is kept for the statement.
async fn blocking<T: Send + 'static>(
    files: &Arc<OutputFiles>,
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await?;
    done.map_err(|error| generic(files.fail(error)))
}

fn generic(text: impl Into<String>) -> Error {
    Error::Generic {
        store: NAME,
        source: text.into().into(),
    }
}

fn not_offered(operation: &str) -> Error {
    generic(format!("{operation} is not offered"))
}

/// A file that is written part by part.
#[derive(Debug)]
struct Upload {
    files: Arc<OutputFiles>,
    /// `None` when it is complete or given up.
    file: Option<Arc<StagedFile>>,
    offset: u64,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let offset = self.offset;
        self.offset += data.content_length() as u64;
        let (files, file) = (Arc::clone(&self.files), self.file.clone());
        Box::pin(async move {
            let file = file.ok_or_else(|| generic("the file is complete"))?;
            blocking(&files, move || {
                let mut at = offset;
                data.iter().try_for_each(|bytes| {
                    file.write(bytes, at)?;
                    at += bytes.len() as u64;
                    Ok(())
                })
            })
            .await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let file = self.file.take().and_then(Arc::into_inner);
        let file = file.ok_or_else(|| generic("the file is complete, or still written"))?;
        self.files.complete().push(file);
        Ok(PutResult {
            e_tag: None,
            version: None,
        })
    }

    async fn abort(&mut self) -> Result<()> {
        self.file = None;
        Ok(())
    }
}

#[async_trait]
impl ObjectStore for WritingStore {
    async fn put_opts(
        &self,
        location: &ObjectPath,
        payload: PutPayload,
        _options: PutOptions,
    ) -> Result<PutResult> {
        let mut upload = self.create(location).await?;
        upload.put_part(payload).await?;
        upload.complete().await
    }

    async fn put_multipart_opts(
        &self,
        location: &ObjectPath,
        _options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Ok(Box::new(self.create(location).await?))
    }

    async fn get_opts(&self, location: &ObjectPath, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        _locations: BoxStream<'static, Result<ObjectPath>>,
    ) -> BoxStream<'static, Result<ObjectPath>> {
        futures::stream::once(async { Err(not_offered("deleting")) }).boxed()
    }

    fn list(&self, prefix: Option<&ObjectPath>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&ObjectPath>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _from: &ObjectPath, _to: &ObjectPath, _options: CopyOptions) -> Result<()> {
        Err(not_offered("copying"))
    }
}
