//! The experiments on two tiers of memory, on ordered trees, key-value stores and star joins, at tiny sizes
//! and on a clock of its own.

mod caching;
mod media;
mod others;
mod ssb;
mod stores;
mod support;
mod trees;
