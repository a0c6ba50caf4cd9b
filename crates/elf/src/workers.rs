//! A thread pool for large selections.

use std::fmt;
use std::sync::OnceLock;

use halocline_media::Bytes;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::Selection;
use crate::parallel::Threads;
use crate::{Result, Tid};

/// A pool of threads that search the subtrees of large selections. They are started by the first such
/// selection. Any number of callers may use them concurrently.
pub struct Workers {
    threads: usize,
    /// `None` if they cannot be started: each selection then runs on its caller's thread.
    pool: OnceLock<Option<ThreadPool>>,
}

impl Workers {
    /// Creates a pool of `threads` threads; with one, selections run on their caller's thread.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self {
            threads,
            pool: OnceLock::new(),
        }
    }

    /// Returns the number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the pool if it has several threads and `worth` holds.
    fn pool_if(&self, worth: impl FnOnce() -> bool) -> Option<&ThreadPool> {
        if self.threads < 2 || !worth() {
            return None;
        }
        let start = || {
            let pool = ThreadPoolBuilder::new()
                .num_threads(self.threads)
                .thread_name(|number| format!("halocline-{number}"))
                .build();
            pool.ok()
        };
        self.pool.get_or_init(start).as_ref()
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers")
            .field("threads", &self.threads)
            .field("started", &matches!(self.pool.get(), Some(Some(_))))
            .finish()
    }
}

impl<B: Bytes> Selection<'_, B> {
    /// Runs [`tids_into`](Self::tids_into) on these threads if the selection is estimated to be large enough,
    /// otherwise on the calling thread. Returns true if the pool was used; the calling thread waits for it.
    ///
    /// # Errors
    /// [`ElfError::Damaged`](crate::ElfError::Damaged); the TIDs appended until then must be discarded.
    pub fn tids_into_by(&self, workers: &Workers, tids: &mut Vec<Tid>) -> Result<bool> {
        let pool = workers.pool_if(|| self.is_worth_threads());
        match pool {
            Some(pool) => pool.install(|| self.tids_into_on(Threads::All, tids))?,
            None => self.tids_into(tids)?,
        }
        Ok(pool.is_some())
    }

    /// Runs [`count`](Self::count) on these threads if many lists have to be read for few rows, otherwise on
    /// the calling thread. The second value is true if the pool was used.
    ///
    /// # Errors
    /// [`ElfError::Damaged`](crate::ElfError::Damaged).
    pub fn count_by(&self, workers: &Workers) -> Result<(u64, bool)> {
        match workers.pool_if(|| self.is_worth_threads_to_count()) {
            Some(pool) => {
                let mut tids = vec![];
                pool.install(|| self.tids_into_on(Threads::All, &mut tids))?;
                Ok((tids.len() as u64, true))
            }
            None => Ok((self.count()?, false)),
        }
    }
}
