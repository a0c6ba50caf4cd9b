//! The array join: the key of a build row says where the row is, so there is no hash table, and build
//! columns are read in place.

mod dense_keys;
mod join;
mod random_rows;

pub use dense_keys::DenseKeyMap;
pub use random_rows::{ArrayRows, RandomRows, TableRows};
