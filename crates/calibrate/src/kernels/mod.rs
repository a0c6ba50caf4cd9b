//! Access patterns whose cost tells media apart: dependent reads, sequential and selective reads, hash
//! probes.
//!
//! Calibration and the experiments on access patterns run the same code. Media that record or charge
//! accesses see every one of them; of all others the words are loaded directly.

mod chain;
mod probe;
mod scan;

pub use chain::{SEQUENTIAL, SHUFFLED, link, walk};
pub(crate) use chain::{link_unless, successor};
pub use probe::{ProbeTable, read_columns};
pub use scan::{sum, sum_strided};
