//! Options of the experiments on ordered trees.

use clap::Args;
use halocline_bench::Trees;
use halocline_ordered::TreeKind;
use halocline_terminal::args::tree_kinds;

#[derive(Debug, Args)]
#[command(next_help_heading = "Experiments on ordered trees")]
pub(crate) struct TreeArgs {
    /// Kinds of trees, separated by commas [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = tree_kinds())]
    trees: Vec<TreeKind>,
}

impl TreeArgs {
    pub(crate) fn trees(&self) -> Trees {
        Trees {
            kinds: self.trees.clone(),
        }
    }
}
