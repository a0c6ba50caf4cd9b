//! The engine as a user sees it: SQL answers against plain DataFusion over the same Parquet files,
//! statements, imports, and what happens when something is wrong.

mod agree;
mod answers;
mod answers_clauses;
mod answers_numbers;
mod answers_overflow;
mod changes;
mod compaction;
mod corpus;
mod defaults;
mod explain;
mod imports;
mod keyed;
mod keyed_create_as;
mod keyed_drops;
mod keyed_errors;
mod keyed_imports;
mod keyed_prefixes;
mod keyed_random;
mod keyed_transactions;
mod nesting;
mod parallel;
mod parameters;
mod providers;
mod random;
mod reference;
mod scans;
mod star;
mod star_random;
mod statements;
mod string_conditions;
mod support;
mod tpch;
mod transactions;
mod types_table;
mod wide_decimals;
