//! Calls of functions that are written as others ([`super::rewrites`]), of table functions that read files,
//! and comparisons with lists, in a syntax tree.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, Select, SelectItem, TableFactor, TableFunctionArgs, Value, VisitorMut,
};

use super::date_diff;
use super::files;
use super::lists;
use super::rewrites::{self, FunctionTemplate};
use crate::EngineError;
use crate::syntax::{normal, walk_mut};

/// Rewrites the calls of a tree. It fails for files that are named in a way that is not offered, and for
/// functions that take a lambda.
pub(crate) struct FunctionRewriter;

impl VisitorMut for FunctionRewriter {
    type Break = EngineError;

    /// Gives a column that is such a call the name that it was written with.
    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<EngineError> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(Expr::Function(function)) = item
                && template(function).is_some()
            {
                let alias = Ident::with_quote('"', function.to_string());
                let expr = Expr::Function(function.clone());
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<EngineError> {
        let TableFactor::Table {
            name,
            args: called @ Some(_),
            ..
        } = factor
        else {
            return ControlFlow::Continue(());
        };
        let (Some(function), Some(TableFunctionArgs { args, .. })) = (single_name(name), &*called) else {
            return ControlFlow::Continue(());
        };
        match files::path(&function, args) {
            Ok(Some(path)) => {
                *name = ObjectName::from(vec![Ident::with_quote('\'', path)]);
                *called = None;
                ControlFlow::Continue(())
            }
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<EngineError> {
        if let Expr::Function(function) = expr {
            part_as_text(function);
            if let Some(rewritten) = rewritten(function) {
                *expr = rewritten;
                return ControlFlow::Continue(());
            }
            let name = single_name(&function.name).unwrap_or_default();
            if let Err(error) = lists::refuse_lambda(&name) {
                return ControlFlow::Break(error);
            }
        } else if let Some(in_list) = lists::in_list(expr) {
            *expr = in_list;
        }
        ControlFlow::Continue(())
    }
}

/// Returns a name that has one part, as it is looked up.
fn single_name(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Some(normal(name)),
        _ => None,
    }
}

/// Returns the arguments of a call; `None` unless they are expressions alone.
fn arguments(function: &Function) -> Option<Vec<&Expr>> {
    let list = match &function.args {
        FunctionArguments::None => return Some(Vec::new()),
        FunctionArguments::List(list) => list,
        FunctionArguments::Subquery(_) => return None,
    };
    if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return None;
    }
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    args.collect()
}

/// Returns the expression of a call; `None` if it is planned as it is, which reports what does not fit it.
fn template(function: &Function) -> Option<&'static FunctionTemplate> {
    let name = single_name(&function.name)?;
    let plain = function.parameters == FunctionArguments::None
        && function.over.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty();
    let arguments = arguments(function).filter(|_| plain)?;
    let template = rewrites::template(&name, arguments.len())?;
    (template.is_aggregate || function.filter.is_none()).then_some(template)
}

/// Returns what a call is written as.
fn rewritten(function: &Function) -> Option<Expr> {
    let template = template(function)?;
    let arguments = arguments(function)?.into_iter().cloned().collect();
    let mut expr = template.expr.clone();
    let _ = walk_mut(&mut expr, &mut Parameters(arguments));
    if let (Expr::Function(aggregate), Some(filter)) = (&mut expr, &function.filter) {
        let nested = |filter: &Expr| Box::new(Expr::Nested(Box::new(filter.clone())));
        aggregate.filter = Some(match &aggregate.filter {
            Some(own) => Box::new(Expr::BinaryOp {
                left: nested(filter),
                op: BinaryOperator::And,
                right: nested(own),
            }),
            None => filter.clone(),
        });
    }
    Some(expr)
}

/// Replaces the parameters of an expression by arguments.
struct Parameters(Vec<Expr>);

impl VisitorMut for Parameters {
    type Break = ();

    // What replaces a parameter is not visited, so that parameters of a statement stay.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Value(value) = expr
            && let Value::Placeholder(name) = &value.value
            && let Some(number) = name.strip_prefix('$').and_then(|number| number.parse().ok())
            && let Some(argument) = usize::checked_sub(number, 1).and_then(|at| self.0.get(at))
        {
            *expr = argument.clone();
        }
        ControlFlow::Continue(())
    }
}

/// Replaces a part of times that is written without quotes, as in `datediff(day, a, b)`, by a text.
fn part_as_text(function: &mut Function) {
    let is_difference =
        single_name(&function.name).is_some_and(|name| date_diff::NAMES.contains(&name.as_str()));
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first_mut()
        && let Expr::Identifier(ident) = first
        && is_difference
        && ident.quote_style.is_none()
        && date_diff::is_part(&ident.value)
    {
        *first = Expr::value(Value::SingleQuotedString(ident.value.clone()));
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::syntax::SqlDialect;

    /// Returns an expression as it is planned.
    fn planned(text: &str) -> String {
        let parser = Parser::new(&SqlDialect).try_with_sql(text);
        let mut expr = parser.and_then(|mut parser| parser.parse_expr()).unwrap();
        assert!(walk_mut(&mut expr, &mut FunctionRewriter).is_continue());
        expr.to_string()
    }

    #[test]
    fn calls_become_expressions() {
        for (text, expected) in [
            ("iif(a, b, c)", "CASE WHEN a THEN b ELSE c END"),
            ("IF(a, mod(b, 2), 0)", "CASE WHEN a THEN (b) % (2) ELSE 0 END"),
            ("year($2)", "date_part('year', $2)"),
            ("age(t)", "age(current_date(), t)"),
            ("age(t, u)", "age(t, u)"),
            ("localtimestamp", "CAST(now() AS TIMESTAMP)"),
            ("datediff(DAY, a, b)", "datediff('DAY', a, b)"),
            ("date_diff(d, a, b)", "date_diff('d', a, b)"),
            ("date_diff(\"day\", a, b)", "date_diff(\"day\", a, b)"),
            ("date_diff(a.day, a, b)", "date_diff(a.day, a, b)"),
            (
                "max_by(a, b)",
                "first_value(a ORDER BY b DESC NULLS LAST) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL)",
            ),
            (
                "arg_min(a, b) FILTER (WHERE c OR d)",
                "first_value(a ORDER BY b ASC NULLS LAST) FILTER (WHERE (c OR d) AND (a IS NOT NULL AND b IS NOT \
                 NULL))",
            ),
        ] {
            assert_eq!(planned(text), expected, "{text}");
        }
    }

    #[test]
    fn what_has_no_expression_stays() {
        for text in [
            "if(a, b)",
            "year(DISTINCT a)",
            "\"YEAR\"(a)",
            "s.year(a)",
            "max_by(a, b) OVER ()",
            "max_by(a, b, 3)",
            "year(a) FILTER (WHERE b)",
            "upper(a)",
        ] {
            assert_eq!(planned(text), text);
        }
    }
}
