//! The core workloads A-F of YCSB: Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC'10.
//!
//! Three deliberate differences from the original program: every operation is a function of seed and
//! thread, so threads share no insert counter but take turns in the numbers; keys come from a bijection
//! instead of FNV, so two records never collide; and the Zipf distribution has as many items as were
//! loaded instead of 10^10, so the hottest keys have their full share.

mod client;
mod generator;
mod record;
mod run;
mod workload;

pub use generator::{YcsbGenerator, YcsbOp};
pub use record::{ycsb_key, ycsb_value};
pub use run::{YcsbError, YcsbOutcome, YcsbPair, YcsbRun, YcsbStore};
pub use workload::YcsbWorkload;
