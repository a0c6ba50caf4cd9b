//! Recognition of pool files without opening them as pools.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::PoolError;
use crate::layout::{MAGIC, SLOT_SIZE, SLOTS};

/// Returns true if the file at `path` begins like a pool, regardless of the rest. Follows links.
///
/// # Errors
/// The file cannot be read.
pub fn is_pool_file(path: &Path) -> Result<bool, PoolError> {
    let failed = |error| PoolError::io("read", path, error);
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => return Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(error)),
        Ok(_) => {}
    }
    let file = File::open(path).map_err(failed)?;
    // Check all copies: one damaged superblock does not make a pool worthless.
    for slot in 0..SLOTS as u64 {
        let mut start = [0; MAGIC.len()];
        match file.read_exact_at(&mut start, slot * SLOT_SIZE) {
            Ok(()) if start == MAGIC => return Ok(true),
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, PoolOptions};

    #[test]
    fn pools_are_told_from_other_files() {
        let directory = tempfile::tempdir().unwrap();
        let pool = directory.path().join("a");
        drop(Pool::create(&pool, &PoolOptions::default()).unwrap());
        assert!(is_pool_file(&pool).unwrap());
        // Damage the first superblock.
        let file = File::options().write(true).open(&pool).unwrap();
        file.write_all_at(&[0; 8], 0).unwrap();
        assert!(is_pool_file(&pool).unwrap());
        let other = directory.path().join("b");
        for bytes in [b"".as_slice(), b"HALO", &[0; 1 << 16]] {
            std::fs::write(&other, bytes).unwrap();
            assert!(!is_pool_file(&other).unwrap());
        }
        assert!(!is_pool_file(directory.path()).unwrap());
        assert!(!is_pool_file(&directory.path().join("none")).unwrap());
    }
}
