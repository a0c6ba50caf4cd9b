//! Rewriting of queries.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Cte, ExcludeSelectItem, Expr, Ident, Join, ObjectName, OrderBy, OrderByKind, Query, Select, SelectItem,
    SetExpr, SetOperator, TableAlias, TableFactor, TableWithJoins, Values, VisitorMut,
    WildcardAdditionalOptions, With,
};

use super::columns::TableColumns;
use super::scope::{Found, Relation, Scope};
use crate::EngineError;
use crate::syntax::{NodeMut, all_from, normal, query_of, visit_mut, walk_mut};

pub(super) type Outcome<T = ()> = Result<T, EngineError>;

/// Rewrites the joins of a statement that merge columns, and the names of these columns.
pub struct MergedColumns<'a> {
    tables: &'a dyn TableColumns,
    /// The common table expressions that are visible.
    with: With,
    /// The FROM clauses of the queries around, the innermost last.
    pub(super) scopes: Vec<Scope>,
    /// Number of aliases that have been given.
    aliases: usize,
}

impl<'a> MergedColumns<'a> {
    /// Creates a rewriter that looks up columns in `tables`.
    pub fn new(tables: &'a dyn TableColumns) -> Self {
        Self {
            tables,
            with: With {
                with_token: AttachedToken::empty(),
                recursive: false,
                cte_tables: Vec::new(),
            },
            scopes: Vec::new(),
            aliases: 0,
        }
    }

    /// Rewrites a statement.
    ///
    /// # Errors
    /// A column to merge is not there or not unique, or the columns of a relation cannot be found out.
    pub fn statement(&mut self, statement: &mut Parsed) -> Outcome {
        let mut names = Names {
            columns: self,
            queries: Vec::new(),
        };
        match visit_mut(statement, &mut names) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    /// Rewrites the names in a node that is no query, and the queries within it.
    ///
    /// # Errors
    /// Those of [`statement`](Self::statement).
    pub fn names<N: NodeMut>(&mut self, node: &mut N) -> Outcome {
        let mut names = Names {
            columns: self,
            queries: Vec::new(),
        };
        match walk_mut(node, &mut names) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    fn query(&mut self, query: &mut Query) -> Outcome {
        let (visible, recursive) = (self.with.cte_tables.len(), self.with.recursive);
        if let Some(with) = &mut query.with {
            self.with.recursive |= with.recursive;
            for cte in &mut with.cte_tables {
                self.cte(cte, with.recursive)?;
            }
        }
        match &mut *query.body {
            SetExpr::Select(select) => self.select(select, query.order_by.as_mut())?,
            other => self.set_expression(other)?,
        }
        self.with.cte_tables.truncate(visible);
        self.with.recursive = recursive;
        Ok(())
    }

    fn cte(&mut self, cte: &mut Cte, recursive: bool) -> Outcome {
        match &mut *cte.query.body {
            SetExpr::SetOperation {
                op: SetOperator::Union,
                left,
                right,
                ..
            } if recursive => {
                self.set_expression(left)?;
                // To the other side, the query has the columns of this one.
                let itself = Box::new(query_of((**left).clone()));
                self.with.cte_tables.push(Cte {
                    alias: cte.alias.clone(),
                    query: itself,
                    from: None,
                    materialized: None,
                    closing_paren_token: AttachedToken::empty(),
                });
                self.set_expression(right)?;
                self.with.cte_tables.pop();
            }
            _ => self.query(&mut cte.query)?,
        }
        self.with.cte_tables.push(cte.clone());
        Ok(())
    }

    fn set_expression(&mut self, body: &mut SetExpr) -> Outcome {
        match body {
            SetExpr::Select(select) => self.select(select, None),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, right, .. } => {
                self.set_expression(left)?;
                self.set_expression(right)
            }
            SetExpr::Values(values) => self.names(values),
            _ => Ok(()),
        }
    }

    fn select(&mut self, select: &mut Select, order_by: Option<&mut OrderBy>) -> Outcome {
        let rewritten = select.from.iter().any(super::merges);
        let needs_columns = rewritten || self.scopes.iter().any(|scope| !scope.merged.is_empty());
        let mut scope = Scope::default();
        for table in &mut select.from {
            let merges = super::merges(table);
            scope.append(self.table(table, needs_columns, merges)?);
        }
        let named = output_names(select, &scope);
        self.scopes.push(scope);
        let mut projection = Vec::with_capacity(select.projection.len());
        for item in std::mem::take(&mut select.projection) {
            self.item(item, rewritten, &mut projection)?;
        }
        select.projection = projection;
        self.names(&mut select.selection)?;
        self.names(&mut select.group_by)?;
        self.names(&mut select.having)?;
        self.names(&mut select.qualify)?;
        self.names(&mut select.distinct)?;
        self.names(&mut select.named_window)?;
        if let Some(OrderBy {
            kind: OrderByKind::Expressions(keys),
            ..
        }) = order_by
        {
            for key in keys {
                match &key.expr {
                    Expr::Identifier(ident) if named.contains(&normal(ident)) => {}
                    _ => self.names(&mut key.expr)?,
                }
            }
        }
        self.scopes.pop();
        Ok(())
    }

    /// Rewrites an item of a SELECT list. Its output keeps its name.
    fn item(&mut self, mut item: SelectItem, rewritten: bool, items: &mut Vec<SelectItem>) -> Outcome {
        match item {
            SelectItem::Wildcard(options) if rewritten => return self.all_columns(options, items),
            SelectItem::UnnamedExpr(mut expr) => {
                let before = expr.clone();
                self.names(&mut expr)?;
                let alias = match (&before, &expr) {
                    (before, after) if before == after => None,
                    (_, Expr::CompoundIdentifier(_)) => None,
                    (Expr::Identifier(ident), _) => Some(normal(ident)),
                    (other, _) => Some(other.to_string()),
                };
                item = match alias {
                    Some(name) => SelectItem::ExprWithAlias {
                        expr,
                        alias: Ident::with_quote('"', name),
                    },
                    None => SelectItem::UnnamedExpr(expr),
                };
            }
            ref mut other => self.names(other)?,
        }
        items.push(item);
        Ok(())
    }

    /// Writes out `*`: a merged column is where the first of its columns is.
    fn all_columns(&mut self, options: WildcardAdditionalOptions, items: &mut Vec<SelectItem>) -> Outcome {
        let WildcardAdditionalOptions {
            wildcard_token: _,
            opt_ilike,
            opt_exclude,
            opt_except,
            opt_replace,
            opt_rename,
            opt_alias,
        } = options;
        if opt_ilike.is_some() || opt_rename.is_some() || opt_alias.is_some() {
            return refuse("ILIKE, RENAME or AS after * of a join with USING or NATURAL");
        }
        let mut excluded: Vec<String> = Vec::new();
        match &opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => excluded.extend(last_name(name)),
            Some(ExcludeSelectItem::Multiple(names)) => excluded.extend(names.iter().filter_map(last_name)),
            None => {}
        }
        if let Some(except) = &opt_except {
            excluded.push(normal(&except.first_element));
            excluded.extend(except.additional_elements.iter().map(normal));
        }
        let mut replaced = opt_replace.map_or_else(Vec::new, |replace| replace.items);
        for element in &mut replaced {
            self.names(&mut element.expr)?;
        }
        let scope = self.scopes.last().cloned().unwrap_or_default();
        for (number, relation) in scope.relations.iter().enumerate() {
            let Some(columns) = &relation.columns else {
                return not_known(&relation.qualifier);
            };
            for column in columns {
                let place = (number, column.clone());
                let merged = scope.merged.iter().find(|merged| merged.members.contains(&place));
                let is_first = merged.is_none_or(|merged| merged.members.first() == Some(&place));
                if !is_first || excluded.contains(column) {
                    continue;
                }
                let alias = Ident::with_quote('"', column);
                let element = replaced
                    .iter()
                    .find(|element| normal(&element.column_name) == *column);
                let values = merged.map_or_else(|| std::slice::from_ref(&place), |merged| &merged.values[..]);
                items.push(match (element, scope.value(values)) {
                    (Some(element), _) => SelectItem::ExprWithAlias {
                        expr: element.expr.clone(),
                        alias,
                    },
                    (None, expr @ Expr::CompoundIdentifier(_)) => SelectItem::UnnamedExpr(expr),
                    (None, expr) => SelectItem::ExprWithAlias { expr, alias },
                });
            }
        }
        Ok(())
    }

    fn table(&mut self, table: &mut TableWithJoins, needs_columns: bool, merges: bool) -> Outcome<Scope> {
        let mut left = self.factor(&mut table.relation, needs_columns, merges)?;
        for Join {
            relation,
            join_operator,
            ..
        } in &mut table.joins
        {
            let right = if is_lateral(relation) {
                self.scopes.push(left);
                let right = self.factor(relation, needs_columns, merges)?;
                left = self.scopes.pop().unwrap_or_default();
                right
            } else {
                self.factor(relation, needs_columns, merges)?
            };
            left = self.join(left, right, join_operator, merges)?;
        }
        Ok(left)
    }

    fn factor(&mut self, factor: &mut TableFactor, needs_columns: bool, merges: bool) -> Outcome<Scope> {
        if let TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        } = factor
        {
            let merges = merges || super::merges(table_with_joins);
            return self.table(table_with_joins, needs_columns, merges);
        }
        if let TableFactor::NestedJoin {
            table_with_joins,
            alias,
        } = factor
            && super::merges(table_with_joins)
        {
            let joined = TableFactor::NestedJoin {
                table_with_joins: table_with_joins.clone(),
                alias: None,
            };
            *factor = TableFactor::Derived {
                lateral: false,
                subquery: Box::new(query_of(SetExpr::Select(Box::new(all_from(joined))))),
                alias: alias.clone(),
                sample: None,
            };
        }
        if let TableFactor::Derived { subquery, .. } = factor {
            self.query(subquery)?;
        }
        let qualifier = match qualifier(factor) {
            Some(qualifier) => qualifier,
            None if merges => self.name(factor),
            None => Vec::new(),
        };
        let columns = if needs_columns {
            self.tables.columns(factor, &self.with)
        } else {
            None
        };
        Ok(Scope {
            relations: vec![Relation { qualifier, columns }],
            merged: Vec::new(),
        })
    }

    /// Gives a relation an alias, so that its columns can be qualified.
    fn name(&mut self, factor: &mut TableFactor) -> Vec<Ident> {
        let (TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }) = factor
        else {
            return Vec::new();
        };
        self.aliases += 1;
        let name = Ident::with_quote('"', format!("relation {}", self.aliases));
        *alias = Some(TableAlias {
            explicit: true,
            name: name.clone(),
            columns: Vec::new(),
            at: None,
        });
        vec![name]
    }

    /// Returns the value of a merged column that a name stands for.
    fn value(&self, ident: &Ident) -> Outcome<Option<Expr>> {
        let name = normal(ident);
        for scope in self.scopes.iter().rev() {
            match scope.find(&name) {
                Found::Merged(merged) => return Ok(Some(scope.value(&merged.values))),
                Found::Ambiguous if scope.merged.iter().any(|merged| merged.name == name) => {
                    return Err(EngineError::Query(format!(
                        "the column {name} is ambiguous: qualify it by its table"
                    )));
                }
                Found::Column(_) | Found::Ambiguous | Found::NotKnown => return Ok(None),
                Found::Nothing => {}
            }
        }
        Ok(None)
    }
}

/// Replaces names outside of queries, and rewrites the queries.
struct Names<'v, 'a> {
    columns: &'v mut MergedColumns<'a>,
    /// Queries that have been rewritten, while the visitor sees empty ones in their places.
    queries: Vec<Query>,
}

impl VisitorMut for Names<'_, '_> {
    type Break = EngineError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<EngineError> {
        let nothing = query_of(SetExpr::Values(Values {
            explicit_row: false,
            value_keyword: false,
            rows: Vec::new(),
        }));
        let mut taken = std::mem::replace(query, nothing);
        if let Err(error) = self.columns.query(&mut taken) {
            return ControlFlow::Break(error);
        }
        self.queries.push(taken);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<EngineError> {
        if let Some(rewritten) = self.queries.pop() {
            *query = rewritten;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<EngineError> {
        if let Expr::Identifier(ident) = expr {
            match self.columns.value(ident) {
                Ok(Some(value)) => *expr = value,
                Ok(None) => {}
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns the names of the columns of a result.
fn output_names(select: &Select, scope: &Scope) -> Vec<String> {
    let mut names = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(ident)) => names.push(normal(ident)),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                names.extend(parts.last().map(normal))
            }
            SelectItem::ExprWithAlias { alias, .. } => names.push(normal(alias)),
            SelectItem::Wildcard(_) => names.extend(scope.names().unwrap_or_default()),
            _ => {}
        }
    }
    names
}

/// Returns the name that qualifies the columns of a relation.
fn qualifier(factor: &TableFactor) -> Option<Vec<Ident>> {
    match factor {
        TableFactor::Table {
            alias: Some(alias), ..
        }
        | TableFactor::Derived {
            alias: Some(alias), ..
        }
        | TableFactor::TableFunction {
            alias: Some(alias), ..
        }
        | TableFactor::Function {
            alias: Some(alias), ..
        }
        | TableFactor::UNNEST {
            alias: Some(alias), ..
        }
        | TableFactor::NestedJoin {
            alias: Some(alias), ..
        } => Some(vec![alias.name.clone()]),
        TableFactor::Table { name, args: None, .. } => {
            let parts = name.0.iter().map(|part| part.as_ident().cloned());
            parts.collect()
        }
        _ => None,
    }
}

fn is_lateral(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::Derived { lateral, .. } | TableFactor::Function { lateral, .. } => *lateral,
        TableFactor::UNNEST { .. } => true,
        _ => false,
    }
}

pub(super) fn last_name(name: &ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(normal)
}

pub(super) fn not_known<T>(qualifier: &[Ident]) -> Outcome<T> {
    let names: Vec<String> = qualifier.iter().map(|ident| ident.value.clone()).collect();
    refuse(&format!(
        "a join with USING or NATURAL of {}, whose columns are not known before it runs",
        names.join(".")
    ))
}

fn refuse<T>(what: &str) -> Outcome<T> {
    Err(EngineError::Unsupported {
        what: what.to_owned(),
        instead: "write ON, and qualify the columns".to_owned(),
    })
}
