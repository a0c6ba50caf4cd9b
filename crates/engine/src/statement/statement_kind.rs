//! Kinds of statements: the entries of the list, which recognise and parse a statement, and the trait that
//! runs it.

use std::any::Any;
use std::fmt;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast;
use futures::future::BoxFuture;
use halocline_sql::EngineError;

use super::run::StatementRun;
use crate::QueryResult;

/// A parsed statement of any kind.
pub(crate) type BoxedStatement = Box<dyn RunStatement>;

/// The outcome of parsing by one kind: `None` for a statement of another kind.
pub(super) type ParsedStatement = Result<Option<BoxedStatement>, EngineError>;

/// The run of a statement.
pub(super) type StatementFuture<'a> = BoxFuture<'a, Result<QueryResult, EngineError>>;

/// A parsed statement, which can be run once.
pub(crate) trait RunStatement: Any + fmt::Debug + Send {
    /// Runs the statement. If it fails, nothing has changed.
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_>;

    /// Returns the query in the statement; `None` if it has none.
    fn into_query(self: Box<Self>) -> Option<StatementQuery> {
        None
    }
}

/// The query in a statement, for advice on indexes.
pub(crate) enum StatementQuery {
    /// The statement itself, which is a query, explains one or shows something.
    Planned(Parsed),
    /// The query whose rows the statement stores.
    Stored(Parsed),
}

impl StatementQuery {
    /// Returns the query whose rows a statement stores.
    pub(super) fn stored(query: Box<ast::Query>) -> Self {
        Self::Stored(Parsed::Statement(Box::new(ast::Statement::Query(query))))
    }
}

/// A kind of statement.
pub(crate) struct StatementKind {
    /// The heading under which the reference describes it.
    pub(crate) name: &'static str,
    /// A statement of this kind.
    pub(crate) example: &'static str,
    /// The forms in which it is recognised.
    pub(super) syntax: &'static [StatementSyntax],
}

/// A form in which a kind of statement is recognised. No two kinds recognise the same statement.
pub(crate) enum StatementSyntax {
    /// A text that the SQL parser does not support, and its first word in lower case.
    Text {
        word: &'static str,
        parse: fn(&str) -> ParsedStatement,
    },
    /// A text that the SQL parser does not support and that is refused: the error says what to write instead.
    Refused(fn(&str) -> Result<(), EngineError>),
    /// A syntax tree that is parsed before values take the place of its parameters.
    Unbound(fn(&ast::Statement) -> ParsedStatement),
    /// A syntax tree of the SQL parser.
    Tree(fn(&ast::Statement) -> ParsedStatement),
    /// A syntax tree that the statement takes as a whole.
    Whole {
        is: fn(&Parsed) -> bool,
        parse: fn(Parsed) -> Result<BoxedStatement, EngineError>,
    },
}

/// Returns a parsed statement in a box.
pub(super) fn boxed(statement: impl RunStatement) -> ParsedStatement {
    Ok(Some(Box::new(statement)))
}

/// Returns the statement of the SQL parser in a syntax tree; `None` for one that DataFusion's parser adds.
pub(super) fn sql_statement(tree: &Parsed) -> Option<&ast::Statement> {
    match tree {
        Parsed::Statement(statement) => Some(statement),
        _ => None,
    }
}
