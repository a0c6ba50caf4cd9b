//! The pairs of a store that was being loaded, read back: [`LoadedPairs`].

use crate::error::Result;
use crate::layout::{MAX_VALUE, SEGMENT};
use crate::load_segments::LoadedSegments;
use crate::log::records_of;
use crate::record::RecordRef;
use crate::tree::Damage;

/// Number of segments after the one that is read that are kept: the chunks of a value may be in them.
const MAX_RETAINED_SEGMENTS: usize = MAX_VALUE / SEGMENT as usize + 8;

/// The pairs of a [`StoreLoader`](crate::StoreLoader) in ascending order of their keys.
pub struct LoadedPairs {
    segments: LoadedSegments,
    /// The log segments that are to be read.
    rest: std::vec::IntoIter<u64>,
    /// Number of those that were read and are not freed yet.
    read: usize,
    records: std::vec::IntoIter<RecordRef>,
}

impl std::fmt::Debug for LoadedPairs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedPairs").finish_non_exhaustive()
    }
}

impl LoadedPairs {
    pub(crate) fn new(mut segments: LoadedSegments) -> Self {
        Self {
            rest: segments.keep_logs().into_iter(),
            segments,
            read: 0,
            records: Vec::new().into_iter(),
        }
    }

    fn pair(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let damaged = |segments: &LoadedSegments, offset| segments.state.damaged(Damage::record(offset));
        loop {
            let Some(record) = self.records.next() else {
                let Some(segment) = self.rest.next() else {
                    return Ok(None);
                };
                let found = records_of(self.segments.state.medium(), segment);
                let (records, _) = found.map_err(|offset| damaged(&self.segments, offset))?;
                self.records = records.into_iter();
                self.read += 1;
                if self.read > MAX_RETAINED_SEGMENTS {
                    self.segments.free_first();
                    self.read -= 1;
                }
                continue;
            };
            if record.is_chunk() {
                continue;
            }
            let state = &self.segments.state;
            let contents = record.contents(state.medium());
            let contents = contents.ok_or_else(|| damaged(&self.segments, record.offset))?;
            let key = contents.key().to_vec();
            let value = state
                .value(&record, contents)
                .map_err(|damage| state.damaged(damage))?;
            return Ok(Some((key, value)));
        }
    }
}

impl Iterator for LoadedPairs {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pair().transpose()
    }
}
