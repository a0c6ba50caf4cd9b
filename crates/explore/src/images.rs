//! Crash images as media.

use std::sync::Arc;

use halocline_media::{LINE, MediaError, MediumAccess};

use crate::Tracked;
use crate::model::{CrashModel, LineBytes};

/// A source of media that hold crash images. Images differ from the durable bytes in few lines, so one medium
/// is reused and only those lines are rewritten.
#[derive(Debug, Default)]
pub(crate) struct Images {
    kept: Option<Arc<Tracked>>,
    /// Lines of the reused medium that may differ from the durable bytes.
    differ: Vec<u64>,
}

impl Images {
    /// Records that the durable contents of these lines have changed.
    pub(crate) fn durable_changed(&mut self, lines: impl IntoIterator<Item = u64>) {
        self.differ.extend(lines);
    }

    /// Returns a medium of length `len` with the durable bytes of `model`, except for `lines`.
    pub(crate) fn open<'a>(
        &mut self,
        model: &CrashModel,
        lines: impl Iterator<Item = (u64, &'a LineBytes)>,
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

    /// Takes a medium back for the next image, unless someone else still holds it.
    pub(crate) fn give_back(&mut self, medium: Arc<Tracked>) {
        let mut medium = medium;
        if Arc::get_mut(&mut medium).is_none() {
            return;
        }
        self.differ.append(&mut medium.stop_noting_lines());
        self.kept = Some(medium);
    }
}
