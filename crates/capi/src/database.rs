//! Opening and closing.

use std::ffi::c_char;
use std::path::Path;
use std::sync::Arc;

use halocline_engine::{Database, DatabaseOptions};
use tokio::runtime::Runtime;

use crate::arguments::text;
use crate::status::{CallError, HlStatus, close, hand_out};

/// An open pool.
pub struct HlDatabase {
    pub(crate) database: Database,
    /// Runs the statements of `hl_sql`.
    pub(crate) runtime: Arc<Runtime>,
}

impl HlDatabase {
    fn new(database: Database) -> Result<Self, CallError> {
        let runtime = Runtime::new().map_err(CallError::failed)?;
        Ok(Self {
            database,
            runtime: Arc::new(runtime),
        })
    }
}

/// Creates a pool, which must not exist, and opens it. `path` is UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_create(path: *const c_char, out: *mut *mut HlDatabase) -> HlStatus {
    // SAFETY: the caller promises a valid text and a valid place for the handle.
    unsafe {
        hand_out(out, || {
            let path = Path::new(text(path, "path")?);
            HlDatabase::new(Database::create(path, &DatabaseOptions::default())?)
        })
    }
}

/// Opens a pool, which must exist. `path` is UTF-8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_open(path: *const c_char, out: *mut *mut HlDatabase) -> HlStatus {
    // SAFETY: the caller promises a valid text and a valid place for the handle.
    unsafe {
        hand_out(out, || {
            let path = Path::new(text(path, "path")?);
            HlDatabase::new(Database::open(path, &DatabaseOptions::default())?)
        })
    }
}

/// Closes a pool; null is ignored. Stores, scans, transactions and streams of it stay valid, and the file
/// stays open as long as one of them is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_close(database: *mut HlDatabase) {
    // SAFETY: the caller promises null or a live handle.
    unsafe { close(database) }
}

/// Returns the version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn hl_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
