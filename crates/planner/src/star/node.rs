//! A star query in the logical plan.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::DFSchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

use super::shape::StarShape;

/// A star query: its inputs are the dimensions.
#[derive(Debug, Clone)]
pub(super) struct StarNode {
    pub(super) shape: Arc<StarShape>,
    pub(super) dimensions: Vec<LogicalPlan>,
    pub(super) schema: DFSchemaRef,
    /// The plan that the star join replaces.
    pub(super) replaced: Arc<LogicalPlan>,
}

impl PartialEq for StarNode {
    fn eq(&self, other: &Self) -> bool {
        self.replaced == other.replaced && self.dimensions == other.dimensions
    }
}

impl Eq for StarNode {}

impl Hash for StarNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.replaced.hash(state);
    }
}

impl PartialOrd for StarNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.replaced.partial_cmp(&other.replaced)
    }
}

impl UserDefinedLogicalNodeCore for StarNode {
    fn name(&self) -> &'static str {
        self.shape.name()
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.dimensions.iter().collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.shape.name(), self.shape)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        Ok(Self {
            dimensions: inputs,
            ..self.clone()
        })
    }

    /// Returns all columns of each dimension: keys and grouping attributes.
    fn necessary_children_exprs(&self, _: &[usize]) -> Option<Vec<Vec<usize>>> {
        let all = |plan: &LogicalPlan| (0..plan.schema().fields().len()).collect();
        Some(self.dimensions.iter().map(all).collect())
    }
}

impl fmt::Display for StarShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.fact.table.name();
        if self.is_single() {
            write!(f, "table={table}")?;
        } else {
            let on: Vec<&str> = self.branches.iter().map(|branch| branch.on.as_str()).collect();
            write!(f, "fact={table}, on=[{}]", on.join(", "))?;
        }
        self.fmt_groups(f)?;
        self.fmt_filter(f)
    }
}

impl StarShape {
    /// Returns the name of the operation.
    pub(super) fn name(&self) -> &'static str {
        if self.is_single() {
            "FusedAggregate"
        } else {
            "StarJoin"
        }
    }

    /// Writes the reason for a scan, and the expressions over the fact table that rows are grouped by.
    pub(super) fn fmt_groups(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(reason) = &self.no_index {
            write!(f, ", no_index=[{reason}]")?;
        }
        let names = self.fact_groups.iter().map(|group| group.name(&self.fact));
        match names.collect::<Vec<_>>().as_slice() {
            [] => Ok(()),
            names => write!(f, ", groups=[{}]", names.join(", ")),
        }
    }

    /// Writes the conditions on the fact table.
    pub(super) fn fmt_filter(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filter: Vec<String> = self.filters.iter().map(ToString::to_string).collect();
        match filter.as_slice() {
            [] => {}
            filter => write!(f, ", filter=[{}]", filter.join(", "))?,
        }
        match self.reads.text.as_str() {
            "" => Ok(()),
            reads => write!(f, ", reads=[{reads}]"),
        }
    }
}
