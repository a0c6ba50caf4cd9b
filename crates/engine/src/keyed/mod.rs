//! Tables with a primary key in queries: the version that a statement sees, and scans of ranges of keys.

mod conditions;
mod prefix;
mod provider;
mod reads;
mod scan_node;

pub(crate) use provider::KeyedProvider;
pub(crate) use reads::KeyedReads;
