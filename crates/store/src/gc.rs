//! Emptying of log segments, whose space is used again: the choice of the segments.
//!
//! The records of segments that are still needed are [moved](crate::moves) to the end of the log. The
//! segments are free after the next checkpoint.
//!
//! Emptying comes to an end, whatever the lengths of records: a segment is emptied only if that gains a tenth
//! of it at least. The copies leave next to nothing unused except at the ends of their segments, where no
//! record fits, and what no record could fill does not count as gain.

use crate::error::Result;
use crate::layout::SEGMENT;
use crate::log::{expiries_of, tail_of};
use crate::moves::{CopiedRecords, FENCED_BYTES};
use crate::state::StoresState;

/// Segments that are emptied with one fence, at most. Those that nobody needs cost no copies.
pub(crate) const CHOSEN_AT_ONCE: usize = 256;

/// Segments whose times of expiry are read at a time, after an opening.
const READ_AT_ONCE: usize = 64;

/// Times that segments whose ends are unknown are measured in a search for those to empty, at most.
const MEASURING_ROUNDS: usize = 4;

impl StoresState {
    /// Empties segments until the garbage in the log is within its limit, or until a checkpoint should free
    /// those that were emptied. Returns true if there are such.
    ///
    /// # Errors
    /// Damage, a full disk, and errors of the medium.
    pub(crate) fn collect_garbage(&self) -> Result<bool> {
        let (mut any, mut moved) = (false, 0);
        let before = self.log_in_use();
        let written = || self.committer().log.written();
        let most = written() + self.pending_bytes();
        while moved < self.options.pending_records {
            let bytes = most.saturating_sub(written()).min(FENCED_BYTES);
            let segments = match bytes {
                0 => Vec::new(),
                // On a full disk, segments of which nothing is needed can be emptied without room for copies.
                bytes => self.segments_to_empty(bytes.min(self.room_for_copies())),
            };
            if segments.is_empty() {
                break;
            }
            let before = self.segments().emptied_bytes();
            let emptied = self.empty_segments(&segments);
            any |= self.segments().emptied_bytes() > before;
            match emptied {
                Ok(records) => moved += records,
                // What was copied so far is gained with the next checkpoint.
                Err(error) if error.is_full() => {
                    if !self.make_room_for_copies() {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        // Where there is room for few copies, these may fill all the segments that emptying gains.
        Ok(any && (!self.is_pressed() || self.log_in_use() < before))
    }

    /// Returns the bytes of log segments that are not emptied.
    fn log_in_use(&self) -> u64 {
        let segments = self.segments();
        segments.log_bytes().0.saturating_sub(segments.emptied_bytes())
    }

    /// Reads when the records of some segments expire of which only the latest expiry is known, because they
    /// were filled before the opening. Returns true if there may be more.
    pub(crate) fn read_expiries(&self) -> bool {
        let unknown = self.segments().with_unknown_expiries(READ_AT_ONCE);
        for segment in &unknown {
            let records = expiries_of(self.medium(), *segment);
            self.segments().set_expiries(*segment, &records);
            self.end_turn();
        }
        unknown.len() == READ_AT_ONCE
    }

    /// Moves what is needed of segments, which become free with the next checkpoint. Returns the number of
    /// records that were moved or purged.
    pub(crate) fn empty_segments(&self, segments: &[u64]) -> Result<usize> {
        let mut copied = CopiedRecords::default();
        let result = self.copy_needed(segments, &mut copied);
        self.pace.spend(copied.bytes);
        // What was copied before an error is moved, so that a full disk does not stop the gain of space.
        let moved = self.move_copied(copied)?;
        result.map(|()| moved)
    }

    /// Chooses segments to empty together, whose needed records have about `bytes` bytes. Empty if none has
    /// to be emptied.
    pub(crate) fn segments_to_empty(&self, bytes: u64) -> Vec<u64> {
        for _ in 0..MEASURING_ROUNDS {
            let chosen = self.choose(bytes);
            let unmeasured: Vec<u64> = {
                let segments = self.segments();
                let unmeasured = chosen.iter().filter(|segment| !segments.is_measured(**segment));
                unmeasured.copied().collect()
            };
            if unmeasured.is_empty() {
                return chosen;
            }
            for segment in unmeasured {
                let tail = tail_of(self.medium(), segment);
                self.segments().set_tail(segment, tail);
                self.end_turn();
            }
        }
        Vec::new()
    }

    /// Chooses the segments with the least occupied bytes, as far as they are known.
    fn choose(&self, bytes: u64) -> Vec<u64> {
        // Locked until the segments are chosen: nothing counts as needed in the segments that a commit in
        // progress fills, but they must not be emptied. Later commits and copies do not change any but the
        // current one.
        let committer = self.committer();
        let current = committer.log.position().segment;
        let mut segments = self.segments();
        segments.expire(self.now());
        let mut chosen = Vec::new();
        let (all, live) = segments.log_bytes();
        let mut all = all.saturating_sub(segments.emptied_bytes() + segments.tail_bytes());
        let mut needed = 0;
        for segment in segments.by_use().emptiest(current) {
            let occupied = segments.occupied_bytes(segment);
            let garbage = all.saturating_sub(live + SEGMENT);
            let is_full = garbage * 100 > all * u64::from(self.options.garbage_percent) || self.is_pressed();
            let has_to_be_emptied = occupied == 0 || is_full && occupied < SEGMENT * 9 / 10;
            let has_room = occupied == 0 || needed < bytes;
            if !has_to_be_emptied || !has_room || chosen.len() >= CHOSEN_AT_ONCE {
                break;
            }
            chosen.push(segment);
            needed += occupied;
            all = all.saturating_sub(SEGMENT - occupied.min(SEGMENT));
        }
        chosen
    }
}
