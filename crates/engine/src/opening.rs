//! The steps before a pool is a database: its options, checked and completed, its device, its file in DRAM.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use halocline_catalog::memory::MemoryBudget;
use halocline_catalog::options::DatabaseOptions;
use halocline_emulator::Device;
use halocline_media::{Dram, MediumAccess, MediumBackend};
use halocline_pool::{PoolError, PoolOptions};
use halocline_sql::EngineError;

/// Number of bytes of a file copied in one step.
const COPIED_AT_ONCE: usize = 1 << 20;

/// Copies a file into DRAM.
///
/// # Errors
/// It cannot be read, or is no regular file.
pub(crate) fn in_dram(path: &Path) -> Result<Dram, EngineError> {
    let failed = |source| PoolError::Io {
        action: "read",
        path: path.to_owned(),
        source,
    };
    // Before it is opened: to open a pipe waits for its writer.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(PoolError::NotAPool {
            path: path.to_owned(),
            reason: "it is not a regular file",
        }
        .into());
    }
    let mut file = File::open(path).map_err(failed)?;
    let dram = Dram::new(file.metadata().map_err(failed)?.len()).map_err(PoolError::from)?;
    let mut buffer = vec![0; COPIED_AT_ONCE];
    let mut at = 0;
    loop {
        let read = file.read(&mut buffer).map_err(failed)?;
        if read == 0 {
            return Ok(dram);
        }
        // The file may have grown since its length was read.
        dram.grow(at + read as u64).map_err(PoolError::from)?;
        dram.store(at, &buffer[..read]);
        at += read as u64;
    }
}

/// Returns the emulated device that the options demand.
///
/// # Errors
/// It cannot be made.
pub(crate) fn device(options: &DatabaseOptions) -> Result<Option<Arc<Device>>, EngineError> {
    let device = options.medium.as_ref().map(Device::new).transpose();
    Ok(device.map_err(PoolError::from)?)
}

/// Returns the options with the amounts of DRAM that follow from the machine's. The pool is mapped by then,
/// so that what a limit of the address space leaves is what the mapping leaves.
pub(crate) fn with_defaults(options: &DatabaseOptions) -> DatabaseOptions {
    let copies = || MemoryBudget::of_copies(options.memory);
    let memory = MemoryBudget::new(options.memory).bytes();
    let dram_budget = options.dram_budget.unwrap_or_else(copies);
    options
        .clone()
        .with_memory(Some(memory))
        .with_dram_budget(Some(dram_budget))
}

/// Checks the memory that a user gives.
///
/// # Errors
/// It is too little.
pub(crate) fn check_memory(options: &DatabaseOptions) -> Result<(), EngineError> {
    let checked = options.memory.map(|bytes| MemoryBudget::check(bytes as u64));
    let wrong = |reason| EngineError::Query(format!("--memory (`DatabaseOptions::memory`): {reason}"));
    checked.transpose().map(|_| ()).map_err(wrong)
}

/// Returns the options for opening the file, after those of the database are checked.
///
/// # Errors
/// As [`check_memory`].
pub(crate) fn pool_options(options: &DatabaseOptions) -> Result<PoolOptions, EngineError> {
    check_memory(options)?;
    let pool = PoolOptions::default()
        .with_read_only(options.read_only)
        .with_strict(options.strict)
        .with_assume_dax(options.assume_dax);
    Ok(pool)
}
