//! Transactions.

use halocline_store::StoreTransaction;

use crate::arguments::{bytes, handle, handle_mut};
use crate::database::HlDatabase;
use crate::status::{CallError, HlStatus, call, close, hand_out};
use crate::store::{HlStore, hand_out_value};

/// A serialisable transaction over any stores of a pool. One thread at a time may use it.
pub struct HlTransaction {
    transaction: StoreTransaction,
}

/// Begins a transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_begin(database: *const HlDatabase, out: *mut *mut HlTransaction) -> HlStatus {
    // SAFETY: the caller promises a live handle and a valid place for the new one.
    unsafe {
        hand_out(out, || {
            let transaction = handle(database, "database")?.database.stores()?.begin();
            Ok(HlTransaction { transaction })
        })
    }
}

/// Sets the value of a key as the transaction sees it. The caller frees it with `hl_free`.
/// `HL_STATUS_NOT_FOUND` without a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_transaction_get(
    transaction: *mut HlTransaction,
    store: *const HlStore,
    key: *const u8,
    key_len: usize,
    value: *mut *mut u8,
    value_len: *mut usize,
) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises live handles, of which the transaction is its own, and valid bytes.
        let (transaction, store) =
            unsafe { (handle_mut(transaction, "transaction")?, handle(store, "store")?) };
        // SAFETY: as above.
        let key = unsafe { bytes(key, key_len, "key")? };
        let found = transaction.transaction.get(&store.store, key)?;
        // SAFETY: the caller promises that both places are null or valid.
        unsafe { hand_out_value(found, value, value_len) }
    })
}

/// Sets the value of a key in a transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_transaction_put(
    transaction: *mut HlTransaction,
    store: *const HlStore,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises live handles, of which the transaction is its own, and valid bytes.
        let (transaction, store) =
            unsafe { (handle_mut(transaction, "transaction")?, handle(store, "store")?) };
        // SAFETY: as above.
        let (key, value) = unsafe { (bytes(key, key_len, "key")?, bytes(value, value_len, "value")?) };
        transaction.transaction.put(&store.store, key, value)?;
        Ok(HlStatus::Ok)
    })
}

/// Deletes a key in a transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_transaction_delete(
    transaction: *mut HlTransaction,
    store: *const HlStore,
    key: *const u8,
    key_len: usize,
) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises live handles, of which the transaction is its own, and valid bytes.
        let (transaction, store) =
            unsafe { (handle_mut(transaction, "transaction")?, handle(store, "store")?) };
        // SAFETY: as above.
        let key = unsafe { bytes(key, key_len, "key")? };
        transaction.transaction.delete(&store.store, key)?;
        Ok(HlStatus::Ok)
    })
}

/// Makes all writes of a transaction durable together, and closes it in any case. `HL_STATUS_CONFLICT` if
/// another one changed what it depends on: nothing was written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_commit(transaction: *mut HlTransaction) -> HlStatus {
    call(|| {
        if transaction.is_null() {
            return Err(CallError::invalid("the transaction is null"));
        }
        // SAFETY: not null, and the caller promises a live handle, which came from `Box::into_raw`.
        let transaction = unsafe { Box::from_raw(transaction) };
        transaction.transaction.commit()?;
        Ok(HlStatus::Ok)
    })
}

/// Discards a transaction and closes it; null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_rollback(transaction: *mut HlTransaction) {
    // SAFETY: the caller promises null or a live handle.
    unsafe { close(transaction) }
}
