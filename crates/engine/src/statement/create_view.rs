//! `CREATE VIEW`.
//!
//! The text of the query is stored as it was written. It is therefore read from the text of the statement,
//! not from its syntax tree.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{self, Expr, Value, Visitor};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use halocline_catalog::transaction::Transaction;
use halocline_catalog::view_object;
use halocline_pool::ObjectKind;
use halocline_sql::EngineError;
use halocline_sql::parse::{identifier, object_name};
use halocline_sql::syntax::{SqlDialect, visit};

use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use super::table_kind::KINDS;
use crate::QueryResult;
use crate::session::reads_view;
use crate::views::ViewDefinition;

/// `CREATE VIEW` in the list of statements.
pub(super) const CREATE_VIEW: StatementKind = StatementKind {
    name: "CREATE VIEW",
    example: "CREATE VIEW v AS SELECT 1 AS a",
    syntax: &[StatementSyntax::Text {
        word: "create",
        parse,
    }],
};

/// A `CREATE VIEW` as parsed.
#[derive(Debug, Clone)]
pub(super) struct CreateViewStatement {
    name: String,
    definition: ViewDefinition,
    or_replace: bool,
    if_not_exists: bool,
    /// The view belongs to the session.
    temporary: bool,
}

impl RunStatement for CreateViewStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        Box::pin(async move {
            let message = if self.temporary {
                self.create_temporary(&run).await?
            } else {
                self.create(&run).await?
            };
            Ok(QueryResult::done(message))
        })
    }
}

impl CreateViewStatement {
    /// Stores the view in the pool.
    async fn create(self, run: &StatementRun<'_>) -> Result<String, EngineError> {
        let catalog = run.session.peek(run.engine)?;
        for kind in KINDS {
            if kind.has(&catalog, run.engine, &self.name)? {
                return Err(self.is_table());
            }
        }
        if run.session.externals().has(&self.name) {
            return Err(self.is_table());
        }
        if !self.is_needed(catalog.has_view(&self.name))? {
            return Ok(self.is_there());
        }
        self.check(run).await?;
        run.change("CREATE VIEW", move |transaction| self.store(transaction))
            .await
    }

    /// Adds the view to the session.
    async fn create_temporary(self, run: &StatementRun<'_>) -> Result<String, EngineError> {
        if run.session.externals().has(&self.name) || run.session.temporaries().table(&self.name).is_some() {
            return Err(self.is_table());
        }
        let exists = run.session.temporaries().now().views.contains_key(&self.name);
        if !self.is_needed(exists)? {
            return Ok(self.is_there());
        }
        self.check(run).await?;
        let message = format!("view {} for this session", self.name);
        run.session.set_temporary_view(&self.name, Some(self.definition));
        Ok(message)
    }

    /// Plans the query, as a statement that reads the view does.
    async fn check(&self, run: &StatementRun<'_>) -> Result<(), EngineError> {
        let query = self.definition.parse()?;
        let (catalog, view) = run.session.versions(run.engine, Some(&query))?;
        let planner = run.session.planner_with(&catalog, view);
        let reads_itself = self.temporary && planner.reads_temporary(&self.definition, &self.name)?;
        if reads_itself {
            return Err(self.reads_itself());
        }
        planner.check_view(&self.definition, self.temporary).await
    }

    /// Stores the view, and returns a message.
    ///
    /// # Errors
    /// The name is taken; the view would read itself; the pool cannot be written.
    fn store(self, transaction: &mut Transaction) -> Result<String, EngineError> {
        let catalog = transaction.catalog();
        if catalog.has_table(&self.name) {
            return Err(self.is_table());
        }
        if !self.is_needed(catalog.has_view(&self.name))? {
            return Ok(self.is_there());
        }
        if reads_view(&catalog, &self.definition, &self.name)? {
            return Err(self.reads_itself());
        }
        let record = self.definition.encode()?;
        let object = view_object(&self.name);
        transaction
            .txn()
            .put(&object, ObjectKind::DEFINITION, &record, Vec::new())?;
        transaction.changed([]);
        Ok(format!("view {}", self.name))
    }

    /// Returns true if the view must be stored, and false if the existing one suffices.
    fn is_needed(&self, exists: bool) -> Result<bool, EngineError> {
        match (exists, self.or_replace, self.if_not_exists) {
            (false, ..) | (true, true, _) => Ok(true),
            (true, false, true) => Ok(false),
            (true, false, false) => Err(EngineError::Exists {
                kind: "view",
                name: self.name.clone(),
                instead: "drop it first, choose another name, or use CREATE OR REPLACE VIEW",
            }),
        }
    }

    fn is_there(&self) -> String {
        format!("view {} is there already", self.name)
    }

    fn is_table(&self) -> EngineError {
        EngineError::Exists {
            kind: "table",
            name: self.name.clone(),
            instead: "choose another name for the view",
        }
    }

    fn reads_itself(&self) -> EngineError {
        let instead = if self.temporary {
            format!("write main.{} for what has this name in the pool", self.name)
        } else {
            "write WITH RECURSIVE in its query for a recursive one".to_owned()
        };
        EngineError::Query(format!("view {} would read itself; {instead}", self.name))
    }
}

/// Reads `CREATE [OR REPLACE] [TEMP] VIEW [IF NOT EXISTS] name [(columns)] AS query`; `None` for any other
/// text.
///
/// # Errors
/// The query is none, or has parameters; a column is named twice.
fn parse(text: &str) -> ParsedStatement {
    // A text that cannot be tokenized is no such statement; the parser reports its error.
    let Ok(tokens) = Tokenizer::new(&SqlDialect, text).tokenize_with_location() else {
        return Ok(None);
    };
    let Some((header, at)) = header(tokens.clone()) else {
        return Ok(None);
    };
    let mut body = tokens.iter().filter(|token| token.span.start >= at);
    let is_part =
        |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::SemiColon | Token::EOF);
    let Some(last) = body.rfind(is_part) else {
        return Ok(None);
    };
    let definition = ViewDefinition {
        columns: header.columns,
        query: text[offset(text, at)..offset(text, last.span.end)].to_owned(),
    };
    let query = definition.parse()?;
    let is_query = |statement: &ast::Statement| matches!(statement, ast::Statement::Query(_));
    if !matches!(&query, Parsed::Statement(statement) if is_query(statement)) {
        let what = "write a SELECT after AS in CREATE VIEW";
        return Err(EngineError::Query(what.into()));
    }
    if let ControlFlow::Break(name) = visit(&query, &mut FirstParameter) {
        let reason = "a view has no parameters: write a value in its place".into();
        return Err(EngineError::Parameter { name, reason });
    }
    let distinct: BTreeSet<&String> = definition.columns.iter().collect();
    if distinct.len() < definition.columns.len() {
        let text = format!("view {}: a column is named twice", header.name);
        return Err(EngineError::Query(text));
    }
    boxed(CreateViewStatement {
        name: header.name,
        definition,
        or_replace: header.or_replace,
        if_not_exists: header.if_not_exists,
        temporary: header.temporary,
    })
}

/// The part of the statement before the query.
struct ViewHeader {
    name: String,
    columns: Vec<String>,
    or_replace: bool,
    if_not_exists: bool,
    temporary: bool,
}

/// Reads the part of the statement before the query, and returns where the query begins; `None` for another
/// statement, and for what is not supported.
fn header(tokens: Vec<TokenWithSpan>) -> Option<(ViewHeader, Location)> {
    let mut parser = Parser::new(&SqlDialect).with_tokens_with_locations(tokens);
    if !parser.parse_keyword(Keyword::CREATE) {
        return None;
    }
    let or_replace = parser.parse_keywords(&[Keyword::OR, Keyword::REPLACE]);
    let temporary = parser
        .parse_one_of_keywords(&[Keyword::TEMP, Keyword::TEMPORARY])
        .is_some();
    if !parser.parse_keyword(Keyword::VIEW) {
        return None;
    }
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = object_name(&parser.parse_object_name(false).ok()?).ok()?;
    let mut columns = Vec::new();
    if parser.consume_token(&Token::LParen) {
        let names = parser.parse_comma_separated(Parser::parse_identifier).ok()?;
        columns.extend(names.iter().map(identifier));
        parser.expect_token(&Token::RParen).ok()?;
    }
    if !parser.parse_keyword(Keyword::AS) || or_replace && if_not_exists {
        return None;
    }
    let header = ViewHeader {
        name,
        columns,
        or_replace,
        if_not_exists,
        temporary,
    };
    let first = parser.peek_token_ref();
    (first.token != Token::EOF).then_some((header, first.span.start))
}

/// Returns the byte of a text at a line and a column.
pub(super) fn offset(text: &str, at: Location) -> usize {
    let mut before = text.split_inclusive('\n');
    let lines = before.by_ref().take(at.line.saturating_sub(1) as usize);
    let start: usize = lines.map(str::len).sum();
    let line = before.next().unwrap_or_default();
    let column = at.column.saturating_sub(1) as usize;
    let characters = line.char_indices().nth(column);
    start + characters.map_or(line.len(), |(at, _)| at)
}

/// Stops at the first parameter of a statement.
pub(super) struct FirstParameter;

impl Visitor for FirstParameter {
    type Break = String;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        match expr {
            Expr::Value(value) => match &value.value {
                Value::Placeholder(name) => ControlFlow::Break(name.clone()),
                _ => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use super::*;

    fn view(text: &str) -> CreateViewStatement {
        let parsed = parse(text).unwrap().unwrap_or_else(|| panic!("{text}"));
        let parsed: Box<dyn Any> = parsed;
        *parsed.downcast().unwrap()
    }

    #[test]
    fn the_text_of_the_query_is_kept() {
        let text = "/* é */ create or replace\n temp VIEW Ünï (A, \"B c\") as -- why\n\tSELECT 'ä;',\n 2 /* two */ ; -- end";
        let read = view(text);
        assert_eq!(read.name, "ünï");
        assert_eq!(read.definition.columns, ["a", "B c"]);
        assert_eq!(read.definition.query, "SELECT 'ä;',\n 2");
        assert!(read.or_replace && read.temporary && !read.if_not_exists);
        let read = view("CREATE VIEW IF NOT EXISTS main.v AS WITH a AS (SELECT 1) SELECT * FROM a");
        assert_eq!(read.definition.query, "WITH a AS (SELECT 1) SELECT * FROM a");
        assert!(read.if_not_exists && read.name == "v");
    }

    #[test]
    fn other_statements_are_left_alone() {
        for text in [
            "CREATE TABLE v AS SELECT 1",
            "CREATE MATERIALIZED VIEW v AS SELECT 1",
            "CREATE VIEW v WITH (a = 1) AS SELECT 1",
            "CREATE VIEW v AS",
            "CREATE VIEW s.v AS SELECT 1",
            "CREATE",
            "'",
        ] {
            assert!(matches!(parse(text), Ok(None)), "{text}");
        }
    }

    #[test]
    fn what_is_no_query_of_a_view_is_refused() {
        for (text, reason) in [
            ("CREATE VIEW v AS INSERT INTO t VALUES (1)", "SELECT after AS"),
            ("CREATE VIEW v AS SELECT $1", "$1: a view has no parameters"),
            ("CREATE VIEW v AS SELECT ?", "$1: a view has no parameters"),
            ("CREATE VIEW v AS SELECT 1; SELECT 2", "2 statements"),
            ("CREATE VIEW v (a, A) AS SELECT 1, 2", "named twice"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
