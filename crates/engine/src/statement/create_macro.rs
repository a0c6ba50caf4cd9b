//! `CREATE MACRO` and `CREATE FUNCTION`.
//!
//! The text of the expression is stored as it was written. It is therefore read from the text of the
//! statement, not from its syntax tree.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use halocline_catalog::macro_object;
use halocline_catalog::transaction::Transaction;
use halocline_pool::ObjectKind;
use halocline_sql::EngineError;
use halocline_sql::parse::{identifier, object_name, refuse};
use halocline_sql::syntax::{SqlDialect, walk, walk_mut};

use super::create_view::{FirstParameter, offset};
use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use crate::QueryResult;
use crate::macros::{MacroDefinition, MacroExpander, MacroParameter, parse_expression};

/// `CREATE MACRO` in the list of statements.
pub(super) const CREATE_MACRO: StatementKind = StatementKind {
    name: "CREATE MACRO",
    example: "CREATE MACRO m(x) AS x + 1",
    syntax: &[StatementSyntax::Text {
        word: "create",
        parse,
    }],
};

const FORM: &str = "write CREATE [OR REPLACE] MACRO m(x, y := 1) AS expression, or CREATE FUNCTION f(x int) RETURNS \
                    int RETURN expression";

/// A `CREATE MACRO` as parsed.
#[derive(Debug)]
pub(super) struct CreateMacroStatement {
    name: String,
    definition: MacroDefinition,
    or_replace: bool,
    if_not_exists: bool,
}

impl RunStatement for CreateMacroStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        Box::pin(async move {
            let planner = run.session.schema_planner(run.engine)?;
            let state = planner.state();
            let is_function = state.scalar_functions().contains_key(&self.name)
                || state.aggregate_functions().contains_key(&self.name)
                || state.window_functions().contains_key(&self.name)
                || state.higher_order_functions().contains_key(&self.name);
            if is_function {
                return Err(EngineError::Exists {
                    kind: "function",
                    name: self.name,
                    instead: "choose another name for the macro",
                });
            }
            drop(planner);
            let message = run
                .change("CREATE MACRO", move |transaction| self.store(transaction))
                .await?;
            Ok(QueryResult::done(message))
        })
    }
}

impl CreateMacroStatement {
    /// Stores the macro, and returns a message.
    ///
    /// # Errors
    /// There is one of this name; it would call itself; the pool cannot be written.
    fn store(self, transaction: &mut Transaction) -> Result<String, EngineError> {
        let catalog = transaction.catalog();
        match (
            catalog.objects().has_macro(&self.name),
            self.or_replace,
            self.if_not_exists,
        ) {
            (true, false, true) => return Ok(format!("macro {} is there already", self.name)),
            (true, false, false) => {
                return Err(EngineError::Exists {
                    kind: "macro",
                    name: self.name,
                    instead: "drop it first, choose another name, or use CREATE OR REPLACE MACRO",
                });
            }
            (true, true, _) | (false, ..) => {}
        }
        let record = self.definition.encode()?;
        let object = macro_object(&self.name);
        transaction
            .txn()
            .put(&object, ObjectKind::DEFINITION, &record, Vec::new())?;
        transaction.changed([]);
        // Expanding its expression finds out whether it calls itself, also through others that are older.
        let catalog = transaction.catalog();
        let mut expr = parse_expression(&self.definition.body)?;
        match walk_mut(&mut expr, &mut MacroExpander::new(&catalog)) {
            ControlFlow::Continue(()) => Ok(format!("macro {}", self.name)),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

/// Reads `CREATE [OR REPLACE] MACRO [IF NOT EXISTS] m(x, y := 1) AS expression`, and `CREATE FUNCTION` with
/// types and `RETURNS type RETURN expression`; `None` for any other text.
///
/// # Errors
/// It is one, and wrong.
fn parse(text: &str) -> ParsedStatement {
    // A text that cannot be tokenized is no such statement; the parser reports its error.
    let Ok(tokens) = Tokenizer::new(&SqlDialect, text).tokenize_with_location() else {
        return Ok(None);
    };
    let mut parser = Parser::new(&SqlDialect).with_tokens_with_locations(tokens.clone());
    if !parser.parse_keyword(Keyword::CREATE) {
        return Ok(None);
    }
    let or_replace = parser.parse_keywords(&[Keyword::OR, Keyword::REPLACE]);
    let temporary = parser
        .parse_one_of_keywords(&[Keyword::TEMP, Keyword::TEMPORARY])
        .is_some();
    if parser
        .parse_one_of_keywords(&[Keyword::MACRO, Keyword::FUNCTION])
        .is_none()
    {
        return Ok(None);
    }
    if temporary {
        return refuse("a temporary macro", "leave TEMP out, and drop the macro later");
    }
    let wrong = |error: ParserError| EngineError::from(DataFusionError::from(error));
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = object_name(&parser.parse_object_name(false).map_err(wrong)?)?;
    parser.expect_token(&Token::LParen).map_err(wrong)?;
    let mut parameters = Vec::new();
    while !parser.consume_token(&Token::RParen) {
        if !parameters.is_empty() {
            parser.expect_token(&Token::Comma).map_err(wrong)?;
        }
        parameters.push(parameter(&mut parser)?);
    }
    let returns = if parser.parse_keyword(Keyword::RETURNS) {
        Some(parser.parse_data_type().map_err(wrong)?.to_string())
    } else {
        None
    };
    let begins = parser
        .parse_one_of_keywords(&[Keyword::AS, Keyword::RETURN])
        .is_some();
    let first = parser.peek_token();
    let is_table = matches!(&first.token, Token::Word(word) if word.keyword == Keyword::TABLE);
    let is_text = matches!(first.token, Token::DollarQuotedString(_));
    let is_missing = first.token == Token::EOF;
    if !begins || is_table || is_text || is_missing || or_replace && if_not_exists {
        return refuse("this form of CREATE MACRO or CREATE FUNCTION", FORM);
    }
    let at = first.span.start;
    let mut body = tokens.iter().filter(|token| token.span.start >= at);
    let is_part =
        |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::SemiColon | Token::EOF);
    let end = body
        .rfind(is_part)
        .map_or(text.len(), |last| offset(text, last.span.end));
    let definition = MacroDefinition {
        parameters,
        returns,
        body: text[offset(text, at)..end].to_owned(),
    };
    check(&name, &definition)?;
    boxed(CreateMacroStatement {
        name,
        definition,
        or_replace,
        if_not_exists,
    })
}

/// Reads a parameter: a name, its type if there is one, and its default after `:=`, `=` or DEFAULT.
fn parameter(parser: &mut Parser<'_>) -> Result<MacroParameter, EngineError> {
    let wrong = |error: ParserError| EngineError::from(DataFusionError::from(error));
    let name = identifier(&parser.parse_identifier().map_err(wrong)?);
    let has_default = |parser: &mut Parser<'_>| {
        parser.consume_token(&Token::Assignment)
            || parser.consume_token(&Token::Eq)
            || parser.parse_keyword(Keyword::DEFAULT)
    };
    let mut given = has_default(parser);
    let mut data_type = None;
    if !given && !matches!(parser.peek_token_ref().token, Token::Comma | Token::RParen) {
        data_type = Some(parser.parse_data_type().map_err(wrong)?.to_string());
        given = has_default(parser);
    }
    let default = if given {
        Some(parser.parse_expr().map_err(wrong)?.to_string())
    } else {
        None
    };
    Ok(MacroParameter {
        name,
        data_type,
        default,
    })
}

/// Checks what can be checked before the macro is called.
///
/// # Errors
/// The expression is none, or has parameters of a statement; a parameter is named twice, or one without a
/// default follows one with a default.
fn check(name: &str, definition: &MacroDefinition) -> Result<(), EngineError> {
    let wrong = |reason: String| Err(EngineError::Query(format!("macro {name}: {reason}")));
    let body = parse_expression(&definition.body)?;
    let mut names = BTreeSet::new();
    let mut defaults = false;
    for parameter in &definition.parameters {
        if !names.insert(&parameter.name) {
            return wrong(format!("parameter {} is named twice", parameter.name));
        }
        if defaults && parameter.default.is_none() {
            return wrong(format!(
                "parameter {} has no default, and follows one that has",
                parameter.name
            ));
        }
        defaults |= parameter.default.is_some();
        if let Some(default) = &parameter.default {
            parse_expression(default)?;
        }
    }
    match walk(&body, &mut FirstParameter) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => Err(EngineError::Parameter {
            name,
            reason: "a macro has parameters of its own, by their names".into(),
        }),
    }
}
