//! Crash images as media.

use std::sync::Arc;

use super::model::{CrashModel, Line};
use crate::{LINE, MediaError, MediumAccess, Tracked};

/// Media that hold crash images, one after the other: as images differ in few lines from what is durable, one
/// medium is kept and only those lines are written.
#[derive(Debug, Default)]
pub(crate) struct Images {
    kept: Option<Arc<Tracked>>,
    /// Lines of the kept medium that may differ from the durable bytes.
    differ: Vec<u64>,
}

impl Images {
    /// Says that the durable contents of these lines have changed.
    pub(crate) fn durable_changed(&mut self, lines: impl IntoIterator<Item = u64>) {
        self.differ.extend(lines);
    }

    /// A medium with the durable bytes of `model`, except for `lines`, and the length `len`.
    pub(crate) fn open<'a>(
        &mut self,
        model: &CrashModel,
        lines: impl Iterator<Item = (u64, &'a Line)>,
        len: u64,
    ) -> Result<Arc<Tracked>, MediaError> {
        let kept = self.kept.take().filter(|kept| kept.len() == len);
        let medium = match kept {
            Some(kept) => {
                self.differ.sort_unstable();
                self.differ.dedup();
                for line in self.differ.drain(..).take_while(|line| line * LINE < len) {
                    kept.store(line * LINE, &model.line(line));
                }
                kept
            }
            None => {
                let fresh = Tracked::new(len)?;
                let durable = model.durable();
                fresh.store(0, &durable[..durable.len().min(len as usize)]);
                self.differ.clear();
                Arc::new(fresh)
            }
        };
        for (line, contents) in lines {
            medium.store(line * LINE, contents);
            self.differ.push(line);
        }
        medium.start_noting_lines();
        Ok(medium)
    }

    /// Takes a medium back for the next image, if nobody else holds it.
    pub(crate) fn give_back(&mut self, medium: Arc<Tracked>) {
        let mut medium = medium;
        if Arc::get_mut(&mut medium).is_none() {
            return;
        }
        self.differ.append(&mut medium.stop_noting_lines());
        self.kept = Some(medium);
    }
}
