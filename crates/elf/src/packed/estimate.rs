//! Estimates from the upper levels: exact row counts there, histograms below.

use crate::Estimate;
use crate::Result;
use crate::kernel::{CodeRange, Portable};
use crate::packed::node::{InnerList, ListNode, PackedTree};
use crate::plan::{Plan, Test};
use halocline_media::Bytes;

/// Maximum number of lists that are read, whatever the size of the index.
pub(crate) const MAX_LISTS_READ: usize = 32;
/// Size of the sample of a list's children.
const SAMPLED_CHILDREN: usize = 8;
/// Least rows per list below which its own values usually separate them, so that no list is below it.
pub(crate) const LEAF_ROWS: f64 = 2.0;

/// Estimates the rows that match and the lists that a selection visits; reads the heads of about
/// [`MAX_LISTS_READ`] lists at most.
pub(crate) fn estimate<'a, B: Bytes>(tree: PackedTree<'a, B>, plan: &'a Plan) -> Result<Estimate> {
    let header = tree.header;
    let mut sum = Estimate::default();
    let mut read = 1;
    let mut level = vec![header.root as usize];
    for depth in 0..=header.geometry.dims() {
        let mut next = vec![];
        for &at in &level {
            sum.lists += 1.0;
            match tree.node(at, depth)? {
                ListNode::Leaf(leaf) => {
                    let rows = match plan.tests.get(depth) {
                        None | Some(Test::Any) => leaf.rows as f64,
                        Some(Test::Range(between)) => {
                            let (first, end) = leaf.interval::<B, Portable>(tree.view, *between);
                            (end - first) as f64
                        }
                        Some(Test::Set(_)) => leaf.rows as f64 * selectivity(tree, plan, depth),
                    };
                    let matching = rows * share_below(tree, plan, depth);
                    sum.rows += matching;
                    sum.ranges += if plan.rest(depth).is_empty() {
                        1.0
                    } else {
                        matching
                    };
                }
                ListNode::Inner(inner) if depth >= plan.open_from => {
                    sum.rows += inner.rows as f64;
                    sum.ranges += 1.0;
                }
                ListNode::Inner(inner)
                    if tree.geometry().is_clustered()
                        && depth + 1 >= plan.open_from
                        && let Test::Range(between) = plan.tests[depth] =>
                {
                    let (first, end) = inner.interval::<B, Portable>(tree.view, between);
                    let rows = tree.rows_below(&inner, depth, first, end)?;
                    sum.rows += (rows.end - rows.start) as f64;
                    sum.ranges += 1.0;
                    read += 2;
                }
                ListNode::Inner(inner) => {
                    let places = ChildPositions::new(tree, inner, &plan.tests[depth]);
                    if places.len == 0 || read + places.len <= MAX_LISTS_READ {
                        let children = places.children(1);
                        read += children.len();
                        next.extend(children);
                        continue;
                    }
                    let (children, rows) = if plan.tests[depth] == Test::Any {
                        (inner.entries as f64, inner.rows as f64)
                    } else {
                        // Too many to read: a sample stands for all.
                        let step = places.len.div_ceil(SAMPLED_CHILDREN);
                        let sample = places.children(step);
                        read += sample.len();
                        let rows = sample
                            .iter()
                            .map(|&child| Ok(tree.node(child, depth + 1)?.rows() as f64));
                        let rows = rows.sum::<Result<f64>>()?;
                        let scale = places.len as f64 / places.len.div_ceil(step) as f64;
                        (sample.len() as f64 * scale, rows * scale)
                    };
                    add_below(tree, plan, depth, children, rows, &mut sum);
                }
            }
        }
        if next.is_empty() {
            break;
        }
        level = next;
    }
    sum.rows = sum.rows.min(header.geometry.rows as f64);
    sum.ranges = if tree.geometry().is_clustered() {
        sum.ranges.min(sum.rows)
    } else {
        sum.rows
    };
    Ok(sum)
}

/// Returns the estimated share of the rows that pass the test of a depth; of the rows in its buckets, if
/// there are any.
fn selectivity<B: Bytes>(tree: PackedTree<'_, B>, plan: &Plan, depth: usize) -> f64 {
    let share = |depth: usize| tree.header.histograms[depth].selectivity(&plan.tests[depth]);
    match depth
        .checked_sub(1)
        .filter(|&above| tree.geometry().is_of_buckets(above))
    {
        Some(buckets) => (share(depth) / share(buckets).max(f64::MIN_POSITIVE)).min(1.0),
        None => share(depth),
    }
}

/// Returns the estimated number of distinct values of a depth; per bucket, if there are any.
fn distinct<B: Bytes>(tree: PackedTree<'_, B>, depth: usize) -> f64 {
    let distinct = |depth: usize| tree.header.histograms[depth].distinct as f64;
    match depth
        .checked_sub(1)
        .filter(|&above| tree.geometry().is_of_buckets(above))
    {
        Some(buckets) => distinct(depth) / distinct(buckets).max(1.0),
        None => distinct(depth),
    }
}

/// Returns the estimated share of the rows that pass all tests below a dimension, assuming independence.
fn share_below<B: Bytes>(tree: PackedTree<'_, B>, plan: &Plan, depth: usize) -> f64 {
    let rest = plan.rest(depth).iter();
    rest.map(|&dim| selectivity(tree, plan, usize::from(dim)))
        .product()
}

/// Adds the estimate below `lists` lists of dimension `depth + 1` that hold `rows` rows and are not read. A
/// level is assumed to have as many lists as there are combinations of values, until each has few rows.
fn add_below<B: Bytes>(
    tree: PackedTree<'_, B>,
    plan: &Plan,
    depth: usize,
    lists: f64,
    rows: f64,
    sum: &mut Estimate,
) {
    let (mut lists, mut rows) = (lists, rows);
    let (mut leaves, mut ranges) = (false, lists);
    for dim in depth + 1..plan.open_from {
        if !leaves {
            lists = lists.min(rows);
            sum.lists += lists;
            leaves = rows < lists * LEAF_ROWS;
            // The lists of the last restricted dimension have a range each.
            ranges = lists;
        }
        let share = selectivity(tree, plan, dim);
        lists *= (distinct(tree, dim) * share).max(1.0);
        rows *= share;
    }
    sum.rows += rows;
    sum.ranges += if leaves { rows } else { ranges.min(rows) };
}

/// The positions of a list whose values may pass its test: entries, or the codes of a set.
struct ChildPositions<'a, B> {
    tree: PackedTree<'a, B>,
    inner: InnerList,
    test: &'a Test,
    first: usize,
    len: usize,
}

impl<'a, B: Bytes> ChildPositions<'a, B> {
    fn new(tree: PackedTree<'a, B>, inner: InnerList, test: &'a Test) -> Self {
        let (first, end) = match test {
            Test::Any => (0, inner.entries),
            Test::Range(between) => inner.interval::<B, Portable>(tree.view, *between),
            Test::Set(set) => (0, set.codes.len()),
        };
        Self {
            tree,
            inner,
            test,
            first,
            len: end - first,
        }
    }

    /// Returns the children at every `step`-th position.
    fn children(&self, step: usize) -> Vec<usize> {
        let places = (self.first..self.first + self.len).step_by(step);
        places.filter_map(|place| self.child(place)).collect()
    }

    fn child(&self, place: usize) -> Option<usize> {
        let view = self.tree.view;
        let entry = match self.test {
            Test::Set(set) => {
                let code = CodeRange {
                    lo: set.codes[place],
                    span: 0,
                };
                let (entry, end) = self.inner.interval::<B, Portable>(view, code);
                (entry < end).then_some(entry)?
            }
            _ => place,
        };
        let child = self.inner.child(view, entry);
        (child != 0).then_some(child)
    }
}
