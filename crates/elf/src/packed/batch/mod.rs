//! Batches of exact matches in layout `packed`: a software pipeline over groups of points.
//!
//! A group passes four stages, each of which prefetches the cache lines that the next one reads. In every
//! round each stage processes another group, a few rounds behind the stage before it, so that a line has
//! arrived by the time it is read and about as many misses as possible are in flight all the time. The stage
//! sets differ in what a shortcut tells about the records ([`BatchStages`]); the pipeline is the same.

mod general;
mod middle;
mod quick;
mod subranges;

pub(crate) use general::GeneralStages;
pub(crate) use middle::{MiddleStages, has_middle_lists};
pub(crate) use quick::QuickStages;
pub(crate) use subranges::SubrangeStages;

use crate::Tid;
use crate::kernel::{Kernel, WithKernel};
use crate::packed::exact::{DamagedList, Exact};
use crate::packed::node::PackedTree;
use crate::packed::point_batch::FieldCoefficients;
use crate::tids::Matches;
use halocline_media::Bytes;
use std::ops::IndexMut;

/// Points of a group, unless a stage set has groups of its own.
const GROUP: usize = 4;
/// Groups in flight at most: a power of two above every delay.
const RING: usize = 16;

/// The points of a batch and the rows found for them.
pub(crate) struct Batch<'a, 'p, B> {
    pub(crate) tree: PackedTree<'a, B>,
    /// Codes of a point: the depths of the tree.
    pub(crate) dims: usize,
    /// Coefficients of all dimensions; empty for [`GeneralStages`], which do not use them.
    pub(crate) coefficients: &'a [FieldCoefficients],
    /// Row-major.
    pub(crate) points: &'p [u64],
    pub(crate) out: &'p mut Matches,
}

/// The stages that a group of points passes.
pub(crate) trait BatchStages {
    /// Points of a group.
    const GROUP: usize = GROUP;
    /// Groups in the ring: more than the largest delay.
    const RING: usize = RING;
    /// Rounds by which the stages after [`locate`](Self::locate) lag behind it.
    const DELAYS: [usize; 3];
    /// True if the last group may have fewer points. Otherwise the points after the last whole group are
    /// searched one by one.
    const PARTIAL: bool = false;
    /// Intermediate results of a group.
    type Group;
    /// The groups in flight: an array of [`RING`](Self::RING) groups.
    type Ring: Default + IndexMut<usize, Output = Self::Group>;

    /// Computes where the shortcuts of the points are.
    fn locate<K: Kernel, B: Bytes>(batch: &Batch<'_, '_, B>, points: &[u64], group: &mut Self::Group);

    /// Reads the shortcuts.
    fn follow<K: Kernel, B: Bytes>(batch: &Batch<'_, '_, B>, points: &[u64], group: &mut Self::Group);

    /// Reads the values of the lists.
    ///
    /// # Errors
    /// The offset of a damaged list.
    #[inline(always)]
    fn narrow<K: Kernel, B: Bytes>(
        _batch: &Batch<'_, '_, B>,
        _points: &[u64],
        _group: &mut Self::Group,
    ) -> Result<(), DamagedList> {
        Ok(())
    }

    /// Compares the records and appends the matches of each point.
    ///
    /// # Errors
    /// The offset of a damaged list.
    fn compare<K: Kernel, B: Bytes>(
        batch: &mut Batch<'_, '_, B>,
        points: &[u64],
        group: &mut Self::Group,
    ) -> Result<(), DamagedList>;
}

/// A batch and the stages that its points pass.
pub(crate) struct BatchPipeline<'a, 'p, B, S>(pub(crate) Batch<'a, 'p, B>, pub(crate) S);

impl<B: Bytes, S: BatchStages> WithKernel for BatchPipeline<'_, '_, B, S> {
    type Output = Result<(), DamagedList>;

    #[inline(always)]
    fn run<K: Kernel>(self) -> Self::Output {
        let Self(mut batch, _) = self;
        let (points, dims) = (batch.points, batch.dims);
        let words = S::GROUP * dims;
        let groups = if S::PARTIAL {
            points.len().div_ceil(words)
        } else {
            points.len() / words
        };
        let of = |group: usize| {
            let rest = &points[group * words..];
            let len = if S::PARTIAL { rest.len().min(words) } else { words };
            &rest[..len]
        };
        batch.out.reserve(points.len() / dims);
        let mut ring = S::Ring::default();
        let [follow, narrow, compare] = S::DELAYS;
        for round in 0..groups + compare {
            if round < groups {
                S::locate::<K, B>(&batch, of(round), &mut ring[round % S::RING]);
            }
            // In the first rounds the subtraction wraps around, to a number above `groups`.
            let group = round.wrapping_sub(follow);
            if group < groups {
                S::follow::<K, B>(&batch, of(group), &mut ring[group % S::RING]);
            }
            let group = round.wrapping_sub(narrow);
            if group < groups {
                S::narrow::<K, B>(&batch, of(group), &mut ring[group % S::RING])?;
            }
            let group = round.wrapping_sub(compare);
            if group < groups {
                S::compare::<K, B>(&mut batch, of(group), &mut ring[group % S::RING])?;
            }
        }
        let rest = points.get(groups * words..).unwrap_or_default();
        rest.chunks_exact(dims)
            .try_for_each(|point| batch.search_one::<K>(point))
    }
}

impl<B: Bytes> Batch<'_, '_, B> {
    /// Searches a point from the shortcut on and appends its matches.
    #[inline(always)]
    fn search_one<K: Kernel>(&mut self, point: &[u64]) -> Result<(), DamagedList> {
        let tree = self.tree;
        let run = Exact { tree, point }.run::<K>()?;
        self.out.push(tree.tids(run));
        Ok(())
    }

    /// Appends the matches of a group each of whose points has one at most: the first `found` of `tids`, of
    /// which those of point `i` end at `ends[i]`. If the group is irregular, its points are searched one
    /// by one instead.
    #[inline(always)]
    fn emit<K: Kernel>(
        &mut self,
        points: &[u64],
        tids: &[Tid; GROUP],
        ends: &[usize; GROUP],
        found: usize,
        irregular: bool,
    ) -> Result<(), DamagedList> {
        if !irregular {
            // Whole arrays are copied and then cut off: a copy of constant length is a single vector store.
            let start = self.out.tids.len();
            self.out.tids.extend_from_slice(tids);
            self.out.tids.truncate(start + found);
            self.out.ends.extend_from_slice(ends);
            return Ok(());
        }
        points
            .chunks_exact(self.dims)
            .try_for_each(|point| self.search_one::<K>(point))
    }
}
