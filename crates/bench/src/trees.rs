//! What the experiments on ordered trees are run with.

use std::fmt;
use std::str::FromStr;

use halocline_ordered::TreeKind;

/// What the caller of an experiment on ordered trees decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trees {
    /// Kinds of trees; all of them by default.
    pub kinds: Vec<TreeKind>,
    /// What they lie on; everything by default.
    pub media: Vec<TreeMedium>,
}

impl Trees {
    /// The kinds asked for, or all.
    pub(crate) fn kinds(&self) -> &[TreeKind] {
        match self.kinds.is_empty() {
            true => TreeKind::ALL,
            false => &self.kinds,
        }
    }

    /// The media asked for, or all.
    pub(crate) fn media(&self) -> &[TreeMedium] {
        match self.media.is_empty() {
            true => &TreeMedium::ALL,
            false => &self.media,
        }
    }
}

/// What a tree lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeMedium {
    /// A file in DRAM (/dev/shm) that is taken for a DAX file: every flush and fence is really executed.
    Dax,
    /// A file on the page cache.
    PageCache,
    /// The emulated medium.
    Emulated,
}

impl TreeMedium {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Dax, Self::PageCache, Self::Emulated];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dax => "dax",
            Self::PageCache => "page-cache",
            Self::Emulated => "emulated",
        }
    }
}

impl fmt::Display for TreeMedium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for TreeMedium {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|medium| medium.name() == text);
        found.ok_or_else(|| format!("there is no medium `{text}`: dax, page-cache or emulated"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_asked_for_means_everything() {
        let mut trees = Trees::default();
        assert_eq!((trees.kinds(), trees.media().len()), (TreeKind::ALL, 3));
        trees.media = vec!["dax".parse().unwrap()];
        trees.kinds = vec![TreeKind::Lb];
        assert_eq!(
            (trees.kinds(), trees.media()),
            (&[TreeKind::Lb][..], &[TreeMedium::Dax][..])
        );
        assert!("floppy".parse::<TreeMedium>().is_err());
    }
}
