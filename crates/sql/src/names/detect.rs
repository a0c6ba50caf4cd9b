//! Statements that may have equal names, and errors that are due to them.

use std::ops::ControlFlow;

use datafusion::common::SchemaError;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, GroupByExpr, Ident, Query, Select, SelectItem, TableAlias, TableFactor, Visitor, With,
};

use crate::syntax::{Node, walk};

/// Returns the name of an output column as far as the syntax determines it.
pub(super) fn name_of(item: &SelectItem) -> Option<&Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias),
        SelectItem::UnnamedExpr(expr) => column_of(expr),
        _ => None,
    }
}

fn column_of(expr: &SqlExpr) -> Option<&Ident> {
    match expr {
        SqlExpr::Identifier(name) => Some(name),
        SqlExpr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    }
}

/// Returns true for an item that stands for several columns.
pub(super) fn is_wildcard(item: &SelectItem) -> bool {
    matches!(
        item,
        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) | SelectItem::ExprWithAliases { .. }
    )
}

/// Returns an identifier as it is compared: in lower case unless quoted.
pub(super) fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// Returns true if columns of a statement or of expressions may have the same name.
pub fn may_repeat<N: Node>(node: &N) -> bool {
    walk(node, &mut RepeatedNames).is_break()
}

/// Stops at a list that may have equal names. Pairs of names are compared in short lists; long ones may have
/// some.
struct RepeatedNames;

/// Names up to which each is compared with all others.
const MAX_PAIRWISE_NAMES: usize = 16;

impl RepeatedNames {
    fn has_repeated(idents: &[&Ident]) -> bool {
        idents.len() > MAX_PAIRWISE_NAMES
            || idents.iter().enumerate().any(|(at, ident)| {
                let equal = |other: &&&Ident| other.value.eq_ignore_ascii_case(&ident.value);
                idents.iter().take(at).any(|other| equal(&other))
            })
    }

    fn alias(alias: Option<&TableAlias>) -> bool {
        alias.is_some_and(|alias| {
            let names: Vec<&Ident> = alias.columns.iter().map(|column| &column.name).collect();
            Self::has_repeated(&names)
        })
    }

    fn with(with: Option<&With>) -> bool {
        with.is_some_and(|with| with.cte_tables.iter().any(|cte| Self::alias(Some(&cte.alias))))
    }

    fn select(select: &Select) -> bool {
        let items = &select.projection;
        if items.iter().any(is_wildcard) {
            let tables = select.from.len() + select.from.iter().map(|from| from.joins.len()).sum::<usize>();
            return items.len() > 1 || tables > 1;
        }
        let names: Vec<&Ident> = items.iter().filter_map(name_of).collect();
        let groups = match &select.group_by {
            GroupByExpr::Expressions(exprs, _) => exprs.len(),
            GroupByExpr::All(_) => 0,
        };
        // Expressions have names that only planning knows.
        let others = match items.as_slice() {
            [SelectItem::UnnamedExpr(SqlExpr::Function(_) | SqlExpr::Value(_))] => false,
            items => names.len() < items.len(),
        };
        others || groups > 1 || Self::has_repeated(&names)
    }
}

impl Visitor for RepeatedNames {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        flow(Self::with(query.with.as_ref()))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        flow(Self::select(select))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let (TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }) = factor
        else {
            return ControlFlow::Continue(());
        };
        flow(Self::alias(alias.as_ref()))
    }
}

fn flow(found: bool) -> ControlFlow<()> {
    if found {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// Returns true if two different groups of an aggregate have the same name, which is an error only when it is
/// optimised.
pub fn has_equal_groups(plan: &LogicalPlan) -> bool {
    let is_equal = |plan: &LogicalPlan| match plan {
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.len() > 1 => {
            let mut groups: Vec<(String, &Expr)> = Vec::new();
            aggregate.group_expr.iter().any(|group| {
                let name = group.schema_name().to_string();
                let differs = groups
                    .iter()
                    .any(|(other, expr)| *other == name && *expr != group);
                groups.push((name, group));
                differs
            })
        }
        _ => false,
    };
    plan.exists(|plan| Ok(is_equal(plan))).unwrap_or(false)
}

/// Returns true for an error that may be due to equal names.
pub fn is_about_names(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => matches!(
            **error,
            SchemaError::AmbiguousReference { .. }
                | SchemaError::DuplicateQualifiedField { .. }
                | SchemaError::DuplicateUnqualifiedField { .. }
                | SchemaError::FieldNotFound { .. }
        ),
        DataFusionError::Plan(text) => text.contains("unique expression names"),
        _ => false,
    }
}
