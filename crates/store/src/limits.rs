//! The limits of keys and values.

use crate::error::{Result, StoreError};
use crate::layout::{MAX_KEY, MAX_VALUE};
use crate::state::StoreState;

/// Fails if a key is too long.
pub(crate) fn check_key(store: &StoreState, key: &[u8]) -> Result<()> {
    match key.len() {
        0..=MAX_KEY => Ok(()),
        len => Err(StoreError::KeyTooLong {
            store: store.name.clone(),
            len,
        }),
    }
}

/// Fails if a value is too long.
pub(crate) fn check_value(store: &StoreState, value: &[u8]) -> Result<()> {
    match value.len() {
        0..=MAX_VALUE => Ok(()),
        len => Err(StoreError::ValueTooLong {
            store: store.name.clone(),
            len,
        }),
    }
}
