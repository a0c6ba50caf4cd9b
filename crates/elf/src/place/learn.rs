//! Training of the caches with queries that are described but not run, as if each had been sampled.

use crate::elf::Elf;
use crate::packed::select::Select;
use crate::sink::CountSink;
use crate::{CodePredicate, Layout, Result};
use halocline_media::Bytes;

impl<B: Bytes> Elf<B> {
    /// Counts the lists that an exact match visits.
    ///
    /// # Errors
    /// As [`exact`](Self::exact).
    pub(crate) fn learn_exact(&self, point: &[u64]) -> Result<()> {
        match self.copies().dynamic {
            Some(dynamic) => self.count_exact(point, dynamic.learn()),
            None => Ok(()),
        }
    }

    /// Counts the lists that a selection visits.
    ///
    /// # Errors
    /// As [`select`](Self::select) and counting what it finds.
    pub(crate) fn learn_selection(&self, predicates: &[CodePredicate]) -> Result<()> {
        let Some(dynamic) = self.copies().dynamic else {
            return Ok(());
        };
        let header = self.durable_header();
        let Some(plan) = self.plan(predicates)? else {
            return Ok(());
        };
        if self.rows() == 0 {
            return Ok(());
        }
        let (mut sink, counts) = (CountSink::default(), Some(dynamic.learn()));
        match self.layout() {
            Layout::Packed => self.dispatch_packed(Select {
                tree: self.tree_in(&header, None),
                plan: &plan,
                sink: &mut sink,
                counts,
                from: &[header.root as usize],
                depth: 0,
                reads_ahead: false,
            }),
            Layout::Published => {
                let lists = self.lists_in(&header, None);
                match lists.translate(&plan) {
                    Some(plan) => lists.select(&plan, &mut sink, counts),
                    None => Ok(()),
                }
            }
        }
    }

    /// Renews the copies by the accesses counted so far.
    ///
    /// # Errors
    /// [`ElfError::Memory`](crate::ElfError::Memory), [`ElfError::Damaged`](crate::ElfError::Damaged).
    pub(crate) fn renew_now(&self) -> Result<()> {
        match self.copies().dynamic {
            Some(dynamic) => {
                dynamic.renew_now(|counts, most, control| self.slow_only().counted(counts, most, control))
            }
            None => Ok(()),
        }
    }
}
