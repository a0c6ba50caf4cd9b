//! SQL through the Arrow C stream interface.

use std::ffi::c_char;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use futures::StreamExt;
use halocline_engine::BatchStream;
use tokio::runtime::Runtime;

use crate::arguments::{handle, text};
use crate::database::HlDatabase;
use crate::status::{CallError, HlStatus, call};

/// The rows of a statement, which are computed as they are read.
struct StatementRows {
    stream: BatchStream,
    runtime: Arc<Runtime>,
}

impl Iterator for StatementRows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.runtime.block_on(self.stream.next())?;
        Some(next.map_err(|error| ArrowError::ExternalError(Box::new(error))))
    }
}

impl RecordBatchReader for StatementRows {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}

/// Runs a statement. Its rows arrive through `out`, an `ArrowArrayStream` of the Arrow C stream interface
/// that the caller releases; a statement without rows has a stream without columns. With a null `out`, the
/// statement is run to its end and its rows are dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_sql(
    database: *const HlDatabase,
    statement: *const c_char,
    out: *mut FFI_ArrowArrayStream,
) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises a live handle and a valid text.
        let (database, statement) = unsafe { (handle(database, "database")?, text(statement, "statement")?) };
        let result = database.runtime.block_on(database.database.sql(statement))?;
        if out.is_null() {
            let mut stream = result.stream();
            while let Some(batch) = database.runtime.block_on(stream.next()) {
                batch.map_err(CallError::from)?;
            }
            return Ok(HlStatus::Ok);
        }
        let rows = StatementRows {
            stream: result.stream(),
            runtime: Arc::clone(&database.runtime),
        };
        let stream = FFI_ArrowArrayStream::new(Box::new(rows));
        // SAFETY: not null, and the caller promises a place for a stream, whose old contents do not matter.
        unsafe { out.write(stream) };
        Ok(HlStatus::Ok)
    })
}
