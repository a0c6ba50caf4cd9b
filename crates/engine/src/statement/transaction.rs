//! `BEGIN`, `COMMIT` and `ROLLBACK`.

use datafusion::sql::sqlparser::ast::{self, TransactionAccessMode, TransactionMode};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use halocline_sql::parse::refuse;
use halocline_sql::syntax::SqlDialect;

use super::run::StatementRun;
use super::statement_kind::{
    ParsedStatement, RunStatement, StatementFuture, StatementKind, StatementSyntax, boxed,
};
use crate::QueryResult;

/// `BEGIN` in the list of statements.
pub(super) const BEGIN: StatementKind = StatementKind {
    name: "BEGIN",
    example: "BEGIN",
    syntax: &[StatementSyntax::Tree(begin)],
};

/// `COMMIT` in the list of statements.
pub(super) const COMMIT: StatementKind = StatementKind {
    name: "COMMIT",
    example: "COMMIT",
    syntax: &[StatementSyntax::Tree(commit)],
};

/// `ROLLBACK` in the list of statements, also written `ABORT`.
pub(super) const ROLLBACK: StatementKind = StatementKind {
    name: "ROLLBACK",
    example: "ROLLBACK",
    syntax: &[
        StatementSyntax::Text {
            word: "abort",
            parse: abort,
        },
        StatementSyntax::Tree(rollback),
    ],
};

/// The begin of a transaction.
#[derive(Debug)]
pub(super) struct BeginStatement;

impl RunStatement for BeginStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        Box::pin(async move {
            run.session.slot().open()?;
            run.session.temporaries().begin();
            Ok(QueryResult::done("begun"))
        })
    }
}

/// The end of a transaction whose changes are kept.
#[derive(Debug)]
pub(super) struct CommitStatement;

impl RunStatement for CommitStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        Box::pin(async move {
            let cancel = run.cancel_flag();
            run.blocking(move |session, _| session.commit(&cancel)).await?;
            Ok(QueryResult::done("committed"))
        })
    }
}

/// The end of a transaction whose changes are taken back.
#[derive(Debug)]
pub(super) struct RollbackStatement;

impl RunStatement for RollbackStatement {
    fn run(self: Box<Self>, run: StatementRun<'_>) -> StatementFuture<'_> {
        Box::pin(async move {
            run.blocking(|session, _| session.roll_back()).await?;
            Ok(QueryResult::done("rolled back"))
        })
    }
}

fn begin(statement: &ast::Statement) -> ParsedStatement {
    let ast::Statement::StartTransaction {
        modes,
        modifier,
        statements,
        exception,
        ..
    } = statement
    else {
        return Ok(None);
    };
    if modifier.is_some() || !statements.is_empty() || exception.is_some() {
        return refuse(
            "this form of BEGIN",
            "write BEGIN alone, then the statements one by one",
        );
    }
    if modes.contains(&TransactionMode::AccessMode(TransactionAccessMode::ReadOnly)) {
        let instead = "each query sees one version of the database; several are the same one within BEGIN";
        return refuse("a transaction that only reads", instead);
    }
    boxed(BeginStatement)
}

fn commit(statement: &ast::Statement) -> ParsedStatement {
    let ast::Statement::Commit { chain, modifier, .. } = statement else {
        return Ok(None);
    };
    if *chain || modifier.is_some() {
        refuse("this form of COMMIT", "write COMMIT alone, then BEGIN")
    } else {
        boxed(CommitStatement)
    }
}

fn rollback(statement: &ast::Statement) -> ParsedStatement {
    let ast::Statement::Rollback { chain, savepoint } = statement else {
        return Ok(None);
    };
    if *chain || savepoint.is_some() {
        refuse(
            "ROLLBACK TO or AND CHAIN",
            "a statement that fails takes back only itself; ROLLBACK alone takes back the transaction",
        )
    } else {
        boxed(RollbackStatement)
    }
}

/// Parses `ABORT`; `None` for any other statement.
fn abort(text: &str) -> ParsedStatement {
    // A text that cannot be tokenized is no such statement; the parser reports its error.
    let Ok(mut parser) = Parser::new(&SqlDialect).try_with_sql(text) else {
        return Ok(None);
    };
    if !parser.parse_keyword(Keyword::ABORT) {
        return Ok(None);
    }
    let _word = parser.parse_one_of_keywords(&[Keyword::WORK, Keyword::TRANSACTION]);
    while parser.consume_token(&Token::SemiColon) {}
    if parser.peek_token() == Token::EOF {
        boxed(RollbackStatement)
    } else {
        Ok(None)
    }
}
