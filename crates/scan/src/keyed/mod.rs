//! Tables with a primary key in queries: the version that a statement sees, and scans of ranges of keys.

mod conditions;
mod info;
mod prefix;
mod provider;
mod reads;
mod scan_node;

pub use info::{KeyedColumnInfo, KeyedTableInfo};
pub use info::{is_keyed, keyed_infos, type_of};
pub use provider::KeyedProvider;
pub use reads::KeyedReads;
