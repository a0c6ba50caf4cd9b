//! How a selection is run: on one thread, on several by subtree, or as its estimate says.

use std::sync::Arc;

use halocline_elf::{CodePredicate, Elf, Threads, Tid, Workers};
use halocline_media::Bytes;
use rayon::ThreadPool;

use crate::BenchError;

/// How selections are run.
#[derive(Debug, Clone, Default)]
pub(in crate::experiments) enum SelectionMode {
    /// One after the other, on the thread that asks.
    #[default]
    Sequential,
    /// Each on all threads, which take subtrees from each other.
    Parallel(Arc<ThreadPool>),
    /// Whichever of both its estimate speaks for: nothing is handed to other threads before that.
    Chosen(Arc<Workers>),
}

impl SelectionMode {
    pub(in crate::experiments) fn name(&self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Parallel(_) => "parallel",
            Self::Chosen(_) => "chosen",
        }
    }

    /// Appends the TIDs of the rows in a window.
    pub(super) fn select<B: Bytes>(
        &self,
        elf: &Elf<B>,
        window: &[CodePredicate],
        tids: &mut Vec<Tid>,
    ) -> Result<(), BenchError> {
        let selection = elf.select(window)?;
        match self {
            Self::Sequential => selection.tids_into(tids)?,
            Self::Parallel(pool) => pool.install(|| selection.tids_into_on(Threads::All, tids))?,
            Self::Chosen(workers) => {
                selection.tids_into_by(workers, tids)?;
            }
        }
        Ok(())
    }
}
