//! Start of selections in layout `packed`: at the root, or at the lists to which the shortcuts lead.
//!
//! The shortcuts lead to the lists below a few combinations of first codes without a chain of dependent
//! misses on the levels above. They are not used where there are too many combinations: descending from
//! the root is less work then.

use super::slices::SubrangeSlice;
use crate::kernel::CodeRange;
use crate::packed::node::PackedTree;
use crate::packed::shortcuts::{ABOVE, NOWHERE, ShortcutForm};
use crate::packed::subranges::IRREGULAR;
use crate::plan::{Plan, Test};
use halocline_media::Bytes;

/// Number of combinations up to which shortcuts are always used.
const ALWAYS_USED_COMBINATIONS: u64 = 256;
/// Maximum number of combinations for which shortcuts are used at all.
const MAX_COMBINATIONS: u64 = 1 << 14;
/// Minimum number of estimated matches per combination for which shortcuts are used between the two.
const MIN_ROWS_PER_COMBINATION: f64 = 4.0;
/// Distance, in combinations, at which places are prefetched.
const AHEAD: usize = 64;
/// Divisor: subranges are used if a range has at least this part of their codes. With fewer, reading the
/// values of a list avoids reading most of its records.
const MIN_RANGE_DIVISOR: u64 = 4;
/// Bytes of a place's line.
const LINE: usize = 64;

/// Appends the lists of dimension [`Shortcuts::dims`](crate::packed::shortcuts::Shortcuts::dims) from which a
/// selection continues, as slices where the row counts suffice. Returns false, and appends nothing, if it has
/// to start at the root.
pub(crate) fn starts<B: Bytes>(
    tree: PackedTree<'_, B>,
    plan: &Plan,
    lists: &mut Vec<usize>,
    slices: &mut Vec<SubrangeSlice>,
) -> bool {
    let shortcuts = &tree.header.shortcuts;
    let depth = shortcuts.dims();
    let Some(tests) = plan.tests.get(..depth).filter(|tests| !tests.is_empty()) else {
        return false;
    };
    // Below the last restricted depth no list is read, so a start there would read too many.
    if plan.open_from <= depth {
        return false;
    }
    let sizes = tests.iter().zip(&tree.geometry().max_codes);
    let count = sizes.fold(1_u64, |count, (test, &max)| {
        count.saturating_mul(codes(test, max))
    });
    if count > MAX_COMBINATIONS
        || count > ALWAYS_USED_COMBINATIONS && rows(tree, tests) < MIN_ROWS_PER_COMBINATION * count as f64
    {
        return false;
    }
    let (view, before) = (tree.view, (lists.len(), slices.len()));
    let bounds = SubrangeBounds::new(tree, plan);
    let places = PlaceCombinations::new(tree, tests);
    let (mut asked, mut line) = (PlaceCombinations::new(tree, tests), usize::MAX);
    let mut ask = |most: usize| {
        for place in asked.by_ref().take(most) {
            let at = shortcuts.offset(place);
            if at / LINE != line {
                line = at / LINE;
                view.prefetch(at);
            }
        }
    };
    ask(AHEAD);
    for place in places {
        ask(1);
        let at = shortcuts.offset(place);
        let (list, counts) = match &bounds {
            Some(_) => shortcuts.quartered(view, at),
            None => (shortcuts.word(view, at), IRREGULAR),
        };
        match (list, &bounds) {
            (NOWHERE, _) => {}
            (ABOVE, _) => {
                lists.truncate(before.0);
                slices.truncate(before.1);
                return false;
            }
            (list, Some(bounds)) if counts != IRREGULAR => {
                slices.push(bounds.slice(list as usize, counts, place as u64));
            }
            (list, _) => lists.push(list as usize),
        }
    }
    true
}

/// The test of the lists behind quartered shortcuts.
struct SubrangeBounds {
    between: CodeRange,
    /// Number of buckets, and the bits of a code below those of its bucket; 1 and 0 if there are none.
    buckets: u64,
    shift: u32,
    /// Mask of the bits of a code below those of its bucket.
    most: u64,
}

impl SubrangeBounds {
    /// Returns `None` if the values of the lists have to be read.
    fn new<B: Bytes>(tree: PackedTree<'_, B>, plan: &Plan) -> Option<Self> {
        let (shortcuts, geometry) = (&tree.header.shortcuts, tree.geometry());
        let depth = shortcuts.dims();
        let between = match plan.tests.get(depth) {
            Some(Test::Range(between)) if shortcuts.form == ShortcutForm::Quartered => *between,
            _ => return None,
        };
        if between.span.saturating_add(1).saturating_mul(MIN_RANGE_DIVISOR) <= shortcuts.quarters.low.mask {
            return None;
        }
        let (buckets, shift) = match geometry.buckets {
            Some(buckets) => (geometry.max_codes[buckets.depth] + 1, buckets.shift),
            None => (1, 0),
        };
        Some(Self {
            between,
            buckets,
            shift,
            most: shortcuts.quarters.most(),
        })
    }

    /// Returns the slice of the list of this place; it is not empty unless the index is damaged.
    fn slice(&self, at: usize, counts: u16, place: u64) -> SubrangeSlice {
        let from = (place % self.buckets) << self.shift;
        let within = |code: u64| code.saturating_sub(from).min(self.most) as u8;
        SubrangeSlice {
            at,
            counts,
            lo: within(self.between.lo),
            hi: within(self.between.hi()),
        }
    }
}

/// Returns the number of codes that pass a test.
fn codes(test: &Test, max: u64) -> u64 {
    match test {
        Test::Any => max.saturating_add(1),
        Test::Range(between) => between.span.saturating_add(1),
        Test::Set(set) => set.codes.len() as u64,
    }
}

/// Returns the estimated number of rows that pass the tests of the first depths.
fn rows<B: Bytes>(tree: PackedTree<'_, B>, tests: &[Test]) -> f64 {
    let histograms = tests.iter().zip(&tree.header.histograms);
    let share: f64 = histograms
        .map(|(test, histogram)| histogram.selectivity(test))
        .product();
    share * tree.geometry().rows as f64
}

/// The places of all combinations of codes that pass, in the order of the array.
struct PlaceCombinations<'t> {
    tests: &'t [Test],
    /// Number of codes of each depth that pass, and the distance of their places.
    counts: Vec<u64>,
    strides: Vec<u64>,
    /// The next combination: the position of each code among those that pass.
    next: Vec<u64>,
    /// Contribution of the upper depths to the slot index.
    above: u64,
    done: bool,
}

impl<'t> PlaceCombinations<'t> {
    fn new<B: Bytes>(tree: PackedTree<'_, B>, tests: &'t [Test]) -> Self {
        let max = &tree.geometry().max_codes;
        let stride = |depth| tree.header.shortcuts.stride(depth);
        let mut places = Self {
            tests,
            counts: tests
                .iter()
                .zip(max)
                .map(|(test, &max)| codes(test, max))
                .collect(),
            strides: (0..tests.len()).map(stride).collect(),
            next: vec![0; tests.len()],
            above: 0,
            done: false,
        };
        places.done = places.counts.contains(&0);
        places.add_above();
        places
    }

    fn code(&self, depth: usize) -> u64 {
        let position = self.next[depth];
        match &self.tests[depth] {
            Test::Any => position,
            Test::Range(between) => between.lo + position,
            Test::Set(set) => set.codes[position as usize],
        }
    }

    fn add_above(&mut self) {
        let upper = 0..self.tests.len() - 1;
        self.above = if self.done {
            0
        } else {
            upper.map(|depth| self.code(depth) * self.strides[depth]).sum()
        };
    }
}

impl Iterator for PlaceCombinations<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.done {
            return None;
        }
        let last = self.tests.len() - 1;
        let place = self.above + self.code(last);
        self.next[last] += 1;
        if self.next[last] == self.counts[last] {
            let mut depth = last;
            while self.next[depth] == self.counts[depth] {
                self.next[depth] = 0;
                if depth == 0 {
                    self.done = true;
                    break;
                }
                depth -= 1;
                self.next[depth] += 1;
            }
            self.add_above();
        }
        Some(place as usize)
    }
}
