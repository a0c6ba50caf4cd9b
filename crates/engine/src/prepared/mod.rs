//! Statements that are planned once and run many times: prepared ones, and texts that differ in literals
//! only.
//!
//! Both are [`QueryTemplate`]s: optimised logical plans of one table of the pool, with parameters in their
//! conditions and without any rows. To run one, the table is looked up in the version of the database that
//! the statement sees, the parameters are replaced by values, conditions are pushed into the scan, and the
//! scan chooses its access path. All that a plan depends on is thus either in the key of the template (the
//! text, the types of the values, the settings) or looked up each time (the table and its columns).
//!
//! The plan of a text of several tables, which depends on more, is kept for texts that are equal up to their
//! literals and for one version of the database ([`RepeatedPlans`]).
//!
//! Invariants:
//! - a template refers to no version of the database, so that it neither pins space nor can be out of date;
//! - where a statement has no template, or one cannot be used for some values, it is planned like any other,
//!   with the values in place of the parameters: that defines what a prepared statement means.

mod arguments;
mod bind;
mod body;
mod cache;
mod depth;
mod detached;
mod handle;
mod names;
mod normal_form;
mod operands;
mod parameters;
mod repeated;
mod template;
mod values;

pub(crate) use arguments::{evaluated, literals};
pub(crate) use body::PreparedBody;
pub(crate) use cache::{PlanCache, PlanLookup};
pub(crate) use depth::is_shallow;
pub(crate) use detached::DetachedTable;
pub use handle::PreparedStatement;
pub(crate) use names::PreparedNames;
pub(crate) use normal_form::NormalForm;
pub(crate) use repeated::{QueryPlans, RepeatedPlans, RepeatedQuery, is_repeatable};
pub(crate) use template::QueryTemplate;
