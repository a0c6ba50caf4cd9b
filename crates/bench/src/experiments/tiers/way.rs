//! How a selection is run: on one thread, on several by subtree, or as its estimate says.

use std::sync::Arc;

use halocline_elf::{CodePredicate, Elf, Tid};
use halocline_media::Bytes;
use rayon::ThreadPool;
use rayon::prelude::*;

use crate::BenchError;

/// Rows and lists that a selection is estimated to visit, from which on several threads are worth waking.
const WORTH: f64 = 20_000.0;

/// How selections are run.
#[derive(Debug, Clone, Default)]
pub(in crate::experiments) enum Way {
    /// One after the other, on the thread that asks.
    #[default]
    Sequential,
    /// Each on all threads, which take subtrees of the first dimension from each other.
    Parallel(Arc<ThreadPool>),
    /// Whichever of both its estimate speaks for.
    Chosen(Arc<ThreadPool>),
}

impl Way {
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
        let pool = match self {
            Self::Sequential => None,
            Self::Parallel(pool) => Some(pool),
            Self::Chosen(pool) => {
                let estimate = elf.estimate(window)?;
                (estimate.rows + estimate.lists >= WORTH).then_some(pool)
            }
        };
        match (pool, window.first()) {
            (Some(pool), Some(&CodePredicate::Range { lo, hi })) => {
                let parts = pool.install(|| {
                    (lo..=hi)
                        .into_par_iter()
                        .map(|code| {
                            let mut window = window.to_vec();
                            window[0] = CodePredicate::Range { lo: code, hi: code };
                            Ok(elf.select(&window)?.tids()?)
                        })
                        .collect::<Result<Vec<_>, BenchError>>()
                })?;
                parts.iter().for_each(|part| tids.extend_from_slice(part));
            }
            _ => elf.select(window)?.tids_into(tids)?,
        }
        Ok(())
    }
}
