//! Options of the experiments on an index over two tiers of memory.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use halocline_bench::{Budget, DataKind, QueryGroup, SlowTierMedium, Tiers};
use halocline_cache::Placement;
use halocline_elf::Layout;
use halocline_terminal::size;

#[derive(Debug, Args)]
#[command(next_help_heading = "Experiments on two tiers of memory")]
pub(crate) struct TierArgs {
    /// The table [default: both]
    #[arg(long, value_enum)]
    data: Option<DataArg>,
    /// The layout of the index
    #[arg(long, value_enum, default_value_t = Layouts::Both)]
    layout: Layouts,
    /// The slow tier: dram, or emulated:PROFILE[:virtual|:delay][:absolute][:ahead=LINES] [default:
    /// emulated:optane:delay, for tpch-tiers emulated:cxl:delay]; in the other experiments that read a pool
    /// or an index what that lies on [default: the real medium]
    #[arg(long, value_name = "MEDIUM")]
    medium: Option<SlowTierMedium>,
    /// The modelled cache above an emulated medium [default: 14M, as on the paper's machine]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    cache_model: Option<u64>,
    /// Skews of the queries, separated by commas; 0 is uniform [default: 0.5, as in the paper]
    #[arg(long, value_name = "THETA", value_delimiter = ',', value_parser = theta)]
    theta: Vec<f64>,
    /// Placements to compare beside the baselines, as static or dynamic:lla, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    placements: Vec<Placement>,
    /// Budgets of DRAM, as 64M or 3%, separated by commas
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = budget)]
    dram: Vec<Budget>,
    /// Queries before those that count
    #[arg(long, value_name = "N")]
    warm_up: Option<usize>,
    /// Kinds of queries, separated by commas [default: all that the experiment has]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    queries: Vec<QueriesArg>,
    /// The paper's sizes: 100 million rows, scale factor 10
    #[arg(long)]
    full: bool,
    /// Write the figures as SVG files to this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) plot: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DataArg {
    /// Independent dimensions
    Uniform,
    /// TPC-H lineitem
    Lineitem,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layouts {
    /// Ours
    Packed,
    /// As published in 2017
    Published,
    /// One after the other
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum QueriesArg {
    /// Exact matches, one at a time
    Exact,
    /// Exact matches, many at a time
    Batch,
    /// Ranges of 2 % in each dimension
    Range,
    /// Ranges of 2 % in every second dimension
    Partial,
    /// All rows, as ranges in each dimension
    WholeRange,
    /// All rows, as ranges in every second dimension
    WholePartial,
}

impl From<QueriesArg> for QueryGroup {
    fn from(queries: QueriesArg) -> Self {
        match queries {
            QueriesArg::Exact => Self::Exact,
            QueriesArg::Batch => Self::Batch,
            QueriesArg::Range => Self::Range,
            QueriesArg::Partial => Self::Partial,
            QueriesArg::WholeRange => Self::WholeRange,
            QueriesArg::WholePartial => Self::WholePartial,
        }
    }
}

impl TierArgs {
    /// Returns true if an option of the medium was given.
    pub(crate) fn names_medium(&self) -> bool {
        self.medium.is_some() || self.cache_model.is_some()
    }

    pub(crate) fn tiers(&self) -> Tiers {
        Tiers {
            data: self.data.map(|data| match data {
                DataArg::Uniform => DataKind::Uniform,
                DataArg::Lineitem => DataKind::Lineitem,
            }),
            layout: match self.layout {
                Layouts::Packed => Some(Layout::Packed),
                Layouts::Published => Some(Layout::Published),
                Layouts::Both => None,
            },
            medium: self.medium.clone(),
            cache_model: self.cache_model,
            thetas: self.theta.clone(),
            placements: self.placements.clone(),
            budgets: self.dram.clone(),
            warm_up: self.warm_up,
            asked: self.queries.iter().copied().map(QueryGroup::from).collect(),
            full: self.full,
        }
    }
}

fn theta(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(theta) if (0.0..1.0).contains(&theta) => Ok(theta),
        _ => Err("a Zipf skew is a number from 0 to below 1, as 0.5".to_owned()),
    }
}

fn budget(text: &str) -> Result<Budget, String> {
    Budget::parse(text, size::parse)
}
