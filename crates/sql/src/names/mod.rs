//! Output columns that have the same name.
//!
//! DataFusion demands distinct names of the columns of every operator, and names `CAST(a AS text)` as `a` and
//! `(a + b) * c` as `a + b * c`. So `SELECT a, a` is an error there, also within a derived table, and so is
//! `sum(a), sum(CAST(a AS double))`.
//!
//! A statement that fails for its names is rewritten and planned again ([`rename`]); others are planned once.
//! Invariants:
//! - in the result of a query, names are what they would be alone: what makes them distinct is between two
//!   [`MARK`]s, and removed from the batches that a program gets;
//! - a derived table, a common table expression, a new table and a file have distinct names as in DuckDB: the
//!   second `a` is `a_1`.

mod case;
mod detect;
mod label;
mod operator;
mod order;
mod rename;

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, col};
use datafusion::prelude::Expr;

pub use case::{CaseRewriter, OtherCase};
pub use detect::{has_equal_groups, is_about_names, may_repeat};
pub use operator::LabelPlanner;
pub use order::depth_of_order;
pub use rename::{Depth, Renamer};

/// The character before and after what makes a name distinct.
const MARK: char = '\u{1}';

/// Returns a name without what makes it distinct.
fn shown(name: &str) -> Option<String> {
    // The parts outside of pairs of marks are every other one.
    name.contains(MARK).then(|| name.split(MARK).step_by(2).collect())
}

/// Returns a schema with the names that a program gets.
pub fn shown_schema(schema: SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| field.name().contains(MARK)) {
        return schema;
    }
    let fields = schema.fields().iter().map(|field| match shown(field.name()) {
        Some(name) => Arc::new(Field::clone(field).with_name(name)),
        None => Arc::clone(field),
    });
    let fields: Vec<_> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Returns true for a plan whose columns have names to which DataFusion has added a number, as in `a:1`.
pub fn are_numbered(plan: &LogicalPlan) -> bool {
    let is_numbered = |name: &str| {
        let number = name.rsplit_once(':').map(|(_, number)| number);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    plan.schema()
        .fields()
        .iter()
        .any(|field| is_numbered(field.name()))
}

/// Chooses distinct names one after the other, as DuckDB does: `a`, `a_1`, `a_2`.
#[derive(Default)]
struct DistinctNames {
    taken: HashSet<String>,
}

impl DistinctNames {
    /// Returns a name in place of one that is taken; `None` if it is free.
    fn instead_of(&mut self, name: &str) -> Option<String> {
        if self.taken.insert(name.to_owned()) {
            return None;
        }
        let mut number = 1;
        loop {
            let other = format!("{name}_{number}");
            if self.taken.insert(other.clone()) {
                return Some(other);
            }
            number += 1;
        }
    }
}

/// Returns distinct names for columns that are stored.
fn stored<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut distinct = DistinctNames::default();
    let name = |name: &'a String| {
        let name = shown(name).unwrap_or_else(|| name.clone());
        distinct.instead_of(&name).unwrap_or(name)
    };
    names.map(name).collect()
}

/// Returns a schema with the names that a new table has.
pub fn stored_schema(schema: SchemaRef) -> SchemaRef {
    let names = stored(schema.fields().iter().map(|field| field.name()));
    let fields = schema.fields().iter().zip(names);
    let fields: Vec<_> = fields
        .map(|(field, name)| {
            if *field.name() == name {
                Arc::clone(field)
            } else {
                Arc::new(Field::clone(field).with_name(name))
            }
        })
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Returns a plan whose columns have the names that they have in a file.
pub fn stored_plan(plan: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    let names = stored(plan.schema().fields().iter().map(|field| field.name()));
    let columns = plan.schema().columns();
    if columns
        .iter()
        .zip(&names)
        .all(|(column, name)| column.name == *name)
    {
        return Ok(plan);
    }
    let renamed = columns.into_iter().zip(names);
    let renamed: Vec<Expr> = renamed.map(|(column, name)| col(column).alias(name)).collect();
    let plan = LogicalPlanBuilder::new_from_arc(plan).project(renamed)?;
    plan.build().map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_without_marks() {
        assert_eq!(shown("a"), None);
        assert_eq!(shown("a\u{1}2\u{1}").as_deref(), Some("a"));
        assert_eq!(
            shown("sum(\u{1}int\u{1}a\u{1}int\u{1}) + 1").as_deref(),
            Some("sum(a) + 1")
        );
    }

    #[test]
    fn stored_names_are_those_of_duckdb() {
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            stored(names.iter())
        };
        assert_eq!(of(&["a", "a", "a_1"]), ["a", "a_1", "a_1_1"]);
        assert_eq!(of(&["a", "a_1", "a"]), ["a", "a_1", "a_2"]);
        assert_eq!(of(&["a", "a\u{1}1\u{1}", "b"]), ["a", "a_1", "b"]);
    }
}
