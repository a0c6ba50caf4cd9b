//! Threads for large selections, apart from those that ask: [`Workers`].

use std::fmt;
use std::sync::OnceLock;

use halocline_media::Bytes;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::Selection;
use crate::parallel::Threads;
use crate::{Result, Tid};

/// A number of threads that take the subtrees of selections that are large enough for it. They are started by the first of
/// those, and wait between them. Any number of threads may ask at once.
pub struct Workers {
    threads: usize,
    /// None if they cannot be started: whoever asks is alone then.
    pool: OnceLock<Option<ThreadPool>>,
}

impl Workers {
    /// So many threads; with one, whoever asks works alone.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self {
            threads,
            pool: OnceLock::new(),
        }
    }

    /// How many they are.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The threads, if there are several and it is worth it.
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
    /// [`tids_into`](Self::tids_into) by these threads if the selection is estimated to be large enough, else by this one;
    /// says whether it was by them. This thread waits meanwhile, so no more than they are at work.
    ///
    /// # Errors
    /// [`ElfError::Damaged`](crate::ElfError::Damaged); what was appended then is worthless.
    pub fn tids_into_by(&self, workers: &Workers, tids: &mut Vec<Tid>) -> Result<bool> {
        let pool = workers.pool_if(|| self.is_worth_threads());
        match pool {
            Some(pool) => pool.install(|| self.tids_into_on(Threads::All, tids))?,
            None => self.tids_into(tids)?,
        }
        Ok(pool.is_some())
    }

    /// [`count`](Self::count) by these threads if many lists have to be looked at for few rows, else by this one; also says
    /// whether it was by them.
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
