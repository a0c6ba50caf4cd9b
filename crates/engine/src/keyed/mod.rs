//! Tables with a primary key in queries: the version that a statement sees, and scans of ranges of keys.

mod conditions;
mod info;
mod prefix;
mod provider;
mod reads;
mod scan_node;

pub use info::{KeyedColumnInfo, KeyedTableInfo};
pub(crate) use info::{is_keyed, keyed_infos};
pub(crate) use provider::KeyedProvider;
pub(crate) use reads::KeyedReads;
