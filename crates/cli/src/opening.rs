//! Opening pools for commands, with errors that say what to type instead.

use std::fs;
use std::path::{Path, PathBuf};

use halocline_engine::{Database, DatabaseOptions};
use halocline_pool::{Pool, PoolOptions};
use halocline_terminal::CliError;
use halocline_terminal::pools::{self, OpenedPool};

use crate::args::{KvArgs, OpenArgs};

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
    Ok(pools::open(path, &pool_options(args), args.medium.as_deref())?)
}

/// Opens an existing pool to read its trees: it need not be writable.
pub(crate) fn pool_to_read(args: &KvArgs) -> Result<Pool, CliError> {
    if !args.pool.exists() {
        return pool(args);
    }
    let options = pool_options(args).with_read_only(true);
    Ok(pools::open(&args.pool, &options, args.medium.as_deref())?)
}

/// Opens a pool for its trees, or creates it where there is no file.
pub(crate) fn pool_or_create(args: &KvArgs) -> Result<OpenedPool, CliError> {
    Ok(pools::open_or_create(
        &args.pool,
        &pool_options(args),
        args.medium.as_deref(),
    )?)
}

fn pool_options(args: &KvArgs) -> PoolOptions {
    PoolOptions::default().with_strict(args.strict)
}

fn missing(path: &Path) -> CliError {
    let shown = path.display();
    CliError::with_hint(
        format!("there is no pool {shown}"),
        format!("`halocline import {shown} TABLE FILE…` makes one; so does `halocline sql {shown} --create`"),
    )
}
