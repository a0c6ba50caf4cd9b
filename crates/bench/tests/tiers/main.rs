//! The experiments on two tiers of memory, on ordered trees and on star joins, at tiny sizes and on a clock
//! of its own.

mod caching;
mod media;
mod others;
mod ssb;
mod support;
mod trees;
