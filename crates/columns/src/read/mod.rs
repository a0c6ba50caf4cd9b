//! Reads of tables: columns and segments, codes in blocks, selections, strings, and the space of codes.

pub(crate) mod ahead;
pub(crate) mod bitset;
pub(crate) mod byte_range;
pub(crate) mod bytes_array;
pub(crate) mod codes;
pub(crate) mod column;
pub(crate) mod dictionary;
pub(crate) mod filter;
pub(crate) mod filter_strings;
pub(crate) mod float_codes;
pub(crate) mod like;
pub(crate) mod lookup;
pub(crate) mod predicate;
pub(crate) mod row_selection;
pub(crate) mod scan;
pub(crate) mod segment;
pub(crate) mod select;
pub(crate) mod selection;
pub(crate) mod space;
pub(crate) mod string_predicate;
pub(crate) mod validity;
pub(crate) mod verified;
