//! `CREATE INDEX` and `ALTER INDEX … SET` as parsed.

use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, IndexType};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use halocline_elf::{Layout, Order};

use super::{Statement, identifier, object_name, option_of, refuse as refused};
use crate::EngineError;
use crate::index_spec::IndexSpec;
use crate::placement_spec::PlacementSpec;
use crate::size::read_limit;
use crate::syntax::SqlDialect;

/// Reads the statement.
///
/// # Errors
/// Something in it is not offered.
pub(super) fn create(create: &CreateIndex) -> Result<Statement, EngineError> {
    let refuse = |what: String, instead: &str| {
        Err(EngineError::Unsupported {
            what,
            instead: instead.into(),
        })
    };
    let Some(name) = &create.name else {
        return refuse(
            "CREATE INDEX without a name".into(),
            "write CREATE INDEX name ON …",
        );
    };
    match &create.using {
        None => {}
        Some(IndexType::Custom(kind)) if kind.value.eq_ignore_ascii_case("elf") => {}
        Some(other) => {
            return refuse(
                format!("an index of type {other}"),
                "there is one type: USING elf",
            );
        }
    }
    if create.unique {
        return refuse(
            "a UNIQUE index".into(),
            "an Elf holds equal rows as well; leave UNIQUE out",
        );
    }
    if create.predicate.is_some() || !create.include.is_empty() {
        return refuse(
            "WHERE or INCLUDE in CREATE INDEX".into(),
            "an Elf holds all rows; leave it out",
        );
    }
    if create.concurrently {
        return refuse(
            "CONCURRENTLY in CREATE INDEX".into(),
            "leave it out: queries go on beside the build",
        );
    }
    if create.nulls_distinct.is_some() || !create.index_options.is_empty() || !create.alter_options.is_empty()
    {
        return refuse(
            "NULLS DISTINCT or another option behind CREATE INDEX".into(),
            "leave it out",
        );
    }
    let mut columns = Vec::new();
    for column in &create.columns {
        if column.operator_class.is_some() || column.column.with_fill.is_some() {
            return refuse(
                "an operator class in CREATE INDEX".into(),
                "an Elf has none; leave it out",
            );
        }
        let Expr::Identifier(ident) = &column.column.expr else {
            return refuse(
                format!("an index on {}", column.column.expr),
                "index a column of its own",
            );
        };
        if column.column.options.asc.is_some() || column.column.options.nulls_first.is_some() {
            return refuse(
                format!("a direction for {ident} in an index"),
                "an Elf has none; leave it out",
            );
        }
        columns.push(identifier(ident));
    }
    let index = object_name(name)?;
    let (mut layout, mut order, mut placed) = (Layout::default(), Order::default(), PlacementSpec::default());
    for option in &create.with {
        match option_of(option)
            .as_ref()
            .map(|(key, value)| (key.as_str(), value.as_str()))
        {
            Some(("layout", "packed")) => layout = Layout::Packed,
            Some(("layout", "published")) => layout = Layout::Published,
            Some(("order", "auto")) => order = Order::Auto,
            Some(("order", "given")) => order = Order::Given,
            Some((key, value)) if read_placed(&index, key, value, &mut placed)? => {}
            _ => {
                let instead = "the options are layout = 'packed' or 'published', order = 'auto' or 'given', \
                               placement = 'static' (or another one) and dram = '64MiB'";
                return refuse(format!("the index option {option}"), instead);
            }
        }
    }
    let spec = IndexSpec {
        name: index,
        table: object_name(&create.table_name)?,
        columns,
        layout,
        order,
    };
    Ok(Statement::CreateIndex {
        spec,
        if_not_exists: create.if_not_exists,
        placed,
    })
}

/// Reads `ALTER INDEX name SET (placement = 'hybrid', dram = '1GiB')`, with or without the parentheses; the
/// parser knows only `RENAME`. `None` for any other statement.
///
/// # Errors
/// It is one, and wrong.
pub(super) fn alter(text: &str) -> Result<Option<Statement>, EngineError> {
    // A text that cannot be tokenized is none of these statements; the parser reports its error.
    let Ok(mut parser) = Parser::new(&SqlDialect).try_with_sql(text) else {
        return Ok(None);
    };
    if !parser.parse_keywords(&[Keyword::ALTER, Keyword::INDEX]) {
        return Ok(None);
    }
    let wrong = |error: ParserError| EngineError::from(datafusion::error::DataFusionError::from(error));
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = object_name(&parser.parse_object_name(false).map_err(wrong)?)?;
    if !parser.parse_keyword(Keyword::SET) {
        return refused(
            "ALTER INDEX without SET",
            "write ALTER INDEX name SET (placement = 'static', dram = '64MiB'); for another name drop the index and \
             build it anew",
        );
    }
    let parentheses = parser.consume_token(&Token::LParen);
    let options = parser.parse_comma_separated(Parser::parse_expr).map_err(wrong)?;
    if parentheses {
        parser.expect_token(&Token::RParen).map_err(wrong)?;
    }
    while parser.consume_token(&Token::SemiColon) {}
    parser.expect_token(&Token::EOF).map_err(wrong)?;
    let mut placed = PlacementSpec::default();
    for option in &options {
        let known = match option_of(option) {
            Some((key, value)) => read_placed(&name, &key, &value, &mut placed)?,
            None => false,
        };
        if !known {
            return refused(
                format!("ALTER INDEX … SET {option}"),
                "there are placement = 'static' (or another one) and dram = '64MiB'; for another layout or order drop the \
                 index and build it anew",
            );
        }
    }
    Ok(Some(Statement::PlaceIndex {
        name,
        if_exists,
        placed,
    }))
}

/// Takes an option of placements in; false if it is another one.
///
/// # Errors
/// No such placement or size.
fn read_placed(index: &str, key: &str, value: &str, placed: &mut PlacementSpec) -> Result<bool, EngineError> {
    let wrong = |error: &dyn std::fmt::Display| EngineError::Query(format!("index {index}: {error}"));
    match key {
        "placement" => placed.placement = Some(value.parse().map_err(|error| wrong(&error))?),
        "dram" => match read_limit(value) {
            Ok(Some(0)) => {
                return Err(wrong(
                    &"dram = 0 leaves nothing in DRAM; say placement = 'slow-only'",
                ));
            }
            Ok(limit) => placed.dram = Some(limit),
            Err(error) => return Err(wrong(&format!("dram: {error}"))),
        },
        _ => return Ok(false),
    }
    Ok(true)
}
