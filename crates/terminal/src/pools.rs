//! Pools without the engine, for commands on their trees and stores, and patience with other processes that
//! have them.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use halocline_emulator::{Device, EmulatedSpec};
use halocline_ordered::TreeError;
use halocline_pool::{Pool, PoolError, PoolOptions};
use halocline_store::StoreError;

/// How long another process is waited for that has a tree or the stores open, or writes the pool.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A pool that may be new.
#[derive(Debug)]
pub struct OpenedPool {
    /// The pool.
    pub pool: Pool,
    created: Option<PathBuf>,
}

impl OpenedPool {
    /// Removes the pool if it was created for this command.
    pub fn discard_if_new(self) {
        drop(self.pool);
        if let Some(path) = self.created {
            let _ = fs::remove_file(path);
        }
    }
}

/// Opens a pool, on an emulated medium if one is given.
///
/// # Errors
/// There is no pool, or it does not open; the medium reports an error.
pub fn open(path: &Path, options: &PoolOptions, medium: Option<&EmulatedSpec>) -> Result<Pool, TreeError> {
    let pool = match medium {
        None => Pool::open(path, options),
        Some(spec) => Device::new(spec)
            .map_err(PoolError::from)
            .and_then(|device| Pool::open_wrapped(path, options, |medium| device.emulate(medium))),
    };
    Ok(pool?)
}

/// Opens a pool as [`open`] does, or creates it where there is no file.
///
/// # Errors
/// The pool cannot be created; as [`open`].
pub fn open_or_create(
    path: &Path,
    options: &PoolOptions,
    medium: Option<&EmulatedSpec>,
) -> Result<OpenedPool, TreeError> {
    let created = if path.exists() {
        None
    } else {
        drop(Pool::create(path, &PoolOptions::default())?);
        Some(path.to_owned())
    };
    Ok(OpenedPool {
        pool: open(path, options, medium)?,
        created,
    })
}

/// An error that may go away when another process ends.
pub trait Contention {
    /// Returns true if another process has what was asked for.
    fn is_contention(&self) -> bool;
}

impl Contention for PoolError {
    fn is_contention(&self) -> bool {
        matches!(self, Self::SlabInUse { .. } | Self::Locked { .. })
    }
}

impl Contention for TreeError {
    fn is_contention(&self) -> bool {
        matches!(self, Self::Pool(error) if error.is_contention())
    }
}

impl Contention for StoreError {
    fn is_contention(&self) -> bool {
        matches!(self, Self::Pool(error) if error.is_contention())
    }
}

/// Tries again for up to [`PATIENCE`] while another process has the tree, the stores or the pool.
///
/// # Errors
/// That of the last attempt.
pub fn patiently<T, E: Contention>(mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(error) if error.is_contention() && start.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(10));
            }
            done => return done,
        }
    }
}
