//! Advice on a set of indexes for a workload within a space budget: [`advise_indexes`].
//!
//! Statements are planned and not run, and their table references recorded. For each table, candidates are
//! made from the columns that are restricted together (Chaudhuri and Narasayya, VLDB 1997), several orders of
//! each set of columns, and sets of different queries merged. An index that does not exist is forecast from a
//! sample of the rows ([`halocline_elf::Forecast`]); what a query gains is predicted by the cost model that
//! chooses between scan and index. A set is chosen from the candidates of all tables ([`choose`]).

mod advice;
mod candidates;
mod choose;
mod costs;
mod names;
mod outcome;
mod reasons;
mod recorder;
mod result;
mod rows;
mod sample;
mod workload;

pub(crate) use advice::advise_indexes;
pub use result::{IndexSetAdvice, IndexSetOptions, ProposedIndex, QueryForecast, UnusedIndex};
pub use workload::WorkloadQuery;
