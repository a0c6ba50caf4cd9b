//! Merging of sorted pairs: [`PairMerge`].

use std::cmp::Ordering;
use std::io;

use crate::leaf::slice_of;
use crate::loaded_pairs::LoadedPairs;
use crate::pair_runs::RunReader;
use crate::pair_window::{NumberedPair, PairWindow};

/// A source of pairs in ascending order of keys and numbers.
pub(crate) enum PairSource<'a> {
    Run(RunReader),
    /// The pairs of a sorted window from a position on, after the present one.
    Window {
        window: &'a PairWindow,
        next: usize,
        has_begun: bool,
    },
    /// Pairs that were loaded already. They have no numbers.
    Loaded {
        pairs: LoadedPairs,
        present: Option<(Vec<u8>, Vec<u8>)>,
    },
}

impl<'a> PairSource<'a> {
    pub(crate) fn window(window: &'a PairWindow, from: usize) -> Self {
        Self::Window {
            window,
            next: from,
            has_begun: false,
        }
    }

    pub(crate) fn loaded(pairs: LoadedPairs) -> Self {
        Self::Loaded { pairs, present: None }
    }

    fn get(&self) -> Option<NumberedPair<'_>> {
        match self {
            Self::Run(run) => run.get(),
            Self::Window { window, next, .. } => (*next < window.len()).then(|| window.get(*next)),
            Self::Loaded { present, .. } => present.as_ref().map(|(key, value)| NumberedPair {
                number: 0,
                key,
                value,
            }),
        }
    }

    /// Goes to the next pair, or to the first one.
    fn advance(&mut self) -> io::Result<()> {
        match self {
            Self::Run(run) => run.advance()?,
            Self::Window { next, has_begun, .. } => {
                *next += usize::from(*has_begun);
                *has_begun = true;
            }
            Self::Loaded { pairs, present } => {
                *present = pairs.next().transpose().map_err(io::Error::other)?;
            }
        }
        Ok(())
    }
}

/// Pairs of several sources in one order.
pub(crate) struct PairMerge<'a> {
    /// A heap: those that have a present pair, with the first eight bytes of its key. The pair of no source
    /// is less than that of the source at `(at - 1) / 2`.
    heap: Vec<(u64, PairSource<'a>)>,
    /// Sources whose first pair was not read.
    new: Vec<PairSource<'a>>,
    /// True if the pair of the first source was given.
    is_given: bool,
}

impl<'a> PairMerge<'a> {
    pub(crate) fn new(sources: Vec<PairSource<'a>>) -> Self {
        Self {
            heap: Vec::with_capacity(sources.len()),
            new: sources,
            is_given: false,
        }
    }

    /// Returns the next pair.
    ///
    /// # Errors
    /// Those of the files; a [`StoreError`](crate::StoreError) in one of pairs that were loaded.
    pub(crate) fn next(&mut self) -> io::Result<Option<NumberedPair<'_>>> {
        for source in std::mem::take(&mut self.new) {
            self.insert(source)?;
        }
        if std::mem::replace(&mut self.is_given, true) && !self.heap.is_empty() {
            self.heap[0].1.advance()?;
            match slice_at(&self.heap[0].1) {
                Some(slice) => self.heap[0].0 = slice,
                None => {
                    self.heap.swap_remove(0);
                }
            }
            self.sift_down();
        }
        Ok(self.heap.first().and_then(|(_, source)| source.get()))
    }

    fn insert(&mut self, mut source: PairSource<'a>) -> io::Result<()> {
        source.advance()?;
        let Some(slice) = slice_at(&source) else {
            return Ok(());
        };
        self.heap.push((slice, source));
        let mut at = self.heap.len() - 1;
        while at > 0 && self.is_less(at, (at - 1) / 2) {
            self.heap.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        Ok(())
    }

    fn sift_down(&mut self) {
        let mut at = 0;
        loop {
            let left = 2 * at + 1;
            let right = left + 1;
            let mut least = at;
            if left < self.heap.len() && self.is_less(left, least) {
                least = left;
            }
            if right < self.heap.len() && self.is_less(right, least) {
                least = right;
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    fn is_less(&self, a: usize, b: usize) -> bool {
        let ((a_slice, a), (b_slice, b)) = (&self.heap[a], &self.heap[b]);
        let order = a_slice.cmp(b_slice).then_with(|| {
            let order = |source: &PairSource<'_>| source.get().map(|pair| pair.number);
            let keys = (a.get().map(|pair| pair.key)).cmp(&b.get().map(|pair| pair.key));
            keys.then_with(|| order(a).cmp(&order(b)))
        });
        order == Ordering::Less
    }
}

fn slice_at(source: &PairSource<'_>) -> Option<u64> {
    source.get().map(|pair| slice_of(pair.key, 0))
}
