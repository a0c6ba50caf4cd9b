//! The rows of a segment that are deleted: a bitmap in the last of its extents, read when first asked for.
//!
//! Invariants: a segment without deleted rows has no bitmap; one whose rows are all deleted does not exist.
//! Rows keep their numbers, so an index of the segment stays right as it is.

use crate::Result;
use crate::error::damaged;
use halocline_pool::{ExtentRef, Object, Txn};
use roaring::RoaringBitmap;
use std::sync::{Arc, OnceLock};

/// Deleted rows, at least one. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Deletions {
    inner: Arc<DeletionsInner>,
}

#[derive(Debug)]
struct DeletionsInner {
    count: u64,
    stored: Option<StoredDeletions>,
    bitmap: OnceLock<RoaringBitmap>,
}

/// Where the bitmap is.
#[derive(Debug)]
struct StoredDeletions {
    place: String,
    object: Object,
    extent: usize,
    rows: u64,
    /// True if the bitmap is verified even if it was before.
    again: bool,
}

impl Deletions {
    /// Refers to the `count` deleted rows, of a segment of `rows` rows, that extent `extent` of `object`
    /// holds. Reads nothing.
    pub(crate) fn stored(place: String, object: Object, extent: usize, rows: u64, count: u64) -> Self {
        let stored = StoredDeletions {
            place,
            object,
            extent,
            rows,
            again: false,
        };
        Self::new(count, Some(stored), OnceLock::new())
    }

    /// Returns the deletions for a caller that stores what it reads: the bitmap is verified again when it is
    /// read. One that is already in DRAM was verified when it was read.
    pub(crate) fn for_copying(&self) -> Self {
        match (&self.inner.stored, self.inner.bitmap.get()) {
            (Some(stored), None) => {
                let stored = StoredDeletions {
                    place: stored.place.clone(),
                    object: stored.object.clone(),
                    again: true,
                    ..*stored
                };
                Self::new(self.inner.count, Some(stored), OnceLock::new())
            }
            _ => self.clone(),
        }
    }

    /// Creates deletions that exist in DRAM only.
    pub(crate) fn from_bitmap(bitmap: RoaringBitmap) -> Self {
        Self::new(bitmap.len(), None, OnceLock::from(bitmap))
    }

    fn new(count: u64, stored: Option<StoredDeletions>, bitmap: OnceLock<RoaringBitmap>) -> Self {
        Self {
            inner: Arc::new(DeletionsInner {
                count,
                stored,
                bitmap,
            }),
        }
    }

    /// Returns the number of deleted rows.
    pub(crate) fn count(&self) -> u64 {
        self.inner.count
    }

    /// Returns the deleted rows. The first call verifies and parses them.
    ///
    /// # Errors
    /// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged),
    /// [`ColumnsError::Pool`](crate::ColumnsError::Pool).
    pub(crate) fn rows(&self) -> Result<&RoaringBitmap> {
        let DeletionsInner {
            count,
            stored,
            bitmap,
        } = &*self.inner;
        let (None, Some(stored)) = (bitmap.get(), stored) else {
            return Ok(bitmap.get_or_init(RoaringBitmap::new));
        };
        let bytes = stored.object.extent_verified(stored.extent)?;
        if stored.again && bytes.verify_range_again(0..bytes.len()).is_err() {
            return Err(damaged(
                format!("{}, deleted rows", stored.place),
                "they do not match their checksum",
            ));
        }
        let read = parse(&stored.place, &bytes, stored.rows, *count)?;
        Ok(bitmap.get_or_init(|| read))
    }
}

/// Parses the bitmap in `bytes`, which must have `count` rows, all below `rows`.
///
/// # Errors
/// [`ColumnsError::Damaged`](crate::ColumnsError::Damaged) at `place`.
pub(crate) fn parse(place: &str, bytes: &[u8], rows: u64, count: u64) -> Result<RoaringBitmap> {
    let wrong = |what: String| Err(damaged(format!("{place}, deleted rows"), what));
    let bitmap = match RoaringBitmap::deserialize_from(bytes) {
        Ok(bitmap) => bitmap,
        Err(error) => return wrong(error.to_string()),
    };
    if bitmap.len() != count || bitmap.max().is_some_and(|row| u64::from(row) >= rows) {
        return wrong("do not match the table's description".into());
    }
    Ok(bitmap)
}

/// Writes a bitmap into an extent of its own.
///
/// # Errors
/// [`ColumnsError::Pool`](crate::ColumnsError::Pool).
pub(crate) fn write(txn: &Txn, bitmap: &RoaringBitmap) -> Result<ExtentRef> {
    let mut bytes = Vec::with_capacity(bitmap.serialized_size());
    bitmap
        .serialize_into(&mut bytes)
        .expect("a vector takes any bytes");
    let mut writer = txn.alloc(bytes.len() as u64)?;
    writer.append(&bytes);
    Ok(writer.finish(bytes.len() as u64)?)
}
