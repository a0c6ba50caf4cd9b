//! Kinds of joins.

/// Rows that an equi-join returns.
///
/// Sides are named after their part in the join: the rows of the *build* side are collected, those of the
/// *probe* side look for partners among them. In SQL terms, if the build side is the left table,
/// `BuildOuter` is a left join and `ProbeOuter` a right join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// All pairs.
    Inner,
    /// All pairs, and probe rows without partner beside NULLs.
    ProbeOuter,
    /// All pairs, and build rows without partner beside NULLs.
    BuildOuter,
    /// All pairs, and rows without partner of both sides.
    FullOuter,
    /// Probe rows with a partner, once each.
    ProbeSemi,
    /// Probe rows without partner.
    ProbeAnti,
    /// All probe rows, and a last column `mark` that is true for those with a partner.
    ProbeMark,
    /// Build rows with a partner, once each.
    BuildSemi,
    /// Build rows without partner.
    BuildAnti,
    /// All build rows, and a last column `mark` that is true for those with a partner.
    BuildMark,
}

impl JoinKind {
    /// All kinds.
    pub const ALL: [JoinKind; 10] = [
        JoinKind::Inner,
        JoinKind::ProbeOuter,
        JoinKind::BuildOuter,
        JoinKind::FullOuter,
        JoinKind::ProbeSemi,
        JoinKind::ProbeAnti,
        JoinKind::ProbeMark,
        JoinKind::BuildSemi,
        JoinKind::BuildAnti,
        JoinKind::BuildMark,
    ];

    /// Returns true if pairs of rows are returned.
    pub fn returns_pairs(self) -> bool {
        use JoinKind::{BuildOuter, FullOuter, Inner, ProbeOuter};
        matches!(self, Inner | ProbeOuter | BuildOuter | FullOuter)
    }

    /// Returns true if columns of the build side are returned.
    pub fn returns_build(self) -> bool {
        use JoinKind::{BuildAnti, BuildMark, BuildSemi};
        self.returns_pairs() || matches!(self, BuildSemi | BuildAnti | BuildMark)
    }

    /// Returns true if columns of the probe side are returned.
    pub fn returns_probe(self) -> bool {
        use JoinKind::{ProbeAnti, ProbeMark, ProbeSemi};
        self.returns_pairs() || matches!(self, ProbeSemi | ProbeAnti | ProbeMark)
    }

    /// Returns true if the join must know for each build row if it has a partner.
    pub(super) fn tracks_build(self) -> bool {
        use JoinKind::{BuildAnti, BuildMark, BuildOuter, BuildSemi, FullOuter};
        matches!(self, BuildOuter | FullOuter | BuildSemi | BuildAnti | BuildMark)
    }

    /// Returns true if the join must know for each probe row if it has a partner.
    pub(super) fn tracks_probe(self) -> bool {
        use JoinKind::{FullOuter, ProbeAnti, ProbeMark, ProbeOuter, ProbeSemi};
        matches!(self, ProbeOuter | FullOuter | ProbeSemi | ProbeAnti | ProbeMark)
    }

    /// Returns true if build rows without partner are returned.
    pub(super) fn keeps_lone_build(self) -> bool {
        self.tracks_build() && self != JoinKind::BuildSemi
    }

    /// Returns true if probe rows without partner are returned.
    pub(super) fn keeps_lone_probe(self) -> bool {
        self.tracks_probe() && self != JoinKind::ProbeSemi
    }

    /// Returns true if the last column is the mark.
    pub(super) fn has_mark(self) -> bool {
        matches!(self, JoinKind::ProbeMark | JoinKind::BuildMark)
    }
}
