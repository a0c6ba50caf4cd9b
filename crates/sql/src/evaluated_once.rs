//! The common table expressions that have to be evaluated once, on the syntax tree.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::logical_expr::Volatility;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Cte, CteAsMaterialized, Distinct, Expr, Function, Ident, ObjectName, Query, Select, SetExpr, TableAlias,
    TableFactor, Visitor, VisitorMut, With,
};

use crate::syntax::{all_from, normal, query_of, visit_mut, walk};

/// Beginning of the alias of a query that is evaluated once.
pub const ALWAYS: &str = "materialized\u{a0}#";
/// Beginning of the alias of a query that is evaluated once if it adds up floats.
pub const IF_INEXACT: &str = "materialized\u{a0}if\u{a0}inexact\u{a0}#";

/// Aggregates whose value depends on the order of the rows.
const ORDERED: &[&str] = &[
    "any_value",
    "approx_median",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "approx_quantile",
    "array_agg",
    "first_value",
    "last_value",
    "list",
    "nth_value",
    "string_agg",
];

/// Aggregates whose value depends on the order of the rows if these are floats.
const ROUNDED: &[&str] = &[
    "avg",
    "corr",
    "covar",
    "covar_pop",
    "covar_samp",
    "mean",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var",
    "var_pop",
    "var_population",
    "var_samp",
    "var_sample",
    "variance",
];

/// Functions that return another value each time.
static VOLATILE: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let functions = datafusion::functions::all_default_functions().into_iter();
    let volatile = functions.filter(|function| function.signature().volatility == Volatility::Volatile);
    volatile
        .flat_map(|function| {
            let name = function.name().to_owned();
            function
                .aliases()
                .iter()
                .cloned()
                .chain([name])
                .collect::<Vec<_>>()
        })
        .collect()
});

/// The certainty of the rows of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RowCertainty {
    /// The same each time.
    Certain,
    /// The same each time unless floats are added up.
    Rounded,
    /// They may differ.
    Varying,
}

/// Marks the common table expressions of a statement that have to be evaluated once.
pub fn mark(statement: &mut Statement) {
    let _ = visit_mut(statement, &mut Marks::default());
}

#[derive(Default)]
struct Marks {
    number: usize,
    /// Expressions that have been seen, whose rows are not certain.
    varying: Vec<(String, RowCertainty)>,
}

impl VisitorMut for Marks {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(with) = &query.with else {
            return ControlFlow::Continue(());
        };
        let found: Vec<(usize, RowCertainty)> = (0..with.cte_tables.len())
            .filter_map(|at| {
                let cte = &with.cte_tables[at];
                let rows = self.rows(cte);
                if rows == RowCertainty::Certain {
                    return None;
                }
                let name = normal(&cte.alias.name);
                let mut all = References::new(&name);
                let _ = walk(query, &mut all);
                let mut own = References::new(&name);
                let _ = walk(&*cte.query, &mut own);
                let references = all.number - own.number;
                self.varying.push((name, rows));
                (references > 1).then_some((at, rows))
            })
            .collect();
        if let Some(with) = &mut query.with {
            for (at, rows) in found {
                self.wrap(with.recursive, &mut with.cte_tables[at], rows);
            }
        }
        ControlFlow::Continue(())
    }
}

impl Marks {
    fn rows(&self, cte: &Cte) -> RowCertainty {
        let mut evidence = Evidence {
            rows: match cte.materialized {
                Some(CteAsMaterialized::Materialized) => RowCertainty::Varying,
                _ => RowCertainty::Certain,
            },
            varying: &self.varying,
        };
        let _ = walk(&*cte.query, &mut evidence);
        evidence.rows
    }

    /// Puts `SELECT * FROM (query) AS mark` in the place of the query. One that is recursive keeps its form
    /// in a WITH clause of its own.
    fn wrap(&mut self, recursive: bool, cte: &mut Cte, rows: RowCertainty) {
        self.number += 1;
        let prefix = match rows {
            RowCertainty::Rounded => IF_INEXACT,
            _ => ALWAYS,
        };
        let mut inner = std::mem::replace(&mut *cte.query, query_of(SetExpr::Values(no_values())));
        if recursive && matches!(*inner.body, SetExpr::SetOperation { .. }) {
            let own = Cte {
                alias: cte.alias.clone(),
                query: Box::new(inner),
                from: None,
                materialized: None,
                closing_paren_token: AttachedToken::empty(),
            };
            let all = all_from(TableFactor::Table {
                name: ObjectName::from(vec![cte.alias.name.clone()]),
                alias: None,
                args: None,
                with_hints: Vec::new(),
                version: None,
                with_ordinality: false,
                partitions: Vec::new(),
                json_path: None,
                sample: None,
                index_hints: Vec::new(),
            });
            inner = Query {
                with: Some(With {
                    with_token: AttachedToken::empty(),
                    recursive,
                    cte_tables: vec![own],
                }),
                ..query_of(SetExpr::Select(Box::new(all)))
            };
        }
        *cte.query = query_of(SetExpr::Select(Box::new(all_from(TableFactor::Derived {
            lateral: false,
            subquery: Box::new(inner),
            alias: Some(TableAlias {
                explicit: true,
                name: Ident::with_quote('"', format!("{prefix}{}", self.number)),
                columns: Vec::new(),
                at: None,
            }),
            sample: None,
        }))));
    }
}

fn no_values() -> datafusion::sql::sqlparser::ast::Values {
    datafusion::sql::sqlparser::ast::Values {
        explicit_row: false,
        value_keyword: false,
        rows: Vec::new(),
    }
}

/// Counts references to a name; one in a subquery of an expression, which may run for each row, as two.
struct References<'n> {
    name: &'n str,
    number: usize,
    /// Number of expressions around.
    expressions: usize,
}

impl<'n> References<'n> {
    fn new(name: &'n str) -> Self {
        Self {
            name,
            number: 0,
            expressions: 0,
        }
    }
}

impl Visitor for References<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        if let [part] = name.0.as_slice()
            && part.as_ident().is_some_and(|ident| normal(ident) == self.name)
        {
            self.number += if self.expressions > 0 { 2 } else { 1 };
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.expressions += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.expressions -= 1;
        ControlFlow::Continue(())
    }
}

/// What a query has that makes its rows vary.
struct Evidence<'e> {
    rows: RowCertainty,
    varying: &'e [(String, RowCertainty)],
}

impl Visitor for Evidence<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if query.limit_clause.is_some() || query.fetch.is_some() {
            self.rows = RowCertainty::Varying;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if matches!(select.distinct, Some(Distinct::On(_))) || select.top.is_some() {
            self.rows = RowCertainty::Varying;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        if let [part] = name.0.as_slice()
            && let Some(name) = part.as_ident().map(normal)
            && let Some((_, rows)) = self.varying.iter().rev().find(|(varying, _)| *varying == name)
        {
            self.rows = self.rows.max(*rows);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(Function { name, over, .. }) = expr {
            let name = name.to_string().to_ascii_lowercase();
            let rows = match name.as_str() {
                _ if over.is_some() || VOLATILE.contains(&name) => RowCertainty::Varying,
                ordered if ORDERED.contains(&ordered) => RowCertainty::Varying,
                rounded if ROUNDED.contains(&rounded) || rounded.starts_with("regr_") => {
                    RowCertainty::Rounded
                }
                _ => RowCertainty::Certain,
            };
            self.rows = self.rows.max(rows);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    fn marked(text: &str) -> usize {
        let mut statement = DFParser::parse_sql(text).unwrap().pop_front().unwrap();
        mark(&mut statement);
        statement.to_string().matches("materialized\u{a0}").count()
    }

    #[test]
    fn expressions_that_may_differ_are_marked() {
        for (number, text) in [
            (1, "WITH c AS (SELECT random() AS r) SELECT * FROM c a, c b"),
            (1, "WITH c AS (SELECT x FROM t LIMIT 3) SELECT * FROM c a, c b"),
            (
                1,
                "WITH c AS (SELECT sum(x) AS s FROM t) SELECT * FROM c WHERE s = (SELECT max(s) FROM c)",
            ),
            (
                1,
                "WITH c AS (SELECT random() AS r) SELECT (SELECT r + x FROM c) FROM t",
            ),
            (
                1,
                "WITH c AS (SELECT uuid() AS r), d AS (SELECT r FROM c) SELECT * FROM d a, d b",
            ),
            (
                2,
                "WITH c AS (SELECT uuid() AS r), d AS (SELECT r FROM c) SELECT * FROM d a, d b, c",
            ),
            (0, "WITH c AS (SELECT random() AS r) SELECT * FROM c"),
            (0, "WITH c AS (SELECT x FROM t) SELECT * FROM c a, c b"),
            (0, "SELECT random() FROM t LIMIT 3"),
            (
                1,
                "WITH RECURSIVE c AS (SELECT random() AS r UNION ALL SELECT r + 1 FROM c WHERE r < 4) \
                 SELECT * FROM c a, c b",
            ),
        ] {
            assert_eq!(marked(text), number, "{text}");
        }
    }
}
