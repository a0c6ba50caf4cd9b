//! Scans as users see them: [`Scan`].

use crate::error::Result;
use crate::key_range::KeyRange;
use crate::pair::{PairScan, StorePair, from_millis};
use crate::record_arena::RecordSpan;
use crate::scan::{Direction, STEP_ENTRIES, StepSize};
use crate::scan_pairs::ScannedPairs;
use crate::snapshot::StoreSnapshot;
use crate::store::Store;

/// An iterator over the pairs of a range as of one commit. Blocks nobody.
///
/// [`next`](Iterator::next) returns pairs that own their bytes. [`next_ref`](Self::next_ref) lends them,
/// which is faster: it allocates nothing for a pair.
///
/// The range is read in steps, of a few pairs at first and then of more, up to those of a leaf. A scan has
/// the pairs of a step in memory: their values are not more than 1 MiB and one value. Few large values are
/// read at first: 32 KiB and one value.
///
/// ```
/// # use halocline_store::Stores;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
/// # let store = Stores::open(&pool)?.store("readings")?;
/// for hour in 0..24 {
///     store.put(format!("probe/{hour:02}"), format!("{}", 4 + hour % 5))?;
/// }
/// let mut morning = store.scan("probe/06".."probe/12");
/// let mut sum = 0;
/// while let Some((_key, value)) = morning.next_ref().transpose()? {
///     sum += str::from_utf8(value)?.parse::<u32>()?;
/// }
/// assert_eq!(sum, 5 + 6 + 7 + 8 + 4 + 5);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Scan {
    snapshot: StoreSnapshot,
    store: Store,
    /// The part of the range that has not been read.
    rest: Option<KeyRange>,
    /// Pairs from the start of the range, ascending.
    front: ScannedPairs,
    /// Pairs from the end of the range, descending.
    back: ScannedPairs,
    /// Number of entries of the next step: few at first, so that a scan that ends soon has read little.
    step: usize,
    /// Number of pairs after which the scan ends.
    limit: usize,
}

/// Number of entries of the first step of a scan, and its growth with each step.
const FIRST_STEP: usize = 8;
const STEP_GROWTH: usize = 4;

/// A pair that was found, in the buffer of one end of the range.
enum FoundPair {
    Front(RecordSpan),
    Back(RecordSpan),
}

impl Scan {
    pub(crate) fn new(snapshot: StoreSnapshot, store: &Store, range: KeyRange) -> Self {
        Self {
            snapshot,
            store: store.clone(),
            rest: Some(range),
            front: ScannedPairs::default(),
            back: ScannedPairs::default(),
            step: FIRST_STEP,
            limit: usize::MAX,
        }
    }

    /// Ends the scan after `pairs` pairs, counted from both ends. Unlike [`take`](Iterator::take) it also
    /// lets the scan read as many at once and no more, which is the fastest for short scans.
    ///
    /// ```
    /// # use halocline_store::Stores;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let pool = halocline_pool::Pool::create(directory.path().join("p"), &Default::default())?;
    /// # let store = Stores::open(&pool)?.store("events")?;
    /// for number in 0..100 {
    ///     store.put(format!("{number:02}"), "")?;
    /// }
    /// let mut newest = store.scan::<&str>(..).with_limit(20);
    /// assert_eq!(newest.next_back_ref().transpose()?, Some((&b"99"[..], &b""[..])));
    /// assert_eq!(newest.rev().count(), 19);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_limit(mut self, pairs: usize) -> Self {
        self.limit = pairs;
        self.step = pairs.clamp(1, STEP_ENTRIES);
        self
    }

    /// Returns the same pairs with their times of expiry.
    pub fn with_expiry(self) -> PairScan {
        PairScan::new(self)
    }

    /// Returns the next key and its value, which are valid until the next call.
    ///
    /// # Errors
    /// [`Dropped`](crate::StoreError::Dropped), [`Damaged`](crate::StoreError::Damaged), and for readers
    /// beside a writer [`Stale`](crate::StoreError::Stale). The part of the range that was not read is
    /// skipped then.
    pub fn next_ref(&mut self) -> Option<Result<(&[u8], &[u8])>> {
        let found = self.advance(Direction::Forward).transpose()?;
        Some(found.map(|pair| self.pair(&pair)))
    }

    /// Returns the last key that has not been returned, and its value, which are valid until the next call.
    ///
    /// # Errors
    /// As [`next_ref`](Self::next_ref).
    pub fn next_back_ref(&mut self) -> Option<Result<(&[u8], &[u8])>> {
        let found = self.advance(Direction::Backward).transpose()?;
        Some(found.map(|pair| self.pair(&pair)))
    }

    /// Returns the part of the range that has not been read; `None` if all of it has been.
    pub(crate) fn rest(&self) -> Option<&KeyRange> {
        self.rest.as_ref()
    }

    /// Takes the next pair from one end.
    #[inline]
    fn advance(&mut self, direction: Direction) -> Result<Option<FoundPair>> {
        if self.limit == 0 {
            return Ok(None);
        }
        let near = match direction {
            Direction::Forward => &self.front,
            Direction::Backward => &self.back,
        };
        if near.is_empty() && self.rest.is_some() {
            self.read(direction)?;
        }
        let (front, back) = (&mut self.front, &mut self.back);
        let found = match direction {
            Direction::Forward => {
                let near = front.take_first().map(FoundPair::Front);
                near.or_else(|| back.take_last().map(FoundPair::Back))
            }
            Direction::Backward => {
                let near = back.take_first().map(FoundPair::Back);
                near.or_else(|| front.take_last().map(FoundPair::Front))
            }
        };
        self.limit -= usize::from(found.is_some());
        Ok(found)
    }

    /// Reads steps from one end until there is a pair.
    fn read(&mut self, direction: Direction) -> Result<()> {
        let found = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        let state = &self.snapshot.stores().state;
        let (store, commit) = (&self.store.state, self.snapshot.commit());
        // An error leaves no rest.
        while let Some(range) = self.rest.take() {
            let size = StepSize(self.step.min(self.limit));
            let end = state.scan_step(store, &range, commit, direction, size, found)?;
            self.step = (self.step * STEP_GROWTH).min(STEP_ENTRIES);
            self.rest = end.rest(range, direction);
            if !found.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn pair(&self, pair: &FoundPair) -> (&[u8], &[u8]) {
        let (found, span) = match pair {
            FoundPair::Front(span) => (&self.front, span),
            FoundPair::Back(span) => (&self.back, span),
        };
        (found.get(&span.key), found.get(&span.value))
    }

    fn owned_pair(&self, pair: &FoundPair) -> StorePair {
        let (FoundPair::Front(span) | FoundPair::Back(span)) = pair;
        let expires = span.expires.map(from_millis);
        let (key, value) = self.pair(pair);
        StorePair {
            key: key.to_vec(),
            value: value.to_vec(),
            expires,
        }
    }

    pub(crate) fn next_pair(&mut self) -> Option<Result<StorePair>> {
        let found = self.advance(Direction::Forward).transpose()?;
        Some(found.map(|pair| self.owned_pair(&pair)))
    }

    pub(crate) fn next_pair_back(&mut self) -> Option<Result<StorePair>> {
        let found = self.advance(Direction::Backward).transpose()?;
        Some(found.map(|pair| self.owned_pair(&pair)))
    }
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_pair()?.map(|pair| (pair.key, pair.value)))
    }
}

impl DoubleEndedIterator for Scan {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.next_pair_back()?.map(|pair| (pair.key, pair.value)))
    }
}
