//! The syntax of statements: the dialect in which they are read, and traversal of the syntax tree, whichever
//! of DataFusion's kinds a statement is.

mod dialect;
mod walk;

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, GroupByExpr,
    Ident, ObjectName, Query, Select, SelectFlavor, SelectItem, SetExpr, Statement as SqlStatement,
    TableFactor, TableWithJoins, Visitor, VisitorMut, WildcardAdditionalOptions,
};

pub use dialect::SqlDialect;
pub use walk::{Node, NodeMut, walk, walk_mut};

/// Visits what [`visit_mut`] visits, without changing it.
pub fn visit<V: Visitor>(statement: &Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Statement::Statement(statement) => walk(&**statement, visitor),
        Statement::Explain(explain) => visit(&explain.statement, visitor),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => walk(&**query, visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

/// The names of the relations in a part of the syntax tree; those of common table expressions are among them.
#[derive(Default)]
pub struct RelationNames(pub Vec<ObjectName>);

impl Visitor for RelationNames {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        self.0.push(name.clone());
        ControlFlow::Continue(())
    }
}

/// Visits the statement, the explained one, or the query that is copied; other statements have nothing to
/// visit.
pub fn visit_mut<V: VisitorMut>(statement: &mut Statement, visitor: &mut V) -> ControlFlow<V::Break> {
    match statement {
        Statement::Statement(statement) => walk_mut(&mut **statement, visitor),
        Statement::Explain(explain) => visit_mut(&mut explain.statement, visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => walk_mut(&mut **query, visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

/// Returns a query without other clauses.
pub fn query_of(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// Returns `SELECT * FROM factor`.
pub fn all_from(factor: TableFactor) -> Select {
    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let from = TableWithJoins {
        relation: factor,
        joins: Vec::new(),
    };
    select_of(vec![all], vec![from])
}

/// Returns `SELECT projection FROM from`.
pub fn select_of(projection: Vec<SelectItem>, from: Vec<TableWithJoins>) -> Select {
    Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views: Vec::new(),
        prewhere: None,
        selection: None,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    }
}

/// Returns a call of a function.
pub fn call_of(name: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
    let args = args
        .into_iter()
        .map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Returns a name as it is looked up: in lower case unless it is quoted.
pub fn normal(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// Returns the query of a statement: itself, the explained one, or the one that is copied.
pub fn query(statement: &Statement) -> Option<&Query> {
    match statement {
        Statement::Statement(statement) => match &**statement {
            SqlStatement::Query(query) => Some(query),
            _ => None,
        },
        Statement::Explain(explain) => query(&explain.statement),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => Some(query),
            CopyToSource::Relation(_) => None,
        },
        Statement::CreateExternalTable(_) | Statement::Reset(_) => None,
    }
}
