//! Arrow values and types with the semantics of SQL: conversions, dates and times, names of types, and the
//! types that tables store. Depends on Arrow only.
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "a part of the engine: its documentation is read with that of private items"
)]

pub mod convert;
pub mod floats;
pub mod names;
pub mod sliced_size;
pub mod storable;
pub mod times;

pub use convert::convert;
pub use names::sql_name;
