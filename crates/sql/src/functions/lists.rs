//! Lists in a syntax tree: comparisons with any element of a list that is written out become `IN`, which
//! scans evaluate, and functions that take a lambda are refused.

use std::sync::LazyLock;

use datafusion::functions_nested::all_default_higher_order_functions;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};

use crate::EngineError;

/// Returns `a = ANY([b, c])` as `a IN (b, c)`, and `a <> ALL([b, c])` as `a NOT IN (b, c)`; `None` for other
/// expressions.
pub(super) fn in_list(expr: &Expr) -> Option<Expr> {
    let (left, right, negated) = match expr {
        Expr::AnyOp {
            left,
            compare_op: BinaryOperator::Eq,
            right,
            ..
        } => (left, right, false),
        Expr::AllOp {
            left,
            compare_op: BinaryOperator::NotEq,
            right,
        } => (left, right, true),
        _ => return None,
    };
    let mut list = &**right;
    while let Expr::Nested(inner) = list {
        list = inner;
    }
    let Expr::Array(list) = list else {
        return None;
    };
    // No expression has an empty IN.
    (!list.elem.is_empty()).then(|| Expr::InList {
        expr: left.clone(),
        list: list.elem.clone(),
        negated,
    })
}

/// The functions that take a lambda.
static WITH_LAMBDA: LazyLock<Vec<String>> = LazyLock::new(|| {
    let functions = all_default_higher_order_functions();
    let names = functions.iter().flat_map(|function| {
        let aliases = function.aliases().iter().cloned();
        aliases.chain([function.name().to_owned()])
    });
    names
        .chain(["list_apply".to_owned(), "list_reduce".to_owned()])
        .collect()
});

/// Refuses a function that takes a lambda.
///
/// # Errors
/// [`EngineError::Unsupported`].
pub(super) fn refuse_lambda(function: &str) -> Result<(), EngineError> {
    if WITH_LAMBDA.iter().any(|name| name == function) {
        return Err(EngineError::Unsupported {
            what: format!("{function}, whose argument is a function,"),
            instead: "select from unnest(list), and collect the values with array_agg".to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::syntax::SqlDialect;

    #[test]
    fn lists_that_are_written_out_become_in() {
        for (text, expected) in [
            ("a = ANY([1, b])", Some("a IN (1, b)")),
            ("a = ANY(ARRAY['x'])", Some("a IN ('x')")),
            ("a <> ALL([1, 2])", Some("a NOT IN (1, 2)")),
            ("a < ANY([1, 2])", None),
            ("a = ALL([1, 2])", None),
            ("a = ANY(l)", None),
            ("a = ANY([])", None),
        ] {
            let parser = Parser::new(&SqlDialect).try_with_sql(text);
            let expr = parser.and_then(|mut parser| parser.parse_expr()).unwrap();
            let found = in_list(&expr).map(|expr| expr.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn functions_of_functions_are_refused() {
        assert!(refuse_lambda("list_transform").is_err() && refuse_lambda("array_filter").is_err());
        assert!(refuse_lambda("list_sort").is_ok());
    }
}
