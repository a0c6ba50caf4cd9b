//! Scans of ranges of keys.

use std::ops::Bound;

use halocline_store::Scan;

use crate::arguments::{bytes, handle, handle_mut};
use crate::status::{CallError, HlStatus, call, close, hand_out};
use crate::store::HlStore;

/// A scan. One thread at a time may use it.
pub struct HlScan {
    scan: Scan,
    reverse: bool,
    /// The pair that the caller may read.
    pair: (Vec<u8>, Vec<u8>),
}

/// Scans the keys from `from` on and below `to`, as of now; a null pointer leaves a side open. With `reverse`
/// from the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_scan(
    store: *const HlStore,
    from: *const u8,
    from_len: usize,
    to: *const u8,
    to_len: usize,
    reverse: bool,
    out: *mut *mut HlScan,
) -> HlStatus {
    // SAFETY: the caller promises a live handle, valid bytes and a valid place for the handle.
    unsafe {
        hand_out(out, || {
            let store = handle(store, "store")?;
            let lower = if from.is_null() && from_len == 0 {
                Bound::Unbounded
            } else {
                Bound::Included(bytes(from, from_len, "lower bound")?)
            };
            let upper = if to.is_null() && to_len == 0 {
                Bound::Unbounded
            } else {
                Bound::Excluded(bytes(to, to_len, "upper bound")?)
            };
            Ok(HlScan {
                scan: store.store.scan::<&[u8]>((lower, upper)),
                reverse,
                pair: Default::default(),
            })
        })
    }
}

/// Sets key and value of the next pair, which stay valid until the next call for this scan.
/// `HL_STATUS_NOT_FOUND` at the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_scan_next(
    scan: *mut HlScan,
    key: *mut *const u8,
    key_len: *mut usize,
    value: *mut *const u8,
    value_len: *mut usize,
) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises a live handle that nobody else uses.
        let scan = unsafe { handle_mut(scan, "scan")? };
        if key.is_null() || key_len.is_null() || value.is_null() || value_len.is_null() {
            return Err(CallError::invalid("a pointer for the pair is null"));
        }
        let next = if scan.reverse {
            scan.scan.next_back()
        } else {
            scan.scan.next()
        };
        let Some(pair) = next.transpose()? else {
            return Ok(HlStatus::NotFound);
        };
        scan.pair = pair;
        // SAFETY: none is null, and the caller promises that they are valid.
        unsafe {
            (*key, *key_len) = (scan.pair.0.as_ptr(), scan.pair.0.len());
            (*value, *value_len) = (scan.pair.1.as_ptr(), scan.pair.1.len());
        }
        Ok(HlStatus::Ok)
    })
}

/// Closes a scan; null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_scan_close(scan: *mut HlScan) {
    // SAFETY: the caller promises null or a live handle.
    unsafe { close(scan) }
}
