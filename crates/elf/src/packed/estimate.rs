//! Estimates from the upper levels: exact row counts there, histograms below.

use crate::Result;
use crate::kernel::Portable;
use crate::packed::node::{Inner, Node, Tree};
use crate::plan::{Plan, Test};
use halocline_media::Bytes;

/// Lists looked at, whatever the size of the index.
const LISTS: usize = 256;
/// Lists that stand for all of a list's children.
const SAMPLED: usize = 8;
/// Places of a list that are looked at.
const LONG: usize = 4096;

/// Estimated rows that match; the heads of at most some [`LISTS`] lists are read.
pub(crate) fn estimate<B: Bytes>(tree: Tree<'_, B>, plan: &Plan) -> Result<f64> {
    let header = tree.header;
    let selectivity = |dim: usize| header.histograms[dim].selectivity(&plan.tests[dim]);
    let below = |depth: usize| {
        plan.rest(depth)
            .iter()
            .map(|&dim| selectivity(usize::from(dim)))
            .product::<f64>()
    };
    let mut estimate = 0.0;
    let mut read = 1;
    let mut level = vec![header.root as usize];
    for depth in 0..=header.geometry.dims() {
        let mut next = vec![];
        for &at in &level {
            match tree.node(at, depth)? {
                Node::Leaf(leaf) => {
                    let rows = match plan.tests.get(depth) {
                        None | Some(Test::Any) => leaf.rows as f64,
                        Some(Test::Between(between)) => {
                            let (first, end) = leaf.interval::<B, Portable>(tree.view, *between);
                            (end - first) as f64
                        }
                        Some(Test::Set(_)) => leaf.rows as f64 * selectivity(depth),
                    };
                    estimate += rows * below(depth);
                }
                Node::Inner(inner) if depth >= plan.open_from => estimate += inner.rows as f64,
                Node::Inner(inner) => {
                    let children = matching(tree, &inner, &plan.tests[depth]);
                    if children.is_empty() {
                        continue;
                    }
                    if read + children.len() <= LISTS {
                        read += children.len();
                        next.extend(children);
                    } else if plan.tests[depth] == Test::Any {
                        estimate += inner.rows as f64 * below(depth);
                    } else {
                        // Too many to look at: a few of them stand for all.
                        let step = children.len().div_ceil(SAMPLED);
                        let rows = children
                            .iter()
                            .step_by(step)
                            .map(|&child| Ok(tree.node(child, depth + 1)?.rows()));
                        let rows = rows.collect::<Result<Vec<u64>>>()?;
                        let mean = rows.iter().sum::<u64>() as f64 / rows.len() as f64;
                        estimate += mean * children.len() as f64 * below(depth);
                        read += rows.len();
                    }
                }
            }
        }
        if next.is_empty() {
            break;
        }
        level = next;
    }
    Ok(estimate.min(header.geometry.rows as f64))
}

/// The children whose values pass the list's own test; of very long lists only the first [`LONG`] places are looked at,
/// and the children there repeated.
fn matching<B: Bytes>(tree: Tree<'_, B>, inner: &Inner, test: &Test) -> Vec<usize> {
    let (first, end) = match test {
        Test::Any => (0, inner.entries),
        Test::Between(between) => inner.interval::<B, Portable>(tree.view, *between),
        Test::Set(set) => inner.interval::<B, Portable>(tree.view, set.bounds),
    };
    let passes = |k: &usize| match test {
        Test::Set(set) => set.holds(inner.value(tree.view, *k)),
        _ => true,
    };
    let step = (end - first).div_ceil(LONG).max(1);
    let children = (first..end)
        .step_by(step)
        .filter(passes)
        .map(|k| inner.child(tree.view, k));
    children
        .filter(|&child| child != 0)
        .flat_map(|child| std::iter::repeat_n(child, step))
        .collect()
}
