//! Stores: single keys.

use std::ffi::c_char;
use std::ptr;
use std::time::Duration;

use halocline_store::Store;

use crate::arguments::{bytes, handle, text};
use crate::database::HlDatabase;
use crate::status::{CallError, HlStatus, call, close, hand_out};

/// An open store.
pub struct HlStore {
    pub(crate) store: Store,
}

/// Opens the store of a name, which is created durably if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_store(
    database: *const HlDatabase,
    name: *const c_char,
    out: *mut *mut HlStore,
) -> HlStatus {
    // SAFETY: the caller promises a live handle, a valid text and a valid place for the handle.
    unsafe {
        hand_out(out, || {
            let store = handle(database, "database")?
                .database
                .store(text(name, "name")?)?;
            Ok(HlStore { store })
        })
    }
}

/// Removes the store of a name with all its keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_store_drop(database: *const HlDatabase, name: *const c_char) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises a live handle and a valid text.
        let (database, name) = unsafe { (handle(database, "database")?, text(name, "name")?) };
        database.database.stores()?.drop_store(name)?;
        Ok(HlStatus::Ok)
    })
}

/// Closes a store; null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_store_close(store: *mut HlStore) {
    // SAFETY: the caller promises null or a live handle.
    unsafe { close(store) }
}

/// Sets the number of keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_store_len(store: *const HlStore, out: *mut u64) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises a live handle.
        let store = unsafe { handle(store, "store")? };
        if out.is_null() {
            return Err(CallError::invalid("the pointer for the number is null"));
        }
        // SAFETY: not null, and the caller promises that it is valid.
        unsafe { *out = store.store.len() };
        Ok(HlStatus::Ok)
    })
}

/// Sets the value of a key, durably.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_put(
    store: *const HlStore,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises a live handle and valid bytes.
        let (store, key, value) = unsafe {
            (
                handle(store, "store")?,
                bytes(key, key_len, "key")?,
                bytes(value, value_len, "value")?,
            )
        };
        store.store.put(key, value)?;
        Ok(HlStatus::Ok)
    })
}

/// Sets the value of a key, durably; it expires after `ttl_ms` milliseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_put_with_ttl(
    store: *const HlStore,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    ttl_ms: u64,
) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises a live handle and valid bytes.
        let (store, key, value) = unsafe {
            (
                handle(store, "store")?,
                bytes(key, key_len, "key")?,
                bytes(value, value_len, "value")?,
            )
        };
        store
            .store
            .put_with_ttl(key, value, Duration::from_millis(ttl_ms))?;
        Ok(HlStatus::Ok)
    })
}

/// Deletes a key, if it is there, durably.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_delete(store: *const HlStore, key: *const u8, key_len: usize) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises a live handle and valid bytes.
        let (store, key) = unsafe { (handle(store, "store")?, bytes(key, key_len, "key")?) };
        store.store.delete(key)?;
        Ok(HlStatus::Ok)
    })
}

/// Sets the value of a key. The caller frees it with `hl_free`. `HL_STATUS_NOT_FOUND` without a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_get(
    store: *const HlStore,
    key: *const u8,
    key_len: usize,
    value: *mut *mut u8,
    value_len: *mut usize,
) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises a live handle and valid bytes.
        let (store, key) = unsafe { (handle(store, "store")?, bytes(key, key_len, "key")?) };
        // SAFETY: the caller promises that both places are null or valid.
        unsafe { hand_out_value(store.store.get(key)?, value, value_len) }
    })
}

/// Replaces the value of a key by `value` if it is `expected`. A null `expected` stands for no value; a null
/// `value` deletes the key. `HL_STATUS_CONFLICT` if it is not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_compare_and_swap(
    store: *const HlStore,
    key: *const u8,
    key_len: usize,
    expected: *const u8,
    expected_len: usize,
    value: *const u8,
    value_len: usize,
) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises a live handle and valid bytes.
        let (store, key, old, new) = unsafe {
            (
                handle(store, "store")?,
                bytes(key, key_len, "key")?,
                bytes(expected, expected_len, "expected value")?,
                bytes(value, value_len, "value")?,
            )
        };
        let old = (!expected.is_null()).then_some(old);
        let new = (!value.is_null()).then_some(new);
        if store.store.compare_and_swap(key, old, new)? {
            Ok(HlStatus::Ok)
        } else {
            Ok(HlStatus::Conflict)
        }
    })
}

/// Frees a value that `hl_get` or `hl_transaction_get` returned; null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_free(value: *mut u8, value_len: usize) {
    if !value.is_null() {
        // SAFETY: the caller promises that both came from one call, which made them of a boxed slice.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(value, value_len)) });
    }
}

/// Hands a value out, which the caller frees with `hl_free`.
///
/// # Safety
/// Both pointers are null or valid for a store.
pub(crate) unsafe fn hand_out_value(
    found: Option<Vec<u8>>,
    value: *mut *mut u8,
    value_len: *mut usize,
) -> Result<HlStatus, CallError> {
    if value.is_null() || value_len.is_null() {
        return Err(CallError::invalid("a pointer for the value is null"));
    }
    let status = match &found {
        Some(_) => HlStatus::Ok,
        None => HlStatus::NotFound,
    };
    let (data, len) = match found {
        Some(found) => {
            let len = found.len();
            (Box::into_raw(found.into_boxed_slice()).cast::<u8>(), len)
        }
        None => (ptr::null_mut(), 0),
    };
    // SAFETY: neither is null, and the caller promises that they are valid.
    unsafe {
        *value = data;
        *value_len = len;
    }
    Ok(status)
}
