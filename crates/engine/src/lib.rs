//! SQL over a pool, through DataFusion.
