//! One column on its way into a segment: collects a chunk of rows, encodes it, hands it to the table writer.
//!
//! Strings start out interned (ids in order of appearance, packed like any other chunk and kept as
//! *backlog*). When they turn out to have too many distinct values, the backlog is turned into chunks of
//! plain strings; else, at the end, the ids are rewritten as ranks in the sorted dictionary. Both happen in
//! steps of bounded memory, in any order, since every encoded chunk knows its number.

use crate::codec::chunk::KeyChunk;
use crate::codec::encode::{Encoded, encode_keys, encode_packed, encode_plain};
use crate::codec::sketch::DistinctSketch;
use crate::codec::strings::pending::PendingStrings;
use crate::format::wide::may_be_wide;
use crate::format::{ChunkEntry, ColumnHeader, KIND_DICTIONARY, KIND_KEYS, KIND_STRINGS};
use crate::kernel::{Lane, with_lane};
use crate::read::bytes_array::for_each_bytes;
use crate::read::dictionary::Dictionary;
use crate::table::accept::accept;
use crate::write::interner::Interner;
use crate::write::physical::{Physical, append_keys};
use crate::{Result, TableEncoding};
use arrow_array::Array;
use arrow_schema::Field;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::Range;

/// Bytes that the distinct strings of a dictionary may have.
const DICTIONARY_BYTES: usize = 16 << 20;
/// From this many rows on, strings that are more than half distinct are not worth a dictionary.
const DICTIONARY_TRIAL: u64 = 8192;

/// Rows of fixed-size values (or ids) that do not fill a chunk yet.
#[derive(Debug, Default)]
struct PendingKeys {
    keys: Vec<u64>,
    nulls: Vec<u32>,
}

impl PendingKeys {
    fn push_null(&mut self) {
        self.nulls.push(self.keys.len() as u32);
        self.keys.push(0);
    }

    /// Encodes the rows with the codec that suits them best, or plain in lanes of `plain` bits if given.
    fn encode(&mut self, plain: Option<usize>) -> Encoded {
        match plain {
            None => self.encode_with(encode_keys),
            Some(bits) => self.encode_with(|keys, nulls| encode_plain(keys, nulls, bits)),
        }
    }

    fn encode_with(&mut self, encode: impl FnOnce(&mut [u64], &[u32]) -> Encoded) -> Encoded {
        let encoded = encode(&mut self.keys, &self.nulls);
        self.keys.clear();
        self.nulls.clear();
        encoded
    }
}

#[derive(Debug)]
enum State {
    Keys(PendingKeys),
    Interned(PendingKeys),
    Strings(PendingStrings),
}

/// Where the bytes of a chunk of ids are.
#[derive(Debug)]
pub(crate) enum Backlog {
    Memory(Encoded),
    /// In the table writer's scratch space of this number, at this place.
    Spilled(ChunkEntry, usize, Range<usize>),
}

/// Reads spilled bytes: number of the scratch space, range in it.
pub(crate) type ReadSpilled<'a> = &'a (dyn Fn(usize, Range<usize>) -> &'a [u8] + Sync);

#[derive(Debug)]
pub(crate) struct ColumnWriter {
    field: Field,
    physical: Physical,
    chunk_rows: usize,
    dictionary_limit: usize,
    /// Bytes of DRAM that the interner may take.
    dictionary_memory: usize,
    /// Bits of the lanes in which keys stay plain, where they are to be.
    plain: Option<usize>,
    state: State,
    interner: Interner,
    backlog: VecDeque<(usize, Backlog)>,
    /// Ranks by id, once the dictionary is complete.
    ranks: Vec<u32>,
    /// Entries of all chunks; those not yet placed are blank.
    entries: Vec<ChunkEntry>,
    ready: Vec<(usize, Encoded)>,
    ready_bytes: usize,
    rows: u64,
    /// The distinct values: of keys and of strings without a dictionary so far; the strings of a dictionary
    /// come at the end, or when it is given up.
    sketch: DistinctSketch,
}

impl ColumnWriter {
    /// Creates the writer of a column. `physical` says how values are stored: [`Physical::Bytes`] also for
    /// decimals of which some have no key. `dictionary_limit` has the number of distinct strings, and the
    /// bytes of DRAM for them, beyond which the column gets no dictionary.
    pub(crate) fn new(
        field: &Field,
        physical: Physical,
        chunk_rows: usize,
        dictionary_limit: (usize, usize),
        encoding: TableEncoding,
    ) -> Self {
        let state = match physical {
            Physical::Bytes => State::Interned(PendingKeys::default()),
            _ => State::Keys(PendingKeys::default()),
        };
        Self {
            field: field.clone(),
            physical,
            chunk_rows,
            dictionary_limit: dictionary_limit.0,
            dictionary_memory: dictionary_limit.1,
            plain: (encoding == TableEncoding::Plain).then(|| physical.bits()),
            state,
            interner: Interner::default(),
            backlog: VecDeque::new(),
            ranks: Vec::new(),
            entries: Vec::new(),
            ready: Vec::new(),
            ready_bytes: 0,
            rows: 0,
            sketch: DistinctSketch::default(),
        }
    }

    /// Appends `array`, whose first row is `first_row` of the table (for error messages).
    ///
    /// # Panics
    /// If it holds a decimal without a key, and the column was made for values with keys.
    pub(crate) fn append(&mut self, array: &dyn Array, first_row: u64) -> Result<()> {
        let array = accept(&self.field, array, first_row)?;
        let array = array.get();
        let mut start = 0;
        while start < array.len() {
            let pending = (self.rows % self.chunk_rows as u64) as usize;
            let len = (self.chunk_rows - pending).min(array.len() - start);
            let slice = array.slice(start, len);
            self.append_within_chunk(&slice);
            self.rows += len as u64;
            if pending + len == self.chunk_rows {
                self.encode_pending();
            }
            start += len;
        }
        Ok(())
    }

    fn append_within_chunk(&mut self, array: &dyn Array) {
        if let State::Keys(pending) = &mut self.state {
            let start = pending.keys.len();
            let appended = append_keys(array, self.physical, &mut pending.keys);
            appended.expect("a segment with such a decimal has no keys for this column");
            match array.nulls().filter(|nulls| nulls.null_count() > 0) {
                None => pending.keys[start..]
                    .iter()
                    .for_each(|&key| self.sketch.add_key(key)),
                Some(nulls) => {
                    for (i, valid) in nulls.iter().enumerate() {
                        if valid {
                            self.sketch.add_key(pending.keys[start + i])
                        } else {
                            pending.nulls.push((start + i) as u32)
                        }
                    }
                }
            }
            return;
        }
        let never: Result<(), Infallible> = for_each_bytes(array, |value| {
            self.push_string(value);
            Ok(())
        });
        never.unwrap_or_else(|never| match never {});
    }

    #[inline]
    fn push_string(&mut self, value: Option<&[u8]>) {
        match (&mut self.state, value) {
            (State::Interned(pending), Some(value)) => {
                pending.keys.push(u64::from(self.interner.intern(value)));
                let interner = &self.interner;
                if interner.len() > self.dictionary_limit
                    || interner.bytes_len() > DICTIONARY_BYTES
                    || interner.memory() > self.dictionary_memory
                {
                    self.give_up_dictionary();
                }
            }
            (State::Interned(pending), None) => pending.push_null(),
            (State::Strings(pending), Some(value)) => {
                pending.push(value);
                sketch_string(&mut self.sketch, &self.field, value);
            }
            (State::Strings(pending), None) => pending.push_null(),
            (State::Keys(_), _) => unreachable!("a string in a fixed-size column"),
        }
    }

    /// Returns the bytes of DRAM that are used by distinct strings that may end in a dictionary.
    pub(crate) fn dictionary_memory(&self) -> usize {
        match self.state {
            State::Interned(_) => self.interner.memory(),
            _ => 0,
        }
    }

    /// Returns the bytes of strings that wait for their chunk to be full.
    pub(crate) fn pending_strings(&self) -> usize {
        match &self.state {
            State::Strings(pending) => pending.bytes_len(),
            _ => 0,
        }
    }

    /// Switches to strings without a dictionary. The backlog remains to be converted by [`step`](Self::step).
    pub(crate) fn give_up_dictionary(&mut self) {
        let State::Interned(pending) = &self.state else {
            return;
        };
        let mut strings = PendingStrings::default();
        let mut nulls = pending.nulls.iter().peekable();
        for (row, &id) in (0u32..).zip(&pending.keys) {
            match nulls.next_if_eq(&&row) {
                Some(_) => strings.push_null(),
                None => strings.push(self.interner.get(id as u32)),
            }
        }
        self.state = State::Strings(strings);
        self.sketch_interned();
    }

    /// Counts the strings that may end in a dictionary.
    fn sketch_interned(&mut self) {
        for id in 0..self.interner.len() as u32 {
            sketch_string(&mut self.sketch, &self.field, self.interner.get(id));
        }
    }

    fn encode_pending(&mut self) {
        let chunk = self.entries.len();
        self.entries.push(ChunkEntry::default());
        match &mut self.state {
            State::Keys(pending) => {
                let encoded = pending.encode(self.plain);
                self.make_ready(chunk, encoded);
            }
            State::Interned(pending) => self
                .backlog
                .push_back((chunk, Backlog::Memory(pending.encode_with(encode_packed)))),
            State::Strings(pending) => {
                let encoded = pending.encode();
                self.make_ready(chunk, encoded);
            }
        }
    }

    fn make_ready(&mut self, chunk: usize, encoded: Encoded) {
        self.ready_bytes += encoded.bytes().len();
        self.ready.push((chunk, encoded));
    }

    /// Returns the bytes of chunks that wait to be written.
    pub(crate) fn ready_bytes(&self) -> usize {
        self.ready_bytes
    }

    /// Removes and returns the chunks that wait to be written, with their numbers.
    pub(crate) fn take_ready(&mut self) -> Vec<(usize, Encoded)> {
        self.ready_bytes = 0;
        std::mem::take(&mut self.ready)
    }

    /// Notes where a chunk was written.
    pub(crate) fn place(&mut self, chunk: usize, entry: ChunkEntry) {
        self.entries[chunk] = entry;
    }

    /// Returns the bytes of the backlog in DRAM.
    pub(crate) fn backlog_bytes(&self) -> usize {
        let memory = |backlog: &Backlog| match backlog {
            Backlog::Memory(encoded) => encoded.bytes().len(),
            Backlog::Spilled(..) => 0,
        };
        self.backlog.iter().map(|(_, backlog)| memory(backlog)).sum()
    }

    /// Iterates over the backlog, so that it can be spilled.
    pub(crate) fn backlog_mut(&mut self) -> impl Iterator<Item = &mut Backlog> {
        self.backlog.iter_mut().map(|(_, backlog)| backlog)
    }

    /// Returns true if [`step`](Self::step) has something to do before more rows come.
    pub(crate) fn must_convert(&self) -> bool {
        matches!(self.state, State::Strings(_)) && !self.backlog.is_empty()
    }

    /// Ends the column, which takes no more rows: encodes the last chunk and decides on the dictionary.
    pub(crate) fn end(&mut self) {
        let distinct = self.interner.len() as u64;
        if self.rows >= DICTIONARY_TRIAL && distinct * 2 > self.rows {
            self.give_up_dictionary();
        }
        if !self.rows.is_multiple_of(self.chunk_rows as u64) {
            self.encode_pending();
        }
        // What was reserved for rows goes before the ranks come.
        match &mut self.state {
            State::Keys(pending) | State::Interned(pending) => *pending = PendingKeys::default(),
            State::Strings(pending) => *pending = PendingStrings::default(),
        }
        if matches!(self.state, State::Interned(_)) {
            self.ranks = vec![0; self.interner.len()];
            for (rank, id) in (0u32..).zip(self.interner.sorted()) {
                self.ranks[id as usize] = rank;
            }
            self.sketch_interned();
        }
    }

    /// Returns true if a backlog is left; after [`end`](Self::end), call [`step`](Self::step) until there is
    /// none.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Turns backlog into ready chunks, at least one, until there are about `bytes` of them.
    pub(crate) fn step(&mut self, bytes: usize, read: ReadSpilled<'_>) {
        while let Some((number, backlog)) = self.backlog.pop_front() {
            let (entry, chunk) = match &backlog {
                Backlog::Memory(encoded) => (&encoded.entry, encoded.bytes()),
                Backlog::Spilled(entry, scratch, range) => (entry, read(*scratch, range.clone())),
            };
            let chunk = KeyChunk::new(entry, chunk).expect("this writer encoded the chunk");
            let mut ids = Vec::with_capacity(chunk.rows());
            with_lane!(chunk.width(), L => {
                chunk.for_each_block::<L>(0..chunk.rows(), |values| {
                    ids.extend(values.iter().map(|&value| {
                        let value = value.widen();
                        (Some(value) != chunk.null()).then(|| chunk.key_base().wrapping_add(value) as u32)
                    }));
                });
            });
            let encoded = match &self.state {
                State::Strings(_) => {
                    let mut strings = PendingStrings::default();
                    for id in ids {
                        match id {
                            Some(id) => strings.push(self.interner.get(id)),
                            None => strings.push_null(),
                        }
                    }
                    strings.encode()
                }
                _ => {
                    let mut ranks = PendingKeys::default();
                    for id in ids {
                        match id {
                            Some(id) => ranks.keys.push(u64::from(self.ranks[id as usize])),
                            None => ranks.push_null(),
                        }
                    }
                    ranks.encode(self.plain)
                }
            };
            self.make_ready(number, encoded);
            if self.ready_bytes >= bytes {
                break;
            }
        }
        if self.backlog.is_empty() && matches!(self.state, State::Strings(_)) {
            self.interner = Interner::default();
        }
    }

    /// Encodes the dictionary, if the column has one.
    pub(crate) fn dictionary(&self) -> Option<Vec<u8>> {
        matches!(self.state, State::Interned(_))
            .then(|| Dictionary::encode(self.interner.sorted().iter().map(|&id| self.interner.get(id))))
    }

    /// Returns the sketch of the column's values, complete after [`end`](Self::end).
    pub(crate) fn sketch(&self) -> &DistinctSketch {
        &self.sketch
    }

    /// Returns the column's part of the directory: the header (without the places of entries and dictionary)
    /// and the entries. Every chunk must have been placed.
    pub(crate) fn summary(&self) -> (ColumnHeader, &[ChunkEntry]) {
        let valued = || self.entries.iter().filter(|entry| entry.nulls < entry.rows);
        let (kind, distinct) = match self.state {
            State::Keys(_) => (KIND_KEYS, self.sketch.estimate()),
            State::Interned(_) => (KIND_DICTIONARY, self.interner.len() as u64),
            State::Strings(_) => (KIND_STRINGS, self.sketch.estimate()),
        };
        let (min, max) = valued().fold((u64::MAX, 0), |(min, max), e| (min.min(e.min), max.max(e.max)));
        let header = ColumnHeader {
            min: min.min(max),
            max,
            nulls: self.entries.iter().map(|entry| u64::from(entry.nulls)).sum(),
            distinct,
            bytes: self.entries.iter().map(|entry| entry.len).sum(),
            chunks: self.entries.len() as u32,
            kind,
            ..Default::default()
        };
        (header, &self.entries)
    }
}

/// Counts a string, or a decimal that is stored as one.
#[inline]
fn sketch_string(sketch: &mut DistinctSketch, field: &Field, value: &[u8]) {
    if may_be_wide(field.data_type()) {
        sketch.add_wide_decimal(value)
    } else {
        sketch.add_string(value)
    }
}
