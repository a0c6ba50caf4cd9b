//! Arguments of calls: bytes, texts, handles.

use std::ffi::{CStr, c_char};
use std::slice;

use crate::status::CallError;

/// Returns the bytes of a pointer and a length. Null is valid for a length of 0.
///
/// # Safety
/// The pointer is null or valid for loads of `len` bytes that nobody changes meanwhile.
pub(crate) unsafe fn bytes<'a>(data: *const u8, len: usize, what: &str) -> Result<&'a [u8], CallError> {
    match (data.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(CallError::invalid(format!(
            "the {what} is null, with a length of {len}"
        ))),
        (false, _) if isize::try_from(len).is_err() => {
            Err(CallError::invalid(format!("the length of the {what} is {len}")))
        }
        // SAFETY: not null, not too long, and the caller promises that it is valid.
        (false, _) => Ok(unsafe { slice::from_raw_parts(data, len) }),
    }
}

/// Returns a text that ends with a zero byte.
///
/// # Safety
/// The pointer is null or valid for loads up to a zero byte, which nobody changes meanwhile.
pub(crate) unsafe fn text<'a>(data: *const c_char, what: &str) -> Result<&'a str, CallError> {
    if data.is_null() {
        return Err(CallError::invalid(format!("the {what} is null")));
    }
    // SAFETY: not null, and the caller promises that a zero byte ends it.
    let text = unsafe { CStr::from_ptr(data) };
    text.to_str()
        .map_err(|_| CallError::invalid(format!("the {what} is not UTF-8")))
}

/// Returns what a handle refers to.
///
/// # Safety
/// The pointer is null or a handle that was not closed.
pub(crate) unsafe fn handle<'a, T>(handle: *const T, what: &str) -> Result<&'a T, CallError> {
    // SAFETY: the caller promises a live handle.
    let found = unsafe { handle.as_ref() };
    found.ok_or_else(|| CallError::invalid(format!("the {what} is null")))
}

/// Returns what a handle refers to, for changes.
///
/// # Safety
/// The pointer is null or a handle that was not closed and that no other call uses.
pub(crate) unsafe fn handle_mut<'a, T>(handle: *mut T, what: &str) -> Result<&'a mut T, CallError> {
    // SAFETY: the caller promises a live handle that nobody else uses.
    let found = unsafe { handle.as_mut() };
    found.ok_or_else(|| CallError::invalid(format!("the {what} is null")))
}
