//! The cost of each algorithm, and the choice of the cheapest.
//!
//! After Shanbhag, Tatbul, Cohen, Madden (DaMoN 2020, section 5), with T build rows, V probe rows, memory M,
//! k = ceil(T / M), read cost r and λ times that for writing: Grace costs r (T + V) (λ + 2), segmented Grace
//! with x of k parts spilled r (T + V) (1 + (λ + 1) x / k + (k - x)), nested loops r (T + k V). These count
//! transfers only. Here each phase has its DRAM and CPU terms, too: [`CpuCosts`] per row, and per lookup two
//! dependent reads whose time depends on the size of what is read ([`MediumCosts`]). Transfers and
//! computation of a phase are added: threads do one after the other.

mod choice;
mod medium;
mod model;
#[cfg(test)]
mod tests;

pub use choice::{JoinChoice, JoinEstimate};
pub use medium::{CpuCosts, MediumCosts};
pub use model::{JoinAlgorithm, JoinSize, choose};
