//! Options of the experiments on ordered trees.

use clap::Args;
use halocline_bench::{TreeMedium, Trees};
use halocline_ordered::TreeKind;

use super::kv::kinds;

#[derive(Debug, Args)]
#[command(next_help_heading = "Experiments on ordered trees")]
pub(crate) struct TreeArgs {
    /// Kinds of trees, separated by commas [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = kinds())]
    trees: Vec<TreeKind>,
    /// What they lie on, separated by commas: dax (a file in /dev/shm, taken for one), page-cache (a file in --dir),
    /// emulated (as --medium says, in DRAM) [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    on: Vec<TreeMedium>,
}

impl TreeArgs {
    pub(crate) fn trees(&self) -> Trees {
        Trees {
            kinds: self.trees.clone(),
            media: self.on.clone(),
        }
    }
}
