//! The experiments on access patterns, two tiers of memory, ordered trees, key-value stores, joins, star
//! joins and TPC-H, at tiny sizes and on a clock of its own.

mod access;
mod caching;
mod joins;
mod media;
mod others;
mod ssb;
mod stores;
mod support;
mod tpch;
mod trees;
