//! The functions that are other names for expressions, in one list: a call becomes the expression, with its
//! arguments in place of `$1`, `$2` and so on, before a statement is planned.
//!
//! A function whose name alone differs has an entry in [`ALIASES`] or [`AGGREGATE_ALIASES`] instead.

use std::collections::HashMap;
use std::sync::LazyLock;

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::parser::Parser;

use crate::syntax::SqlDialect;

/// A function and what a call of it becomes.
pub(super) struct RewrittenFunction {
    pub(super) name: &'static str,
    /// Its arguments, for error texts and `SHOW FUNCTIONS`.
    pub(super) arguments: &'static str,
    /// The expression; the number of arguments is that of its highest parameter.
    pub(super) becomes: &'static str,
}

const fn rewrite(name: &'static str, arguments: &'static str, becomes: &'static str) -> RewrittenFunction {
    RewrittenFunction {
        name,
        arguments,
        becomes,
    }
}

const CASE: &str = "CASE WHEN $1 THEN $2 ELSE $3 END";
const DAY_OF_WEEK: &str = "date_part('dow', $1)";
const OF_GREATEST: &str =
    "first_value($1 ORDER BY $2 DESC NULLS LAST) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)";
const OF_LEAST: &str =
    "first_value($1 ORDER BY $2 ASC NULLS LAST) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)";

/// Functions of a row.
pub(super) const SCALARS: [RewrittenFunction; 26] = [
    rewrite("if", "condition, then, else", CASE),
    rewrite("iif", "condition, then, else", CASE),
    rewrite("mod", "dividend, divisor", "($1) % ($2)"),
    rewrite("gen_random_uuid", "", "uuid()"),
    rewrite("localtimestamp", "", "CAST(now() AS timestamp)"),
    rewrite("age", "time", "age(current_date(), $1)"),
    rewrite("year", "time", "date_part('year', $1)"),
    rewrite("quarter", "time", "date_part('quarter', $1)"),
    rewrite("month", "time", "date_part('month', $1)"),
    rewrite("week", "time", "date_part('week', $1)"),
    rewrite("weekofyear", "time", "date_part('week', $1)"),
    rewrite("day", "time", "date_part('day', $1)"),
    rewrite("dayofmonth", "time", "date_part('day', $1)"),
    rewrite("dayofweek", "time", DAY_OF_WEEK),
    rewrite("weekday", "time", DAY_OF_WEEK),
    rewrite("isodow", "time", "date_part('isodow', $1)"),
    rewrite("isoyear", "time", "date_part('isoyear', $1)"),
    rewrite("dayofyear", "time", "date_part('doy', $1)"),
    rewrite("hour", "time", "date_part('hour', $1)"),
    rewrite("minute", "time", "date_part('minute', $1)"),
    rewrite("second", "time", "date_part('second', $1)"),
    rewrite("list_first", "list", "array_element($1, 1)"),
    rewrite("list_last", "list", "array_element($1, -1)"),
    rewrite("monthname", "time", "strftime($1, '%B')"),
    rewrite("dayname", "time", "strftime($1, '%A')"),
    rewrite(
        "last_day",
        "time",
        "CAST(date_trunc('month', $1) + INTERVAL '1 month' - INTERVAL '1 day' AS date)",
    ),
];

/// Aggregates. A `FILTER` of the call is added to that of the expression.
pub(super) const AGGREGATES: [RewrittenFunction; 6] = [
    rewrite("arg_max", "value, by", OF_GREATEST),
    rewrite("argmax", "value, by", OF_GREATEST),
    rewrite("max_by", "value, by", OF_GREATEST),
    rewrite("arg_min", "value, by", OF_LEAST),
    rewrite("argmin", "value, by", OF_LEAST),
    rewrite("min_by", "value, by", OF_LEAST),
];

/// Further names of functions of a row.
pub(super) const ALIASES: [(&str, &[&str]); 11] = [
    ("array_min", &["list_min"]),
    ("ceil", &["ceiling"]),
    ("character_length", &["len"]),
    ("ends_with", &["suffix"]),
    ("lower", &["lcase"]),
    ("make_array", &["list_value", "list_pack"]),
    ("regexp_like", &["regexp_matches"]),
    ("signum", &["sign"]),
    ("starts_with", &["prefix"]),
    ("string_to_array", &["string_split", "str_split"]),
    ("upper", &["ucase"]),
];

/// Further names of aggregates.
pub(super) const AGGREGATE_ALIASES: [(&str, &[&str]); 3] = [
    ("approx_percentile_cont", &["approx_quantile"]),
    ("array_agg", &["list"]),
    ("var", &["variance"]),
];

/// The expression of a function.
pub(super) struct FunctionTemplate {
    pub(super) expr: Expr,
    pub(super) is_aggregate: bool,
}

/// Returns the number of arguments of an expression.
pub(super) fn parameters(becomes: &str) -> usize {
    let numbers = becomes.split('$').skip(1);
    let digit = |rest: &str| rest.chars().next().and_then(|digit| digit.to_digit(10));
    numbers.filter_map(digit).max().unwrap_or(0) as usize
}

/// The expressions by name, then by number of arguments.
static TEMPLATES: LazyLock<HashMap<&'static str, HashMap<usize, FunctionTemplate>>> = LazyLock::new(|| {
    let scalars = SCALARS.iter().map(|function| (function, false));
    let aggregates = AGGREGATES.iter().map(|function| (function, true));
    let mut templates: HashMap<_, HashMap<_, _>> = HashMap::new();
    for (function, is_aggregate) in scalars.chain(aggregates) {
        let parser = Parser::new(&SqlDialect).try_with_sql(function.becomes);
        if let Ok(expr) = parser.and_then(|mut parser| parser.parse_expr()) {
            let of_name = templates.entry(function.name).or_default();
            of_name.insert(
                parameters(function.becomes),
                FunctionTemplate { expr, is_aggregate },
            );
        }
    }
    templates
});

/// Returns the expression of a function with this number of arguments.
pub(super) fn template(name: &str, arguments: usize) -> Option<&'static FunctionTemplate> {
    TEMPLATES.get(name)?.get(&arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_expression_can_be_parsed() {
        let parsed = TEMPLATES.values().map(HashMap::len).sum::<usize>();
        assert_eq!(parsed, SCALARS.len() + AGGREGATES.len());
        for function in SCALARS.iter().chain(&AGGREGATES) {
            let arguments = function.arguments.split(", ").filter(|name| !name.is_empty());
            assert_eq!(
                arguments.count(),
                parameters(function.becomes),
                "{}",
                function.name
            );
        }
    }
}
