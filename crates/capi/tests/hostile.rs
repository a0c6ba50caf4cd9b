//! Callers that make mistakes get a status and a text.
#![allow(unsafe_code, reason = "calls the interface as a C program does")]
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "the calls of a test rest on the same facts"
)]

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use halocline_c::*;

fn error() -> String {
    // SAFETY: the text is valid until the next call of this thread.
    unsafe { CStr::from_ptr(hl_error()) }.to_str().unwrap().to_owned()
}

/// An open database with a store, closed when it is dropped.
struct Opened {
    directory: tempfile::TempDir,
    database: *mut HlDatabase,
    store: *mut HlStore,
}

impl Opened {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = CString::new(directory.path().join("p.pool").to_str().unwrap()).unwrap();
        let (mut database, mut store) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: valid texts and places.
        unsafe {
            assert_eq!(
                hl_create(path.as_ptr(), &mut database),
                HlStatus::Ok,
                "{}",
                error()
            );
            assert_eq!(
                hl_store(database, c"s".as_ptr(), &mut store),
                HlStatus::Ok,
                "{}",
                error()
            );
        }
        Self {
            directory,
            database,
            store,
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: live handles. The store outlives the database.
        unsafe {
            hl_close(self.database);
            assert_eq!(
                hl_put(self.store, b"k".as_ptr(), 1, b"v".as_ptr(), 1),
                HlStatus::Ok
            );
            hl_store_close(self.store);
        }
    }
}

#[test]
fn null_pointers_and_wrong_lengths_are_reported() {
    let opened = Opened::new();
    let (database, store) = (opened.database, opened.store);
    let (null, mut value, mut len) = (ptr::null(), ptr::null_mut(), 0);
    let key = b"key";
    // SAFETY: every pointer is null or valid for the length that is given.
    unsafe {
        let calls = [
            hl_open(ptr::null(), &mut ptr::null_mut()),
            hl_open(c"x".as_ptr(), ptr::null_mut()),
            hl_store(ptr::null(), c"s".as_ptr(), &mut ptr::null_mut()),
            hl_store(database, c"\xFF".as_ptr().cast::<c_char>(), &mut ptr::null_mut()),
            hl_store(database, c"".as_ptr(), &mut ptr::null_mut()),
            hl_put(ptr::null(), key.as_ptr(), 3, null, 0),
            hl_put(store, null, 3, null, 0),
            hl_put(store, key.as_ptr(), 3, null, 1),
            hl_put(store, key.as_ptr(), usize::MAX, null, 0),
            hl_put(store, vec![0; 2000].as_ptr(), 2000, null, 0),
            hl_put(store, key.as_ptr(), 3, vec![0; 2 << 20].as_ptr(), 2 << 20),
            hl_get(store, key.as_ptr(), 3, ptr::null_mut(), &mut len),
            hl_get(store, key.as_ptr(), 3, &mut value, ptr::null_mut()),
            hl_store_len(store, ptr::null_mut()),
            hl_batch_new(ptr::null_mut()),
            hl_batch_put(ptr::null_mut(), store, key.as_ptr(), 3, null, 0),
            hl_write(database, ptr::null_mut()),
            hl_scan(store, null, 7, null, 0, false, &mut ptr::null_mut()),
            hl_scan_next(
                ptr::null_mut(),
                &mut ptr::null(),
                &mut len,
                &mut ptr::null(),
                &mut 0,
            ),
            hl_begin(ptr::null(), &mut ptr::null_mut()),
            hl_commit(ptr::null_mut()),
            hl_sql(database, ptr::null(), ptr::null_mut()),
        ];
        for (number, status) in calls.into_iter().enumerate() {
            assert_eq!(status, HlStatus::Invalid, "call {number}: {}", error());
        }
        assert!(error().contains("statement is null"));
        // Closing nothing is nothing.
        hl_close(ptr::null_mut());
        hl_store_close(ptr::null_mut());
        hl_scan_close(ptr::null_mut());
        hl_batch_close(ptr::null_mut());
        hl_rollback(ptr::null_mut());
        hl_free(ptr::null_mut(), 0);
        assert_eq!(
            hl_get(store, key.as_ptr(), 3, &mut value, &mut len),
            HlStatus::NotFound
        );
        assert!(value.is_null() && len == 0);
    }
}

#[test]
fn errors_have_their_statuses() {
    let opened = Opened::new();
    let other = Opened::new();
    // SAFETY: live handles, valid texts and bytes.
    unsafe {
        let missing = CString::new(opened.directory.path().join("missing").to_str().unwrap()).unwrap();
        assert_eq!(hl_open(missing.as_ptr(), &mut ptr::null_mut()), HlStatus::Failed);
        // A store of another pool.
        let mut batch = ptr::null_mut();
        assert_eq!(hl_batch_new(&mut batch), HlStatus::Ok);
        assert_eq!(
            hl_batch_put(batch, other.store, b"k".as_ptr(), 1, b"v".as_ptr(), 1),
            HlStatus::Ok
        );
        assert_eq!(hl_write(opened.database, batch), HlStatus::Invalid);
        hl_batch_close(batch);
        // Stores that are open elsewhere.
        let path = CString::new(opened.directory.path().join("p.pool").to_str().unwrap()).unwrap();
        let mut second = ptr::null_mut();
        assert_eq!(hl_open(path.as_ptr(), &mut second), HlStatus::Ok, "{}", error());
        assert_eq!(
            hl_store(second, c"s".as_ptr(), &mut ptr::null_mut()),
            HlStatus::Busy,
            "{}",
            error()
        );
        hl_close(second);
        let swapped = hl_compare_and_swap(opened.store, b"k".as_ptr(), 1, b"x".as_ptr(), 1, b"y".as_ptr(), 1);
        assert_eq!(swapped, HlStatus::Conflict);
        assert_eq!(
            hl_sql(
                opened.database,
                c"SELECT * FROM nowhere".as_ptr(),
                ptr::null_mut()
            ),
            HlStatus::Failed
        );
        assert!(error().contains("nowhere"), "{}", error());
        assert_eq!(hl_store_drop(opened.database, c"t".as_ptr()), HlStatus::Failed);
    }
}

#[test]
fn rows_arrive_as_an_arrow_stream() {
    let opened = Opened::new();
    let mut stream = FFI_ArrowArrayStream::empty();
    // SAFETY: a live handle, a valid text and a place for a stream.
    let status = unsafe {
        hl_sql(
            opened.database,
            c"SELECT i AS n, i * 2 AS twice FROM generate_series(1, 20000) AS s(i)".as_ptr(),
            &mut stream,
        )
    };
    assert_eq!(status, HlStatus::Ok, "{}", error());
    let reader = ArrowArrayStreamReader::try_new(stream).unwrap();
    let rows: usize = reader.map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows, 20_000);
}
