//! Opening pools for commands, with errors that say what to type instead.

use std::fs;
use std::path::{Path, PathBuf};

use halocline_engine::{Database, DatabaseOptions};

use halocline_emulator::Device;
use halocline_ordered::TreeError;
use halocline_pool::{Pool, PoolError, PoolOptions};

use crate::args::{KvArgs, OpenArgs};
use crate::error::CliError;

/// Converts the options of the command line to those of the engine.
pub(crate) fn options(args: &OpenArgs, read_only: bool) -> DatabaseOptions {
    DatabaseOptions::default()
        .with_read_only(read_only)
        .with_strict(args.strict)
        .with_threads(args.threads.map(|threads| threads as usize))
        .with_lock_wait(args.lock_wait)
        .with_temp_directory(args.temp_directory.clone())
        .with_memory(
            args.memory
                .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        )
}

/// Opens an existing pool.
pub(crate) fn open(path: &Path, options: &DatabaseOptions) -> Result<Database, CliError> {
    if !path.exists() {
        return Err(missing(path));
    }
    Ok(Database::open(path, options)?)
}

/// A pool that may be new.
pub(crate) struct OpenedDatabase {
    pub(crate) database: Database,
    created: Option<PathBuf>,
}

/// Opens a pool, or creates it where there is no file.
pub(crate) fn open_or_create(path: &Path, options: &DatabaseOptions) -> Result<OpenedDatabase, CliError> {
    if path.exists() {
        return Ok(OpenedDatabase::existing(open(path, options)?));
    }
    let database = Database::create(path, options)?;
    Ok(OpenedDatabase {
        database,
        created: Some(path.to_owned()),
    })
}

impl OpenedDatabase {
    /// Wraps a database whose pool existed before this command.
    pub(crate) fn existing(database: Database) -> Self {
        Self {
            database,
            created: None,
        }
    }

    /// Removes the pool after a failure if it was created for this command and has no tables.
    pub(crate) fn discard_if_empty(self) {
        let Some(path) = self.created else { return };
        let empty = self.database.info().is_ok_and(|info| info.tables.is_empty());
        drop(self.database);
        if empty {
            let _ = fs::remove_file(path);
        }
    }
}

/// A pool without the engine, for commands on its trees.
pub(crate) struct OpenedPool {
    pub(crate) pool: Pool,
    created: Option<PathBuf>,
}

/// Opens an existing pool for its trees.
pub(crate) fn pool(args: &KvArgs) -> Result<Pool, CliError> {
    let path = &args.pool;
    if !path.exists() {
        let shown = path.display();
        return Err(CliError::with_hint(
            format!("there is no pool {shown}"),
            format!("`halocline kv {shown} create` makes one with an empty tree"),
        ));
    }
    Ok(pool_at(path, args)?)
}

/// Opens an existing pool to read its trees: it need not be writable.
pub(crate) fn pool_to_read(args: &KvArgs) -> Result<Pool, CliError> {
    if !args.pool.exists() {
        return pool(args);
    }
    Ok(pool_with(&args.pool, args, true)?)
}

/// Opens a pool for its trees, or creates it where there is no file.
pub(crate) fn pool_or_create(args: &KvArgs) -> Result<OpenedPool, CliError> {
    let created = match args.pool.exists() {
        true => None,
        false => {
            drop(Pool::create(&args.pool, &PoolOptions::default()).map_err(TreeError::from)?);
            Some(args.pool.clone())
        }
    };
    Ok(OpenedPool {
        pool: pool_at(&args.pool, args)?,
        created,
    })
}

fn pool_at(path: &Path, args: &KvArgs) -> Result<Pool, TreeError> {
    pool_with(path, args, false)
}

fn pool_with(path: &Path, args: &KvArgs, read_only: bool) -> Result<Pool, TreeError> {
    let options = PoolOptions::default()
        .with_read_only(read_only)
        .with_strict(args.strict);
    let pool = match &args.medium {
        None => Pool::open(path, &options),
        Some(spec) => Device::new(spec)
            .map_err(PoolError::from)
            .and_then(|device| Pool::open_wrapped(path, &options, |medium| device.emulate(medium))),
    };
    Ok(pool?)
}

impl OpenedPool {
    /// Removes the pool after a failure if it was created for this command.
    pub(crate) fn discard_if_new(self) {
        drop(self.pool);
        if let Some(path) = self.created {
            let _ = fs::remove_file(path);
        }
    }
}

fn missing(path: &Path) -> CliError {
    let shown = path.display();
    CliError::with_hint(
        format!("there is no pool {shown}"),
        format!("`halocline import {shown} TABLE FILE…` makes one; so does `halocline sql {shown} --create`"),
    )
}
