//! Options of the Star Schema Benchmark.

use halocline_engine::TableEncoding;

/// Options of the Star Schema Benchmark. Every value of a list is combined with those of the other lists, all
/// in one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ssb {
    /// How the tables are stored; as chosen by default.
    pub encodings: Vec<TableEncoding>,
    /// Columns by which lineorder is sorted, `None`: as it is generated, which is the default.
    pub sorts: Vec<Option<String>>,
    /// True (the default) if star queries run as one pipeline, false if DataFusion runs them over the pool.
    pub star: Vec<bool>,
    /// Measure one thread beside all, and a tenth of the scale factor beside it.
    pub scaling: bool,
}
