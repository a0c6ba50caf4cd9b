//! The rewriting of a syntax tree whose columns have equal names.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::common::{DFSchemaRef, TableReference};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, ReplaceSelectItem, Select, SelectItem, SetExpr, TableAlias, TableAliasColumnDef,
    TableFactor, VisitorMut, WildcardAdditionalOptions, With,
};

use super::detect::{folded, is_wildcard, name_of};
use super::operator::{is_labelled, labelled};
use super::{DistinctNames, MARK};
use crate::syntax::select_of;

/// How much is renamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Output columns of queries.
    Columns,
    /// Casts and parentheses within expressions, too, which names do not show.
    Expressions,
}

/// Makes the names of columns distinct.
pub struct Renamer<'a> {
    depth: Depth,
    /// Returns the columns of a query.
    columns_of: &'a dyn Fn(Query) -> Option<DFSchemaRef>,
    /// Queries around the one that is being visited, and this one.
    queries: Vec<Scope>,
    /// Parts of the set operation that the statement is: their names are shown.
    shown: HashSet<*const Query>,
    /// Labels that were given.
    labels: usize,
}

/// A query that is being visited.
struct Scope {
    /// Its common table expressions, with those that have been renamed.
    with: Option<With>,
    renamed: usize,
    /// Its columns are those of the statement.
    is_shown: bool,
}

impl<'a> Renamer<'a> {
    /// Creates a visitor of a statement or an expression; `columns_of` returns the columns of a query, if it
    /// can be planned alone.
    pub fn new(depth: Depth, columns_of: &'a dyn Fn(Query) -> Option<DFSchemaRef>) -> Self {
        Self {
            depth,
            columns_of,
            queries: Vec::new(),
            shown: HashSet::new(),
            labels: 0,
        }
    }

    /// Renames the columns of the parts of a query.
    fn body(&mut self, body: &mut SetExpr, scope: &Scope) {
        match body {
            SetExpr::Select(select) => self.select(select, scope),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left, scope);
                self.body(right, scope);
            }
            // Others were visited as queries, or have no names.
            _ => {}
        }
    }

    fn select(&mut self, select: &mut Select, scope: &Scope) {
        self.expand(select, scope);
        let mut distinct = DistinctNames::default();
        let mut texts = HashSet::new();
        for item in &mut select.projection {
            match name_of(item).map(folded) {
                Some(name) => {
                    let Some(other) = distinct.instead_of(&name) else {
                        continue;
                    };
                    let alias = if scope.is_shown { self.marked(&name) } else { other };
                    rename(item, Ident::with_quote('"', alias));
                }
                None => {
                    let SelectItem::UnnamedExpr(expr) = item else {
                        continue;
                    };
                    let hidden = self.depth == Depth::Columns && is_hidden(expr);
                    let text = unqualified(&expr.to_string().to_lowercase());
                    if (!texts.insert(text) || hidden) && !is_labelled(expr) {
                        self.labels += 1;
                        let label = self.labels.to_string();
                        *expr = labelled(std::mem::replace(expr, nothing()), &label);
                    }
                }
            }
        }
    }

    /// Returns a name that is shown as the given one.
    fn marked(&mut self, name: &str) -> String {
        self.labels += 1;
        format!("{name}{MARK}{}{MARK}", self.labels)
    }

    /// Replaces wildcards by the columns that they stand for, if some of these must be renamed.
    fn expand(&self, select: &mut Select, scope: &Scope) {
        let items = &select.projection;
        if !items.iter().any(is_wildcard) || (scope.is_shown && items.len() == 1) {
            return;
        }
        let mut expanded = Vec::with_capacity(items.len());
        for item in items {
            match item {
                SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
                    let Some(columns) = self.columns(item, select, scope) else {
                        return;
                    };
                    let columns = columns.iter();
                    expanded.extend(
                        columns.map(|(relation, name)| of_wildcard(relation.as_ref(), name, options)),
                    );
                }
                other => expanded.push(other.clone()),
            }
        }
        let mut names = HashSet::new();
        let mut distinct = expanded.iter().filter_map(name_of).map(folded);
        if items.len() > 1 || !distinct.all(|name| names.insert(name)) {
            select.projection = expanded;
        }
    }

    /// Returns the columns that a wildcard stands for; `None` if that depends on more than the query.
    fn columns(
        &self,
        item: &SelectItem,
        select: &Select,
        scope: &Scope,
    ) -> Option<Vec<(Option<TableReference>, String)>> {
        let alone = select_of(vec![item.clone()], select.from.clone());
        let mut with: Option<With> = None;
        for scope in self.queries.iter().chain([scope]) {
            let Some(inner) = &scope.with else {
                continue;
            };
            // Those after the one that is being visited cannot be seen by it.
            let mut inner = inner.clone();
            inner.cte_tables.truncate(scope.renamed);
            match &mut with {
                Some(outer) => {
                    outer.recursive |= inner.recursive;
                    // An inner name hides an outer one.
                    let hidden = |alias: &TableAlias| {
                        let name = folded(&alias.name);
                        inner.cte_tables.iter().any(|cte| folded(&cte.alias.name) == name)
                    };
                    outer.cte_tables.retain(|cte| !hidden(&cte.alias));
                    outer.cte_tables.append(&mut inner.cte_tables);
                }
                None => with = Some(inner),
            }
        }
        let with = with.filter(|with| !with.cte_tables.is_empty());
        let query = Query {
            with,
            body: Box::new(SetExpr::Select(Box::new(alone))),
            order_by: None,
            limit_clause: None,
            fetch: None,
            locks: Vec::new(),
            for_clause: None,
            settings: None,
            format_clause: None,
            pipe_operators: Vec::new(),
        };
        let schema = (self.columns_of)(query)?;
        let columns = schema.iter();
        let columns = columns.map(|(relation, field)| (relation.cloned(), field.name().clone()));
        Some(columns.collect())
    }
}

impl VisitorMut for Renamer<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let is_shown = self.queries.is_empty() || self.shown.contains(&std::ptr::from_ref(query));
        if is_shown {
            add_queries(&query.body, &mut self.shown);
        }
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            rename_columns(&mut cte.alias.columns);
        }
        self.queries.push(Scope {
            with: query.with.clone(),
            renamed: 0,
            is_shown,
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(scope) = self.queries.pop() else {
            return ControlFlow::Continue(());
        };
        self.body(&mut query.body, &scope);
        // Common table expressions come before all else of the query around them.
        if let Some(outer) = self.queries.last_mut()
            && let Some(with) = &mut outer.with
            && let Some(cte) = with.cte_tables.get_mut(outer.renamed)
        {
            *cte.query = query.clone();
            outer.renamed += 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. } = factor
            && let Some(alias) = alias
        {
            rename_columns(&mut alias.columns);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == Depth::Columns {
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Cast { data_type, kind, .. } => {
                let label = format!("{kind:?} {data_type}");
                *expr = labelled(std::mem::replace(expr, nothing()), &label);
            }
            Expr::BinaryOp { left, right, .. } => {
                for operand in [left, right] {
                    if matches!(**operand, Expr::Nested(_)) {
                        **operand = labelled(std::mem::replace(&mut **operand, nothing()), "()");
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Adds the queries in parentheses of which a set operation consists.
fn add_queries(body: &SetExpr, shown: &mut HashSet<*const Query>) {
    match body {
        SetExpr::Query(query) => {
            shown.insert(std::ptr::from_ref(&**query));
        }
        SetExpr::SetOperation { left, right, .. } => {
            add_queries(left, shown);
            add_queries(right, shown);
        }
        _ => {}
    }
}

/// Returns the text of an expression without the qualifiers of its columns, so that `t.a + 1` is `a + 1`.
pub(super) fn unqualified(text: &str) -> String {
    let is_part = |char: char| char.is_alphanumeric() || matches!(char, '_' | '"');
    let mut short = String::with_capacity(text.len());
    for (at, char) in text.char_indices() {
        let next = text.get(at + 1..).and_then(|rest| rest.chars().next());
        let is_name = |char: char| char.is_alphabetic() || matches!(char, '_' | '"');
        if char == '.' && next.is_some_and(is_name) {
            let kept = short.trim_end_matches(is_part).len();
            short.truncate(kept);
        } else {
            short.push(char);
        }
    }
    short
}

pub(super) fn nothing() -> Expr {
    Expr::Identifier(Ident::new(String::new()))
}

/// Returns true for an expression that has the name of its operand.
fn is_hidden(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast { .. } | Expr::Nested(_))
}

/// Gives an item of a list an alias.
fn rename(item: &mut SelectItem, alias: Ident) {
    if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
        *item = SelectItem::ExprWithAlias {
            expr: std::mem::replace(expr, nothing()),
            alias,
        };
    }
}

fn rename_columns(columns: &mut [TableAliasColumnDef]) {
    let mut distinct = DistinctNames::default();
    for column in columns {
        if let Some(name) = distinct.instead_of(&folded(&column.name)) {
            column.name = Ident::with_quote('"', name);
        }
    }
}

/// Returns the item for a column that a wildcard stands for.
fn of_wildcard(
    relation: Option<&TableReference>,
    name: &str,
    options: &WildcardAdditionalOptions,
) -> SelectItem {
    if let Some(ReplaceSelectItem { items }) = &options.opt_replace
        && let Some(item) = items.iter().find(|item| folded(&item.column_name) == name)
    {
        return SelectItem::ExprWithAlias {
            expr: item.expr.clone(),
            alias: Ident::with_quote('"', name),
        };
    }
    let mut parts = relation.map_or_else(Vec::new, TableReference::to_vec);
    parts.push(name.to_owned());
    let parts: Vec<Ident> = parts
        .into_iter()
        .map(|part| Ident::with_quote('"', part))
        .collect();
    SelectItem::UnnamedExpr(match parts.as_slice() {
        [name] => Expr::Identifier(name.clone()),
        _ => Expr::CompoundIdentifier(parts),
    })
}
