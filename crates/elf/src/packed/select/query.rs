//! The test of one level's lists: [`LevelQuery`].

use super::LevelTraversal;
use super::ahead::{MAX_LEAF_DISTANCE, SHORT_LEAF_BYTES};
use crate::geometry::LevelFormat;
use crate::kernel::CodeRange;
use crate::packed::node::INNER_HEADER;
use crate::plan::{Set, Test};
use crate::sink::MatchSink;
use halocline_media::Bytes;

/// The test of one level's lists.
#[derive(Debug, Clone, Copy)]
pub(super) struct LevelQuery<'p> {
    pub(super) level: LevelFormat,
    /// Bounds of the level's own values.
    pub(super) between: CodeRange,
    pub(super) set: Option<&'p Set>,
    /// True if all values match.
    pub(super) any: bool,
    /// Restricted dimensions beyond this one.
    pub(super) rest: &'p [u8],
    /// Distance from the start of the next level's lists to the bytes that are read first: in a leaf list
    /// and in an inner one.
    pub(super) leaf_ahead: usize,
    pub(super) inner_ahead: usize,
}

impl<'p, B: Bytes, S: MatchSink> LevelTraversal<'_, 'p, B, S> {
    /// Returns the test of the lists of dimension `depth`.
    pub(super) fn query(&self, depth: usize) -> LevelQuery<'p> {
        let (between, set) = match self.plan.tests.get(depth) {
            None | Some(Test::Any) => (
                CodeRange {
                    lo: 0,
                    span: u64::MAX,
                },
                None,
            ),
            Some(Test::Range(between)) => (*between, None),
            Some(Test::Set(set)) => (set.bounds, Some(&**set)),
        };
        let any = matches!(self.plan.tests.get(depth), None | Some(Test::Any));
        // Of a leaf list only the values if they are tested, otherwise all; of an inner list the first link
        // that may match.
        let (leaf_ahead, inner_ahead) = match self.plan.tests.get(depth + 1) {
            Some(Test::Range(next)) => (
                SHORT_LEAF_BYTES,
                INNER_HEADER + 2 * (next.lo as usize).min(MAX_LEAF_DISTANCE),
            ),
            Some(Test::Set(_)) => (SHORT_LEAF_BYTES, 64),
            None | Some(Test::Any) => (64, 64),
        };
        LevelQuery {
            level: self.tree.geometry().levels[depth],
            between,
            set,
            any,
            rest: self.plan.rest(depth),
            leaf_ahead,
            inner_ahead,
        }
    }
}
