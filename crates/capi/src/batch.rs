//! Batches of writes.

use halocline_store::WriteBatch;

use crate::arguments::{bytes, handle, handle_mut};
use crate::database::HlDatabase;
use crate::status::{HlStatus, call, close, hand_out};
use crate::store::HlStore;

/// Writes that take effect together. One thread at a time may use it.
#[derive(Default)]
pub struct HlBatch {
    batch: WriteBatch,
}

/// Makes an empty batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_batch_new(out: *mut *mut HlBatch) -> HlStatus {
    // SAFETY: the caller promises a valid place for the handle.
    unsafe { hand_out(out, || Ok(HlBatch::default())) }
}

/// Adds a write of a key to a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_batch_put(
    batch: *mut HlBatch,
    store: *const HlStore,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises live handles, of which the batch is its own, and valid bytes.
        let (batch, store) = unsafe { (handle_mut(batch, "batch")?, handle(store, "store")?) };
        // SAFETY: as above.
        let (key, value) = unsafe { (bytes(key, key_len, "key")?, bytes(value, value_len, "value")?) };
        batch.batch.put(&store.store, key, value)?;
        Ok(HlStatus::Ok)
    })
}

/// Adds a deletion of a key to a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_batch_delete(
    batch: *mut HlBatch,
    store: *const HlStore,
    key: *const u8,
    key_len: usize,
) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises live handles, of which the batch is its own, and valid bytes.
        let (batch, store) = unsafe { (handle_mut(batch, "batch")?, handle(store, "store")?) };
        // SAFETY: as above.
        let key = unsafe { bytes(key, key_len, "key")? };
        batch.batch.delete(&store.store, key)?;
        Ok(HlStatus::Ok)
    })
}

/// Removes all writes from a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_batch_clear(batch: *mut HlBatch) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises a live handle that nobody else uses.
        unsafe { handle_mut(batch, "batch")? }.batch = WriteBatch::new();
        Ok(HlStatus::Ok)
    })
}

/// Makes all writes of a batch durable together. The batch is empty afterwards, unless this fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_write(database: *const HlDatabase, batch: *mut HlBatch) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises live handles, of which the batch is its own.
        let (database, batch) = unsafe { (handle(database, "database")?, handle_mut(batch, "batch")?) };
        database.database.stores()?.write(batch.batch.clone())?;
        batch.batch = WriteBatch::new();
        Ok(HlStatus::Ok)
    })
}

/// Closes a batch; null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_batch_close(batch: *mut HlBatch) {
    // SAFETY: the caller promises null or a live handle.
    unsafe { close(batch) }
}
