//! Forms of queries that are written as others before anything else looks at them: `FETCH FIRST` as
//! `LIMIT`, `ORDER BY ALL` as the numbers of the columns, `FROM t` as `SELECT * FROM t`, `SEMI JOIN` and
//! `ANTI JOIN` as those of the left side, and `TABLESAMPLE` as a subquery.
//!
//! A form that cannot be written as another one stays, and is refused by name later.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Fetch, Ident, JoinOperator, LimitClause, ObjectNamePart, OrderBy, OrderByExpr,
    OrderByKind, OrderByOptions, Query, Select, SelectFlavor, SelectItem, SetExpr, Statement as SqlStatement,
    TableAlias, TableFactor, TableSample, TableSampleKind, TableSampleMethod, TableSampleUnit,
    TableWithJoins, Value, VisitorMut, WildcardAdditionalOptions,
};

use crate::EngineError;
use crate::syntax::{all_from, call_of, query_of, visit_mut};

/// Rewrites the forms in a statement.
///
/// # Errors
/// The columns of `ORDER BY ALL` are not listed, or a sample has no size that is supported.
pub(super) fn rewrite(statement: &mut Parsed) -> Result<(), EngineError> {
    // The table that rows are deleted from or changed in is none that can be sampled.
    let samples = match statement {
        Parsed::Statement(inner) => !matches!(**inner, SqlStatement::Delete(_) | SqlStatement::Update(_)),
        _ => true,
    };
    match visit_mut(statement, &mut Forms { samples }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Forms {
    /// Samples are rewritten.
    samples: bool,
}

impl VisitorMut for Forms {
    type Break = EngineError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<EngineError> {
        fetch(query);
        if let Some(OrderBy {
            kind: kind @ OrderByKind::All(_),
            ..
        }) = &mut query.order_by
            && let OrderByKind::All(options) = *kind
        {
            let Some(columns) = number_of_columns(&query.body) else {
                return ControlFlow::Break(EngineError::Unsupported {
                    what: "ORDER BY ALL of a query with *".into(),
                    instead: "name the columns in SELECT or in ORDER BY".into(),
                });
            };
            *kind = OrderByKind::Expressions((1..=columns).map(|number| position(number, options)).collect());
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<EngineError> {
        select.from.iter_mut().for_each(joins_of_the_left);
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            select.flavor = SelectFlavor::Standard;
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<EngineError> {
        if !self.samples {
            return ControlFlow::Continue(());
        }
        let (sample, alias) = match factor {
            TableFactor::Table {
                name,
                alias,
                sample: sample @ Some(_),
                ..
            } => {
                let last = name.0.last().and_then(ObjectNamePart::as_ident).cloned();
                (sample.take(), alias.take().or_else(|| last.map(alias_of)))
            }
            TableFactor::Derived {
                alias,
                sample: sample @ Some(_),
                ..
            } => (sample.take(), alias.take()),
            _ => return ControlFlow::Continue(()),
        };
        let Some(TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
            sample
        else {
            return ControlFlow::Continue(());
        };
        match sampled(factor.clone(), &sample) {
            Ok(query) => {
                *factor = TableFactor::Derived {
                    lateral: false,
                    subquery: Box::new(query),
                    alias,
                    sample: None,
                };
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn alias_of(name: Ident) -> TableAlias {
    TableAlias {
        explicit: true,
        name,
        columns: Vec::new(),
        at: None,
    }
}

/// Writes `FETCH FIRST n ROWS ONLY` as `LIMIT n`, unless there is a `LIMIT` as well.
fn fetch(query: &mut Query) {
    let Some(Fetch {
        with_ties: false,
        percent: false,
        quantity,
    }) = &query.fetch
    else {
        return;
    };
    let number = quantity.clone().unwrap_or_else(|| literal("1"));
    match &mut query.limit_clause {
        None => {
            query.limit_clause = Some(LimitClause::LimitOffset {
                limit: Some(number),
                offset: None,
                limit_by: Vec::new(),
            });
        }
        Some(LimitClause::LimitOffset {
            limit: limit @ None, ..
        }) => *limit = Some(number),
        Some(_) => return,
    }
    query.fetch = None;
}

/// Returns the number of columns of a query; `None` if it does not list them.
fn number_of_columns(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let listed = |item: &SelectItem| {
                matches!(
                    item,
                    SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
                )
            };
            let projection = &select.projection;
            (projection.iter().all(listed) && !projection.is_empty()).then_some(projection.len())
        }
        SetExpr::Query(query) => number_of_columns(&query.body),
        SetExpr::SetOperation { left, .. } => number_of_columns(left),
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}

fn position(number: usize, options: OrderByOptions) -> OrderByExpr {
    OrderByExpr {
        expr: literal(&number.to_string()),
        options,
        with_fill: None,
    }
}

fn literal(number: &str) -> Expr {
    Expr::value(Value::Number(number.to_owned(), false))
}

/// Writes `SEMI JOIN` and `ANTI JOIN` as `LEFT SEMI JOIN` and `LEFT ANTI JOIN`.
fn joins_of_the_left(table: &mut TableWithJoins) {
    if let TableFactor::NestedJoin { table_with_joins, .. } = &mut table.relation {
        joins_of_the_left(table_with_joins);
    }
    for join in &mut table.joins {
        if let TableFactor::NestedJoin { table_with_joins, .. } = &mut join.relation {
            joins_of_the_left(table_with_joins);
        }
        let operator = &mut join.join_operator;
        if let JoinOperator::Semi(constraint) = operator {
            *operator = JoinOperator::LeftSemi(constraint.clone());
        } else if let JoinOperator::Anti(constraint) = operator {
            *operator = JoinOperator::LeftAnti(constraint.clone());
        }
    }
}

/// Returns a query for the sample of a table: each row with the probability of a percentage, or a number of
/// rows, each set of which is equally likely.
///
/// # Errors
/// The sample has a seed, a bucket or an offset, or its size is no number within its range.
fn sampled(factor: TableFactor, sample: &TableSample) -> Result<Query, EngineError> {
    let TableSample {
        modifier: _,
        name,
        quantity,
        seed,
        bucket,
        offset,
    } = sample;
    let unsupported = |what: &str, instead: &str| {
        Err(EngineError::Unsupported {
            what: what.into(),
            instead: instead.into(),
        })
    };
    if seed.is_some() {
        return unsupported(
            "TABLESAMPLE with a seed",
            "keep the sample with CREATE TABLE … AS",
        );
    }
    if bucket.is_some() || offset.is_some() || *name == Some(TableSampleMethod::Block) {
        return unsupported(
            "TABLESAMPLE with BUCKET, BLOCK or OFFSET",
            "write TABLESAMPLE (n PERCENT) or TABLESAMPLE (n ROWS)",
        );
    }
    let size = quantity.as_ref().and_then(|quantity| match &quantity.value {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => Some((number.as_str(), quantity.unit)),
            _ => None,
        },
        _ => None,
    });
    let Some((number, unit)) = size else {
        return unsupported(
            "TABLESAMPLE with a size that is no number",
            "write TABLESAMPLE (n PERCENT) or TABLESAMPLE (n ROWS)",
        );
    };
    let mut select = all_from(factor);
    if unit == Some(TableSampleUnit::Rows) {
        let random = OrderByExpr {
            expr: call_of("random", []),
            options: OrderByOptions::default(),
            with_fill: None,
        };
        return Ok(Query {
            order_by: Some(OrderBy {
                kind: OrderByKind::Expressions(vec![random]),
                interpolate: None,
            }),
            limit_clause: Some(LimitClause::LimitOffset {
                limit: Some(literal(number)),
                offset: None,
                limit_by: Vec::new(),
            }),
            ..query_of(SetExpr::Select(Box::new(select)))
        });
    }
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => {}
        _ => {
            return Err(EngineError::Query(format!(
                "TABLESAMPLE {number} PERCENT: the percentage must be between 0 and 100"
            )));
        }
    }
    // `random()` is below 1, so that 100 percent are all rows.
    select.selection = Some(Expr::BinaryOp {
        left: Box::new(Expr::BinaryOp {
            left: Box::new(call_of("random", [])),
            op: BinaryOperator::Multiply,
            right: Box::new(literal("100")),
        }),
        op: BinaryOperator::Lt,
        right: Box::new(literal(number)),
    });
    Ok(query_of(SetExpr::Select(Box::new(select))))
}

#[cfg(test)]
mod tests {
    use super::super::parse_tree;

    fn read(text: &str) -> String {
        parse_tree(text).map_or_else(|error| error.to_string(), |tree| tree.to_string())
    }

    #[test]
    fn forms_are_written_as_others() {
        for (text, expected) in [
            (
                "SELECT a FROM t ORDER BY a FETCH FIRST 2 ROWS ONLY",
                "SELECT a FROM t ORDER BY a LIMIT 2",
            ),
            (
                "SELECT a FROM t OFFSET 3 FETCH NEXT ROW ONLY",
                "SELECT a FROM t LIMIT 1 OFFSET 3",
            ),
            (
                "SELECT a, b + 1 FROM t ORDER BY ALL DESC",
                "SELECT a, b + 1 FROM t ORDER BY 1 DESC, 2 DESC",
            ),
            (
                "SELECT a FROM t UNION SELECT b FROM u ORDER BY ALL",
                "SELECT a FROM t UNION SELECT b FROM u ORDER BY 1",
            ),
            ("FROM t", "SELECT * FROM t"),
            (
                "SELECT * FROM t SEMI JOIN u USING (a)",
                "SELECT * FROM t LEFT SEMI JOIN u USING(a)",
            ),
            (
                "SELECT * FROM t ANTI JOIN u ON t.a = u.a",
                "SELECT * FROM t LEFT ANTI JOIN u ON t.a = u.a",
            ),
            (
                "SELECT t.a FROM s.t TABLESAMPLE BERNOULLI (10)",
                "SELECT t.a FROM (SELECT * FROM s.t WHERE random() * 100 < 10) AS t",
            ),
            (
                "SELECT * FROM t AS x TABLESAMPLE (5 ROWS)",
                "SELECT * FROM (SELECT * FROM t ORDER BY random() LIMIT 5) AS x",
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for (text, expected) in [
            ("SELECT * FROM t ORDER BY ALL", "ORDER BY ALL of a query with *"),
            ("SELECT a FROM t TABLESAMPLE (101 PERCENT)", "between 0 and 100"),
            (
                "SELECT a FROM t TABLESAMPLE (1) REPEATABLE (4)",
                "TABLESAMPLE with a seed",
            ),
            (
                "SELECT a FROM t FETCH FIRST 1 ROW WITH TIES",
                "FETCH with TIES or PERCENT",
            ),
        ] {
            let error = read(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
