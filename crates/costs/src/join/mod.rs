//! The cost of each join algorithm and the choice of the cheapest, and the order of joins and of probes.
//!
//! Algorithms: after Shanbhag, Tatbul, Cohen, Madden (DaMoN 2020, section 5), with T build rows, V probe
//! rows, memory M, k = ceil(T / M), read cost r and λ times that for writing: Grace costs r (T + V) (λ + 2),
//! segmented Grace with x of k parts spilled r (T + V) (1 + (λ + 1) x / k + (k - x)), nested loops r (T + k
//! V). These count transfers only. Here each phase has its DRAM and CPU terms, too:
//! [`CpuCosts`](crate::machine::CpuCosts) per row, and per lookup two dependent reads whose time depends on
//! the size of what is read ([`MediumCosts`](crate::machine::MediumCosts)). Inputs are read ahead of the
//! computation, so that a phase takes the longer of the two times; what is spilled is waited for.

mod algorithm;
pub mod array;
mod choice;
mod filtered;
mod model;
pub mod order;
mod probe;
mod size;
mod terms;
#[cfg(test)]
mod tests;

pub use algorithm::{Algorithm, JoinAlgorithm};
pub use choice::{JoinChoice, JoinEstimate};
pub use filtered::choose_filtered;
pub use model::choose;
pub use probe::ProbeCost;
pub use size::{JoinSize, TABLE_ROW_BYTES, row_bytes, table_row_bytes};
