//! Comparisons with other systems: experiments whose programs are apart from this one (`bench/peers`), so
//! that nobody who builds it compiles or installs the others. Only their recorded values are shown here.

use crate::{Chart, TableView};

/// Texts about an experiment in the pages of results, whose values have the form of
/// [`Measurement`](crate::Measurement).
pub(crate) struct Section {
    /// The name of the experiment in results.
    pub(crate) name: &'static str,
    /// Description in one sentence.
    pub(crate) about: &'static str,
    /// The command that records it.
    pub(crate) command: String,
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
    title: "requests a second by connections",
    metrics: &["rate"],
    split: &["value_bytes", "sets_percent"],
    x: "connections",
    x_label: "connections",
    y_label: "requests a second",
    ..Chart::COLUMNS
}];

const RESTART: &[TableView] = &[TableView {
    title: "time from the start of the server to its first answers",
    metrics: &["first_get", "first_set", "writes_before"],
    split: &["on", "records", "value_bytes"],
    rows: &["metric"],
    columns: "system",
    base: Some("memcached"),
}];

/// Returns all comparisons.
pub(crate) fn comparisons() -> Vec<Section> {
    let queries = |name, about, arguments: &str| Section {
        name,
        about,
        command: format!("python3 bench/peers/queries.py {name} {arguments} --json FILE"),
        views: QUERIES,
        charts: &[],
    };
    let servers = |name, about, views, charts| Section {
        name,
        about,
        command: format!("halocline-kv-peers {name} --json FILE"),
        views,
        charts,
    };
    vec![
        queries(
            "tpch",
            "the 22 queries of TPC-H beside DuckDB and Hyper",
            "DIR/sf3",
        ),
        queries(
            "filters",
            "sums over lineitem with filters that keep more or fewer rows, the greatest rows and counts, beside DuckDB and Hyper",
            "DIR/sf3",
        ),
        queries(
            "strings",
            "conditions on strings of TPC-H, prefixes, ranges and parts, beside DuckDB and Hyper",
            "DIR/sf3",
        ),
        queries(
            "group-by",
            "the ten group-by questions of the db-benchmark beside DuckDB and Polars",
            "DIR",
        ),
        queries(
            "conjunctions",
            "random conjunctions over lineorder of the Star Schema Benchmark by indexes, beside DuckDB",
            "DIR/sf10 --systems halocline,duckdb",
        ),
        servers(
            "memcached",
            "gets and sets of a memcached server over sockets, beside memcached and other storages of the items",
            MEMCACHED,
            MEMCACHED_CHARTS,
        ),
        servers(
            "memcached-restart",
            "restart of a memcached server after a kill, beside a warm restart of memcached",
            RESTART,
            &[],
        ),
    ]
}
