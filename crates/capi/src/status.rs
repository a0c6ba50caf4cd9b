//! Statuses and texts of errors.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use halocline_engine::EngineError;
use halocline_pool::PoolError;
use halocline_store::StoreError;

/// The result of a call.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HlStatus {
    /// The call did what it should.
    Ok = 0,
    /// There is no such key, or a scan has ended. No error: `hl_error` stays as it is.
    NotFound = 1,
    /// The condition of `hl_compare_and_swap` does not hold, or another transaction changed what this one
    /// depends on: run it again.
    Conflict = 2,
    /// An argument is null, too long, not UTF-8, or of another database.
    Invalid = 3,
    /// Another process has the pool or its stores open, or writes them.
    Busy = 4,
    /// Durable bytes are not what was written.
    Damaged = 5,
    /// There is no such file, store or table, or the system refused an operation.
    Failed = 6,
    /// A defect of the library.
    Panic = 7,
}

thread_local! {
    static TEXT: RefCell<CString> = RefCell::new(CString::default());
}

/// Returns the text of the last error of the calling thread, valid until its next call.
#[unsafe(no_mangle)]
pub extern "C" fn hl_error() -> *const c_char {
    TEXT.with_borrow(|text| text.as_ptr())
}

/// An error on its way to the caller.
#[derive(Debug)]
pub(crate) struct CallError {
    status: HlStatus,
    text: String,
}

impl CallError {
    /// Creates the error for an invalid argument.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self {
            status: HlStatus::Invalid,
            text: text.into(),
        }
    }

    pub(crate) fn failed(text: impl ToString) -> Self {
        Self {
            status: HlStatus::Failed,
            text: text.to_string(),
        }
    }
}

impl From<StoreError> for CallError {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::KeyTooLong { .. }
            | StoreError::ValueTooLong { .. }
            | StoreError::InvalidName { .. }
            | StoreError::Foreign { .. } => HlStatus::Invalid,
            StoreError::Conflict { .. } => HlStatus::Conflict,
            StoreError::Damaged { .. } => HlStatus::Damaged,
            StoreError::Pool(PoolError::SlabInUse { .. } | PoolError::Locked { .. }) => HlStatus::Busy,
            _ => HlStatus::Failed,
        };
        Self {
            status,
            text: error.to_string(),
        }
    }
}

impl From<EngineError> for CallError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            error => Self::failed(error),
        }
    }
}

/// Runs a call: keeps the text of an error, and turns a panic into one.
pub(crate) fn call(run: impl FnOnce() -> Result<HlStatus, CallError>) -> HlStatus {
    let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        Err(CallError {
            status: HlStatus::Panic,
            text: "the library has a defect; its message is on the standard error".to_owned(),
        })
    });
    match result {
        Ok(status) => status,
        Err(error) => {
            let text = CString::new(error.text.replace('\0', " ")).unwrap_or_default();
            TEXT.set(text);
            error.status
        }
    }
}

/// Closes a handle.
///
/// # Safety
/// The pointer is null or one that a call of this library returned for a handle, and was not closed before.
pub(crate) unsafe fn close<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: the caller promises a live handle, which came from `Box::into_raw`.
        let handle = unsafe { Box::from_raw(handle) };
        call(|| {
            drop(handle);
            Ok(HlStatus::Ok)
        });
    }
}

/// Hands a handle out.
///
/// # Safety
/// `out` is null or valid for a store of a pointer.
pub(crate) unsafe fn hand_out<T>(out: *mut *mut T, make: impl FnOnce() -> Result<T, CallError>) -> HlStatus {
    call(|| {
        if out.is_null() {
            return Err(CallError::invalid("the pointer for the handle is null"));
        }
        // SAFETY: it is not null, and the caller promises that it is valid.
        unsafe { *out = ptr::null_mut() };
        let handle = Box::into_raw(Box::new(make()?));
        // SAFETY: as above.
        unsafe { *out = handle };
        Ok(HlStatus::Ok)
    })
}
