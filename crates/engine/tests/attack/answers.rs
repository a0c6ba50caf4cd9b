//! The answers of an intact pool, before and after a row is added to each table.

use std::path::{Path, PathBuf};

use halocline_engine::{Database, DatabaseOptions, EngineError};
use tokio::runtime::Runtime;

use crate::case::Files;
use crate::digest::Digest;
use crate::tables::{ASKS, Ask, TABLES, insert};

/// Memory for queries and imports; the pool is small.
const MEMORY: usize = 64 << 20;

/// Answers to all questions, by their number.
#[derive(Debug)]
pub(crate) struct Answers {
    /// The newest state.
    pub(crate) newest: Sheet,
    /// The state that is found when the newest superblocks are gone.
    pub(crate) older: Sheet,
}

/// Answers of one state.
#[derive(Debug)]
pub(crate) struct Sheet {
    pub(crate) before: Vec<Digest>,
    /// With one more row in the table of the question.
    pub(crate) after: Vec<Digest>,
}

/// A database with a thread of its own.
pub(crate) struct Opened {
    pub(crate) database: Database,
    runtime: Runtime,
}

impl Answers {
    pub(crate) fn read(files: &Files) -> Self {
        let newest = Sheet::read(&files.write(&files.image.bytes));
        let older = Sheet::read(&files.write(&files.without_newest()));
        Self { newest, older }
    }
}

impl Sheet {
    fn read(path: &Path) -> Self {
        let all = |opened: &Opened| ASKS.iter().map(|ask| opened.ask(ask).unwrap()).collect();
        let opened = Opened::open(path, true).unwrap();
        let before: Vec<_> = all(&opened);
        drop(opened);
        let opened = Opened::open(path, false).unwrap();
        for table in TABLES {
            opened.run(insert(table)).unwrap();
        }
        let after: Vec<_> = all(&opened);
        // So that what is read once is not read again.
        assert_eq!(opened.check().unwrap(), [""; 0]);
        Self { before, after }
    }
}

impl Opened {
    pub(crate) fn open(path: &Path, read_only: bool) -> Result<Self, EngineError> {
        let options = DatabaseOptions::default()
            .with_read_only(read_only)
            .with_threads(Some(1))
            .with_memory(Some(MEMORY));
        Ok(Self {
            database: Database::open(path, &options)?,
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap(),
        })
    }

    /// The rows of the answer to a question.
    pub(crate) fn ask(&self, ask: &Ask) -> Result<Digest, EngineError> {
        let mode = if ask.index.is_some() { "force" } else { "off" };
        self.run(&format!("SET halocline.index = {mode}"))?;
        self.rows(ask.sql)
    }

    pub(crate) fn rows(&self, sql: &str) -> Result<Digest, EngineError> {
        self.runtime.block_on(async {
            let answer = self.database.sql(sql).await?;
            Ok(Digest::from_batches(&answer.collect().await?))
        })
    }

    pub(crate) fn run(&self, sql: &str) -> Result<(), EngineError> {
        self.rows(sql).map(drop)
    }

    /// Returns the problems of the pool.
    pub(crate) fn check(&self) -> Result<Vec<String>, EngineError> {
        Ok(self.database.check(&mut |_| ())?.problems)
    }
}

/// A copy of a file for one case.
pub(crate) fn copy_at(directory: &Path) -> PathBuf {
    directory.join(format!("attacked-{}.pool", std::process::id()))
}
