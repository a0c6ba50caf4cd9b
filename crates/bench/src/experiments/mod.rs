//! The experiments.

mod access;
mod churn;
mod elf_layout;
mod elf_media;
mod elf_parallel;
mod elf_policies;
mod elf_selections;
mod elf_warmup;
mod ingest;
mod joins;
mod kv;
mod media;
mod memory;
mod open;
mod ordered;
mod sql;
mod ssb;
mod tiers;
mod tpch_tiers;
mod verify;

use crate::{BenchError, Chart, Reporter, Settings, TableView};

/// An experiment.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// Description in one sentence.
    pub about: &'static str,
    /// The options it heeds, besides `--json`, `--quick` and `--seed`.
    pub options: &'static [&'static str],
    /// The tables of its measured values.
    pub views: &'static [TableView],
    /// The figures of its measured values.
    pub charts: &'static [Chart],
    /// Runs it.
    pub run: fn(&Settings, &mut Reporter<'_>) -> Result<(), BenchError>,
}

/// Options of the experiments on two tiers.
const TIERS: &[&str] = &[
    "--data",
    "--rows",
    "--sf",
    "--full",
    "--layout",
    "--medium",
    "--cache-model",
    "--placements",
    "--dram",
    "--theta",
    "--warm-up",
    "--threads",
    "--repeat",
    "--plot",
];

/// Options of the experiments on two tiers in which the share in DRAM does not vary.
const TIERS_UNPLACED: &[&str] = &[
    "--data",
    "--rows",
    "--sf",
    "--full",
    "--layout",
    "--medium",
    "--cache-model",
    "--theta",
    "--threads",
    "--repeat",
    "--plot",
];

/// Options of the experiments on pools with TPC-H lineitem.
const POOLS: &[&str] = &[
    "--sf",
    "--threads",
    "--repeat",
    "--dir",
    "--medium",
    "--cache-model",
];

/// Returns all experiments.
#[must_use]
pub fn experiments() -> &'static [Experiment] {
    &[
        Experiment {
            name: "elf-layout",
            about: "Elf layouts packed and published on a uniform table: build, size, three query types, one thread",
            options: &["--rows", "--threads", "--repeat", "--medium", "--cache-model"],
            views: elf_layout::VIEWS,
            charts: &[],
            run: elf_layout::run,
        },
        Experiment {
            name: "elf-media",
            about: "placements of an Elf over two tiers of memory: build, three query types, DRAM taken, reopening",
            options: TIERS,
            views: elf_media::VIEWS,
            charts: elf_media::CHARTS,
            run: elf_media::run,
        },
        Experiment {
            name: "elf-parallel",
            about: "range selections on one thread, on all by subtree, and as estimated, by cardinality and range",
            options: TIERS_UNPLACED,
            views: elf_parallel::VIEWS,
            charts: elf_parallel::CHARTS,
            run: elf_parallel::run,
        },
        Experiment {
            name: "elf-policies",
            about: "policies of a dynamic cache by capacity, exact match and range, between slow tier and DRAM",
            options: TIERS,
            views: elf_policies::VIEWS,
            charts: elf_policies::CHARTS,
            run: elf_policies::run,
        },
        Experiment {
            name: "elf-warmup",
            about: "throughput over the queries run so far, by placement: exact match, range, partial match",
            options: TIERS,
            views: elf_warmup::VIEWS,
            charts: elf_warmup::CHARTS,
            run: elf_warmup::run,
        },
        Experiment {
            name: "elf-selections",
            about: "selections over TPC-H lineitem: Elf, our scan, and plain DataFusion in memory",
            options: POOLS,
            views: elf_selections::VIEWS,
            charts: &[],
            run: elf_selections::run,
        },
        Experiment {
            name: "ingest",
            about: "import of TPC-H lineitem with and without an Elf; single rows and groups on three kinds of medium",
            options: POOLS,
            views: ingest::VIEWS,
            charts: &[],
            run: ingest::run,
        },
        Experiment {
            name: "churn",
            about: "100 appends against one load, queries before and after compaction, readers beside it",
            options: POOLS,
            views: churn::VIEWS,
            charts: &[],
            run: churn::run,
        },
        Experiment {
            name: "memory",
            about: "peak of DRAM in import, index build, append and compaction of tables larger than the budget",
            options: &["--rows", "--sf", "--threads", "--dir"],
            views: memory::VIEWS,
            charts: &[],
            run: memory::run,
        },
        Experiment {
            name: "open",
            about: "open and first query after a restart, by size of the pool",
            options: &["--repeat", "--dir", "--medium", "--cache-model"],
            views: open::VIEWS,
            charts: &[],
            run: open::run,
        },
        Experiment {
            name: "verify",
            about: "cost of comparing what is first read with its checksums: opening, first and warm queries by mode",
            options: &["--repeat", "--dir", "--threads"],
            views: verify::VIEWS,
            charts: &[],
            run: verify::run,
        },
        Experiment {
            name: "ssb",
            about: "the Star Schema Benchmark through SQL: 13 queries by medium, encoding, order, with and without the star join; sizes, import, DRAM",
            options: &[
                "--sf",
                "--on",
                "--encoding",
                "--sort",
                "--star",
                "--scaling",
                "--threads",
                "--repeat",
                "--dir",
                "--medium",
                "--cache-model",
                "--plot",
            ],
            views: ssb::VIEWS,
            charts: ssb::CHARTS,
            run: ssb::run,
        },
        Experiment {
            name: "tpch-tiers",
            about: "the 22 queries of TPC-H through SQL with all tables on an emulated slow tier, beside the same in emulated DRAM and in this host's",
            options: tpch_tiers::OPTIONS,
            views: tpch_tiers::VIEWS,
            charts: tpch_tiers::CHARTS,
            run: tpch_tiers::run,
        },
        Experiment {
            name: "tree-writes",
            about: "lines flushed and fences waited for by each change of an ordered tree, counted; with and without entry moving",
            options: &["--rows", "--trees", "--plot"],
            views: ordered::writes::VIEWS,
            charts: ordered::writes::CHARTS,
            run: ordered::writes::run,
        },
        Experiment {
            name: "tree-ops",
            about: "operations of ordered trees a second, on several media, by one thread and by two, beside a BTreeMap",
            options: &[
                "--rows",
                "--trees",
                "--on",
                "--threads",
                "--repeat",
                "--dir",
                "--medium",
                "--cache-model",
                "--plot",
            ],
            views: ordered::ops::VIEWS,
            charts: ordered::ops::CHARTS,
            run: ordered::ops::run,
        },
        Experiment {
            name: "hot-index",
            about: "lookups of skewed keys through a cache of hot keys in front of a tree, beside the tree alone; updates and removals",
            options: &[
                "--rows",
                "--trees",
                "--on",
                "--threads",
                "--dir",
                "--medium",
                "--cache-model",
                "--plot",
            ],
            views: ordered::hot::VIEWS,
            charts: ordered::hot::CHARTS,
            run: ordered::hot::run,
        },
        Experiment {
            name: "tree-recovery",
            about: "time to open an ordered tree, by kind and size",
            options: &["--rows", "--trees", "--on", "--repeat", "--dir", "--plot"],
            views: ordered::recovery::VIEWS,
            charts: ordered::recovery::CHARTS,
            run: ordered::recovery::run,
        },
        Experiment {
            name: "access-sequential",
            about: "sequential read and write bandwidth by number of threads, on several media",
            options: access::OPTIONS,
            views: access::sequential::VIEWS,
            charts: access::sequential::CHARTS,
            run: access::sequential::run,
        },
        Experiment {
            name: "access-selective",
            about: "time to read every j-th 4-byte value of a column, by the distance of these values, on several media",
            options: access::OPTIONS,
            views: access::selective::VIEWS,
            charts: access::selective::CHARTS,
            run: access::selective::run,
        },
        Experiment {
            name: "access-random",
            about: "hash probes by size of the table, on several media, beside the times that two models predict",
            options: access::OPTIONS,
            views: access::random::VIEWS,
            charts: access::random::CHARTS,
            run: access::random::run,
        },
        Experiment {
            name: "joins",
            about: "equi-joins whose build side grows beyond the memory limit, by algorithm and medium, beside the times that the cost model predicts",
            options: joins::OPTIONS,
            views: joins::VIEWS,
            charts: joins::CHARTS,
            run: joins::run,
        },
        Experiment {
            name: "ycsb",
            about: "the core workloads of YCSB on a key-value store: operations a second and latencies, by medium, size of values and of commits",
            options: &[
                "--rows",
                "--on",
                "--threads",
                "--repeat",
                "--dir",
                "--medium",
                "--cache-model",
                "--plot",
            ],
            views: kv::ycsb::VIEWS,
            charts: kv::ycsb::CHARTS,
            run: kv::ycsb::run,
        },
        Experiment {
            name: "space",
            about: "bytes in the file of a key-value store after all records were overwritten ten times, with and without a long reader",
            options: &["--rows", "--on", "--dir"],
            views: kv::space::VIEWS,
            charts: &[],
            run: kv::space::run,
        },
        Experiment {
            name: "open-after-kill",
            about: "time from opening a key-value store to the first answer after its writer was killed, by size",
            options: &["--rows", "--on", "--repeat", "--dir", "--plot"],
            views: kv::kill::VIEWS,
            charts: kv::kill::CHARTS,
            run: kv::kill::run,
        },
    ]
}
