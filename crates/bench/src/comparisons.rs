//! Comparisons with other systems: experiments whose programs are apart from this one (`bench/peers`), so
//! that nobody who builds it compiles or installs the others. Only their recorded values are shown here.

use crate::{Chart, ChartKind, TableView};

/// An experiment of another program, whose values have the form of [`Measurement`](crate::Measurement).
#[derive(Debug)]
pub(crate) struct Comparison {
    /// Its name in results.
    pub(crate) name: &'static str,
    /// Description in one sentence.
    pub(crate) about: &'static str,
    /// The command that measures it.
    pub(crate) command: &'static str,
    /// The tables of its measured values.
    pub(crate) views: &'static [TableView],
    /// The figures of its measured values.
    pub(crate) charts: &'static [Chart],
}

/// Times of queries by system.
const QUERIES: &[TableView] = &[TableView {
    title: "time of a query by system",
    metrics: &["time", "geomean"],
    split: &["scale_factor", "rows"],
    rows: &["query"],
    columns: "system",
    base: Some("halocline"),
}];

const MEMCACHED: &[TableView] = &[
    TableView {
        title: "requests a second by server",
        metrics: &["rate"],
        split: &["on", "value_bytes"],
        rows: &["sets_percent", "connections"],
        columns: "system",
        base: Some("memcached"),
    },
    TableView {
        title: "latencies by server",
        metrics: &["get_latency_*", "set_latency_*"],
        split: &["on", "value_bytes"],
        rows: &["metric", "sets_percent", "connections"],
        columns: "system",
        base: Some("memcached"),
    },
];

const MEMCACHED_CHARTS: &[Chart] = &[Chart {
    name: "",
    title: "requests a second by connections",
    kind: ChartKind::Columns,
    metrics: &["rate"],
    split: &["value_bytes", "sets_percent"],
    x: "connections",
    series: "system",
    base: None,
    x_label: "connections",
    y_label: "requests a second",
    scale: 1.0,
}];

const RESTART: &[TableView] = &[TableView {
    title: "time from the start of the server to its first answers",
    metrics: &["first_get", "first_set", "writes_before"],
    split: &["on", "records", "value_bytes"],
    rows: &["metric"],
    columns: "system",
    base: Some("memcached"),
}];

/// All comparisons.
pub(crate) const COMPARISONS: &[Comparison] = &[
    Comparison {
        name: "tpch",
        about: "the 22 queries of TPC-H beside DuckDB and Hyper",
        command: "python3 bench/peers/queries.py tpch DIR/sf3 --json FILE",
        views: QUERIES,
        charts: &[],
    },
    Comparison {
        name: "filters",
        about: "sums over lineitem with filters that keep more or fewer rows, the greatest rows and counts, beside DuckDB and Hyper",
        command: "python3 bench/peers/queries.py filters DIR/sf3 --json FILE",
        views: QUERIES,
        charts: &[],
    },
    Comparison {
        name: "strings",
        about: "conditions on strings of TPC-H, prefixes, ranges and parts, beside DuckDB and Hyper",
        command: "python3 bench/peers/queries.py strings DIR/sf3 --json FILE",
        views: QUERIES,
        charts: &[],
    },
    Comparison {
        name: "group-by",
        about: "the ten group-by questions of the db-benchmark beside DuckDB and Polars",
        command: "python3 bench/peers/queries.py group-by DIR --json FILE",
        views: QUERIES,
        charts: &[],
    },
    Comparison {
        name: "conjunctions",
        about: "random conjunctions over lineorder of the Star Schema Benchmark by indexes, beside DuckDB",
        command: "python3 bench/peers/queries.py conjunctions DIR/sf10 --systems halocline,duckdb --json FILE",
        views: QUERIES,
        charts: &[],
    },
    Comparison {
        name: "memcached",
        about: "gets and sets of a memcached server over sockets, beside memcached and other storages of the items",
        command: "halocline-kv-peers memcached --json FILE",
        views: MEMCACHED,
        charts: MEMCACHED_CHARTS,
    },
    Comparison {
        name: "memcached-restart",
        about: "restart of a memcached server after a kill, beside a warm restart of memcached",
        command: "halocline-kv-peers memcached-restart --json FILE",
        views: RESTART,
        charts: &[],
    },
];
