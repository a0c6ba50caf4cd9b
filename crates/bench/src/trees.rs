//! Options of the experiments on ordered trees.

use halocline_ordered::TreeKind;

/// Options of the experiments on ordered trees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trees {
    /// Kinds of trees; all of them by default.
    pub kinds: Vec<TreeKind>,
}

impl Trees {
    /// Returns the requested kinds of trees, or all kinds.
    pub(crate) fn kinds(&self) -> &[TreeKind] {
        if self.kinds.is_empty() {
            TreeKind::ALL
        } else {
            &self.kinds
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_asked_for_means_everything() {
        let mut trees = Trees::default();
        assert_eq!(trees.kinds(), TreeKind::ALL);
        trees.kinds = vec![TreeKind::Lb];
        assert_eq!(trees.kinds(), &[TreeKind::Lb][..]);
    }
}
