//! The dialect in which statements are read: DataFusion's generic one, with the precedence of operators that
//! the SQL standard, PostgreSQL and DuckDB have.
//!
//! The generic dialect reads `a IS DISTINCT FROM b AND c` as `a IS DISTINCT FROM (b AND c)`, `a = b LIKE c` as
//! `(a = b) LIKE c`, `1 + 2 || 'x'` as `1 + (2 || 'x')` and `-a || b` as `-(a || b)`. `#` is no letter but an
//! operator, and `1_000` a number instead of 1 with the name `_000`.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// The dialect of all statements.
#[derive(Debug, Clone, Copy)]
pub struct SqlDialect;

/// Precedences, from the loosest to the tightest.
mod level {
    /// `:` in slices of arrays, which ends every other expression.
    pub(super) const COLON: u8 = 5;
    pub(super) const OR: u8 = 10;
    pub(super) const AND: u8 = 20;
    pub(super) const NOT: u8 = 30;
    pub(super) const IS: u8 = 40;
    /// `=`, `<` and the like.
    pub(super) const COMPARISON: u8 = 50;
    /// `BETWEEN`, `IN`, `LIKE`, `SIMILAR TO`.
    pub(super) const MATCH: u8 = 60;
    /// `~` and the like.
    pub(super) const REGEX: u8 = 65;
    /// All other operators, such as `||`, `&`, `|`, `#`, `<<`.
    pub(super) const OTHER: u8 = 70;
    pub(super) const ADD: u8 = 80;
    pub(super) const MULTIPLY: u8 = 90;
    pub(super) const POWER: u8 = 100;
    pub(super) const TIME_ZONE: u8 = 110;
    /// Unary `-` and `+`.
    pub(super) const SIGN: u8 = 120;
    /// `::` and subscripts.
    pub(super) const CAST: u8 = 140;
    pub(super) const PERIOD: u8 = 200;
}

/// Levels of the left operand of `#` and `IS DISTINCT FROM`.
const LEVELS: usize = 2_000;

impl SqlDialect {
    /// Parses `IS [NOT] DISTINCT FROM` and the right operand.
    fn distinct(self, parser: &mut Parser<'_>, left: Box<Expr>, precedence: u8) -> Result<Expr, ParserError> {
        parser.next_token();
        let negated = parser.parse_keyword(Keyword::NOT);
        parser.expect_keywords(&[Keyword::DISTINCT, Keyword::FROM])?;
        let right = Box::new(parser.parse_subexpr(precedence)?);
        Ok(if negated {
            Expr::IsNotDistinctFrom(left, right)
        } else {
            Expr::IsDistinctFrom(left, right)
        })
    }
}

fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword)
}

/// Returns true unless operators follow each other in a longer chain than an expression may have levels.
fn is_copied_cheaply(mut expr: &Expr) -> bool {
    for _ in 0..LEVELS {
        expr = match expr {
            Expr::BinaryOp { left, .. }
            | Expr::IsDistinctFrom(left, _)
            | Expr::IsNotDistinctFrom(left, _) => left,
            Expr::Cast { expr, .. } => expr,
            _ => return true,
        };
    }
    false
}

/// Implements methods as the generic dialect has them.
macro_rules! as_generic {
    ($($name:ident,)*) => {
        $(fn $name(&self) -> bool {
            GenericDialect.$name()
        })*
    };
}

impl Dialect for SqlDialect {
    /// Returns the generic dialect, which the parser asks for by its type.
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch != '#' && GenericDialect.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch != '#' && GenericDialect.is_identifier_part(ch)
    }

    fn supports_numeric_literal_underscores(&self) -> bool {
        true
    }

    fn supports_order_by_all(&self) -> bool {
        true
    }

    fn supports_alter_column_type_using(&self) -> bool {
        true
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        let op = match parser.peek_token_ref().token {
            Token::Minus => UnaryOperator::Minus,
            Token::Plus => UnaryOperator::Plus,
            _ => return None,
        };
        parser.next_token();
        let operand = parser.parse_subexpr(level::SIGN);
        Some(operand.map(|expr| Expr::UnaryOp {
            op,
            expr: Box::new(expr),
        }))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let is_distinct = match &parser.peek_token_ref().token {
            Token::Sharp => false,
            Token::Word(word) if word.keyword == Keyword::IS => {
                let second = |at, keyword| is_keyword(&parser.peek_nth_token_ref(at).token, keyword);
                let negated = second(1, Keyword::NOT) && second(2, Keyword::DISTINCT);
                if !(negated || second(1, Keyword::DISTINCT)) {
                    return None;
                }
                true
            }
            _ => return None,
        };
        // The operand is copied for each operator of a chain.
        if !is_copied_cheaply(left) {
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        let left = Box::new(left.clone());
        let infix = if is_distinct {
            self.distinct(parser, left, precedence)
        } else {
            parser.next_token();
            let right = parser.parse_subexpr(precedence);
            right.map(|right| Expr::BinaryOp {
                left,
                op: BinaryOperator::PGBitwiseXor,
                right: Box::new(right),
            })
        };
        Some(infix)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::Caret => Some(Ok(level::POWER)),
            Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk => Some(Ok(level::REGEX)),
            Token::StringConcat
            | Token::Sharp
            | Token::ShiftLeft
            | Token::ShiftRight
            | Token::Overlap
            | Token::CaretAt => Some(Ok(level::OTHER)),
            _ => None,
        }
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        match precedence {
            Precedence::Period => level::PERIOD,
            Precedence::DoubleColon => level::CAST,
            Precedence::AtTz => level::TIME_ZONE,
            Precedence::MulDivModOp => level::MULTIPLY,
            Precedence::PlusMinus => level::ADD,
            Precedence::Xor
            | Precedence::Ampersand
            | Precedence::Caret
            | Precedence::Pipe
            | Precedence::PgOther => level::OTHER,
            Precedence::Between | Precedence::Like => level::MATCH,
            Precedence::Eq => level::COMPARISON,
            Precedence::Is => level::IS,
            Precedence::UnaryNot => level::NOT,
            Precedence::And => level::AND,
            Precedence::Or => level::OR,
            Precedence::Colon => level::COLON,
        }
    }

    as_generic! {
        supports_unicode_string_literal,
        supports_partition_by_after_order_by,
        supports_array_join_syntax,
        supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_left_associative_joins_without_parens,
        supports_connect_by,
        supports_match_recognize,
        supports_pipe_operator,
        supports_start_transaction_modifier,
        supports_window_function_null_treatment_arg,
        supports_dictionary_syntax,
        supports_window_clause_named_window_reference,
        supports_parenthesized_set_variables,
        supports_select_wildcard_except,
        support_map_literal_syntax,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_extract_comma_syntax,
        supports_create_view_comment_syntax,
        supports_parens_around_table_factor,
        supports_values_as_table_factor,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_limit_comma,
        supports_update_order_by,
        supports_from_first_select,
        supports_projection_trailing_commas,
        supports_asc_desc_in_column_definition,
        supports_try_convert,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_assignment_operator,
        supports_struct_literal,
        supports_empty_projections,
        supports_nested_comments,
        supports_multiline_comment_hints,
        supports_user_host_grantee,
        supports_string_escape_constant,
        supports_array_typedef_with_brackets,
        supports_match_against,
        supports_set_names,
        supports_comma_separated_set_assignments,
        supports_filter_during_aggregation,
        supports_select_wildcard_exclude,
        supports_data_type_signed_suffix,
        supports_interval_options,
        supports_quote_delimited_string,
        supports_select_wildcard_replace,
        supports_select_wildcard_ilike,
        supports_select_wildcard_rename,
        supports_optimize_table,
        supports_install,
        supports_detach,
        supports_prewhere,
        supports_with_fill,
        supports_limit_by,
        supports_interpolate,
        supports_settings,
        supports_select_format,
        supports_comment_optimizer_hint,
        supports_constraint_keyword_without_name,
        supports_key_column_option,
        supports_comma_separated_trim,
        supports_cte_without_as,
        supports_select_item_multi_column_alias,
        supports_xml_expressions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an expression as it is read, with all parentheses.
    fn read(text: &str) -> String {
        let parser = Parser::new(&SqlDialect).try_with_sql(text);
        let expr = parser.and_then(|mut parser| {
            let expr = parser.parse_expr()?;
            parser.expect_token(&Token::EOF)?;
            Ok(expr)
        });
        expr.map_or_else(|error| error.to_string(), |expr| parenthesised(&expr))
    }

    fn parenthesised(expr: &Expr) -> String {
        let of = |expr: &Expr| parenthesised(expr);
        match expr {
            Expr::BinaryOp { left, op, right } => format!("({} {op} {})", of(left), of(right)),
            Expr::UnaryOp { op, expr } => format!("({op} {})", of(expr)),
            Expr::IsDistinctFrom(left, right) => format!("({} DISTINCT {})", of(left), of(right)),
            Expr::IsNotDistinctFrom(left, right) => format!("({} SAME {})", of(left), of(right)),
            Expr::IsNull(expr) => format!("({} IS NULL)", of(expr)),
            Expr::Between { expr, low, high, .. } => format!("({} IN {}..{})", of(expr), of(low), of(high)),
            Expr::Like { expr, pattern, .. } => format!("({} LIKE {})", of(expr), of(pattern)),
            Expr::InList { expr, list, .. } => format!("({} IN {})", of(expr), list.len()),
            Expr::Cast { expr, .. } => format!("({}::)", of(expr)),
            Expr::AtTimeZone { timestamp, .. } => format!("({} AT)", of(timestamp)),
            other => other.to_string(),
        }
    }

    #[test]
    fn operators_bind_as_in_postgres_and_duckdb() {
        for (text, expected) in [
            ("a is distinct from b and c", "((a DISTINCT b) AND c)"),
            ("a is not distinct from b or c", "((a SAME b) OR c)"),
            (
                "c and a is not distinct from b and d",
                "((c AND (a SAME b)) AND d)",
            ),
            ("a is distinct from b = c", "(a DISTINCT (b = c))"),
            ("a = b is distinct from c + 1", "((a = b) DISTINCT (c + 1))"),
            ("a is distinct from (b and c)", "(a DISTINCT (b AND c))"),
            ("a is distinct from b is null", "((a DISTINCT b) IS NULL)"),
            ("not a is distinct from b", "(NOT (a DISTINCT b))"),
            ("not a = b", "(NOT (a = b))"),
            ("not a is null and b", "((NOT (a IS NULL)) AND b)"),
            ("a = b is null", "((a = b) IS NULL)"),
            ("a = b like c", "(a = (b LIKE c))"),
            ("b like c = a", "((b LIKE c) = a)"),
            ("a = b in (1)", "(a = (b IN 1))"),
            ("a = b between 1 and 2", "(a = (b IN 1..2))"),
            ("b between 1 and 2 = a", "((b IN 1..2) = a)"),
            ("b between 1 and 2 and c", "((b IN 1..2) AND c)"),
            ("a or b and c", "(a OR (b AND c))"),
            ("1 + 2 || 'x'", "((1 + 2) || 'x')"),
            ("'x' || 1 * 2", "('x' || (1 * 2))"),
            ("1 | 2 & 4", "((1 | 2) & 4)"),
            ("1 << 2 + 1", "(1 << (2 + 1))"),
            ("a # b = c", "((a # b) = c)"),
            ("a#b", "(a # b)"),
            ("a ~ b || c", "(a ~ (b || c))"),
            ("a = b ~ c", "(a = (b ~ c))"),
            ("2 * 3 ^ 2", "(2 * (3 ^ 2))"),
            ("2 ^ 3 ^ 2", "((2 ^ 3) ^ 2)"),
            ("-2 ^ 2", "((- 2) ^ 2)"),
            ("2 ^ -2", "(2 ^ (- 2))"),
            ("-a || b", "((- a) || b)"),
            ("-a * b", "((- a) * b)"),
            ("- a::text", "(- (a::))"),
            ("a * b // c % d", "(((a * b) // c) % d)"),
            ("a + b at time zone 'UTC'", "(a + (b AT))"),
            ("a < b and b < c", "((a < b) AND (b < c))"),
        ] {
            // Parentheses of the text would hide those of the tree.
            let found = read(text).replace("((b AND c))", "(b AND c)");
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn what_the_generic_dialect_reads_is_read() {
        for text in [
            "SELECT * EXCLUDE (a) FROM t",
            "SELECT [1, 2][1:2], {'a': 1}",
            "FROM t SELECT a",
            "SELECT a, FROM t LIMIT 1, 2",
            "SELECT sum(a) FILTER (WHERE a > 1) FROM t GROUP BY ALL QUALIFY true",
            "SELECT position('a' IN b), E'\\n', interval '1' day, try_cast(a AS int), f(x => 1)",
        ] {
            let (own, generic) = (
                Parser::parse_sql(&SqlDialect, text),
                Parser::parse_sql(&GenericDialect, text),
            );
            assert_eq!(own, generic, "{text}");
        }
    }
}
