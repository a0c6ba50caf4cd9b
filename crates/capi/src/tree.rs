//! Ordered trees of 64-bit keys and values.

use std::ffi::c_char;

use halocline_engine::{OrderedIndex, TreeKind};
use halocline_ordered::{Range, TreeError};

use crate::arguments::{handle, text};
use crate::database::HlDatabase;
use crate::status::{CallError, HlStatus, call, close, hand_out};

/// An open tree.
pub struct HlTree {
    tree: Box<dyn OrderedIndex>,
}

impl From<TreeError> for CallError {
    fn from(error: TreeError) -> Self {
        Self::failed(error)
    }
}

/// Creates an empty tree and opens it. `kind` is `lb`, `lb2`, `lb4`, `fp`, `wb` or `fast-fair`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_tree_create(
    database: *const HlDatabase,
    name: *const c_char,
    kind: *const c_char,
    out: *mut *mut HlTree,
) -> HlStatus {
    // SAFETY: the caller promises a live handle, valid texts and a valid place for the handle.
    unsafe {
        hand_out(out, || {
            let kind: TreeKind = text(kind, "kind")?.parse()?;
            let tree = handle(database, "database")?
                .database
                .create_tree(text(name, "name")?, kind)?;
            Ok(HlTree { tree })
        })
    }
}

/// Opens a tree that exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_tree(
    database: *const HlDatabase,
    name: *const c_char,
    out: *mut *mut HlTree,
) -> HlStatus {
    // SAFETY: the caller promises a live handle, a valid text and a valid place for the handle.
    unsafe {
        hand_out(out, || {
            let tree = handle(database, "database")?.database.tree(text(name, "name")?)?;
            Ok(HlTree { tree })
        })
    }
}

/// Closes a tree; null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_tree_close(tree: *mut HlTree) {
    // SAFETY: the caller promises null or a live handle.
    unsafe { close(tree) }
}

/// Adds an entry. `HL_STATUS_CONFLICT` if the key is there; its value stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_tree_insert(tree: *const HlTree, key: u64, value: u64) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises a live handle.
        let inserted = unsafe { handle(tree, "tree")? }.tree.insert(key, value)?;
        Ok(if inserted {
            HlStatus::Ok
        } else {
            HlStatus::Conflict
        })
    })
}

/// Replaces the value of an entry. `HL_STATUS_NOT_FOUND` if the key is not there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_tree_update(tree: *const HlTree, key: u64, value: u64) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises a live handle.
        let before = unsafe { handle(tree, "tree")? }.tree.update(key, value)?;
        Ok(found(before.is_some()))
    })
}

/// Removes an entry. `HL_STATUS_NOT_FOUND` if the key is not there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_tree_remove(tree: *const HlTree, key: u64) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises a live handle.
        let before = unsafe { handle(tree, "tree")? }.tree.remove(key)?;
        Ok(found(before.is_some()))
    })
}

/// Sets the value of a key. `HL_STATUS_NOT_FOUND` if the key is not there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_tree_get(tree: *const HlTree, key: u64, value: *mut u64) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises a live handle.
        let tree = unsafe { handle(tree, "tree")? };
        if value.is_null() {
            return Err(CallError::invalid("the pointer for the value is null"));
        }
        let value_found = tree.tree.get(key)?;
        if let Some(found) = value_found {
            // SAFETY: not null, and the caller promises that it is valid.
            unsafe { *value = found };
        }
        Ok(found(value_found.is_some()))
    })
}

/// Writes up to `most` entries from a key on to `entries`, as key, value, key, value …, and sets their
/// number. `entries` has room for `2 * most` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hl_tree_scan(
    tree: *const HlTree,
    from: u64,
    most: usize,
    entries: *mut u64,
    count: *mut usize,
) -> HlStatus {
    call(|| {
        // SAFETY: the caller promises a live handle.
        let tree = unsafe { handle(tree, "tree")? };
        if count.is_null() || entries.is_null() && most > 0 {
            return Err(CallError::invalid("a pointer for the entries is null"));
        }
        let mut written = 0;
        for entry in Range::new(&*tree.tree, from..).take(most) {
            let (key, value) = entry?;
            // SAFETY: not null, and the caller promises room for `2 * most` numbers.
            unsafe {
                entries.add(2 * written).write(key);
                entries.add(2 * written + 1).write(value);
            }
            written += 1;
        }
        // SAFETY: not null, and the caller promises that it is valid.
        unsafe { *count = written };
        Ok(HlStatus::Ok)
    })
}

fn found(found: bool) -> HlStatus {
    if found { HlStatus::Ok } else { HlStatus::NotFound }
}
