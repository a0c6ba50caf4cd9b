//! Clauses that the parser knows and planning would drop without a word: refused by name.
//!
//! Nodes of the syntax tree are destructured field by field, so that a field that a new version of the parser
//! adds fails to compile until it is handled.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Function, FunctionArgumentClause, FunctionArgumentList, FunctionArguments,
    GroupByExpr, Join, JoinConstraint, JoinOperator, LimitClause, ObjectName, ObjectNamePart, OrderBy,
    OrderByExpr, OrderByKind, PipeOperator, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor,
    TableFunctionArgs, TableWithJoins, Visitor, WindowType,
};

use crate::EngineError;
use crate::functions;
use crate::syntax::{Node, normal, walk};
use crate::unsupported::LATEST;

/// Refuses what would be dropped of a statement or query.
///
/// # Errors
/// [`EngineError::Unsupported`], naming the first such clause.
pub(super) fn refuse_dropped<N: Node>(node: &N) -> Result<(), EngineError> {
    match walk(node, &mut DroppedClauses) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct DroppedClauses;

type CheckFlow = ControlFlow<EngineError>;

/// Stops with an error if the clause is present.
fn refuse(is_there: bool, what: &str, instead: &str) -> CheckFlow {
    if is_there {
        ControlFlow::Break(EngineError::Unsupported {
            what: what.to_string(),
            instead: instead.to_string(),
        })
    } else {
        ControlFlow::Continue(())
    }
}

const LEAVE_OUT: &str = "leave it out";

impl Visitor for DroppedClauses {
    type Break = EngineError;

    fn pre_visit_query(&mut self, query: &Query) -> CheckFlow {
        let Query {
            with: _,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        refuse(
            fetch
                .as_ref()
                .is_some_and(|fetch| fetch.with_ties || fetch.percent),
            "FETCH with TIES or PERCENT",
            "write LIMIT n",
        )?;
        refuse(fetch.is_some(), "FETCH", "write LIMIT n")?;
        refuse(
            !locks.is_empty(),
            "FOR UPDATE or FOR SHARE",
            "leave it out: a transaction that has written holds the only writer's lock until it ends",
        )?;
        refuse(for_clause.is_some(), "FOR XML, FOR JSON or FOR BROWSE", LEAVE_OUT)?;
        refuse(
            settings.is_some(),
            "SETTINGS in a query",
            "send SET name = value before it",
        )?;
        refuse(
            format_clause.is_some(),
            "FORMAT in a query",
            "write COPY (query) TO 'file', or choose the program's output format",
        )?;
        if let Some(order) = order_by {
            order_by_clause(order)?;
        }
        if let Some(LimitClause::LimitOffset { limit_by, .. }) = limit_clause {
            refuse(
                !limit_by.is_empty(),
                "LIMIT … BY",
                "number the rows with row_number() OVER (PARTITION BY …)",
            )?;
        }
        for operator in pipe_operators {
            let sample = matches!(operator, PipeOperator::TableSample { .. });
            refuse(sample, "TABLESAMPLE", SAMPLE)?;
        }
        set_expression(body)
    }

    fn pre_visit_select(&mut self, select: &Select) -> CheckFlow {
        self::select(select)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> CheckFlow {
        match factor {
            TableFactor::Table {
                name: _,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                table_alias(alias.as_ref())?;
                if let Some(TableFunctionArgs { args: _, settings }) = args {
                    refuse(settings.is_some(), "SETTINGS of a table function", LEAVE_OUT)?;
                }
                refuse(sample.is_some(), "TABLESAMPLE", SAMPLE)?;
                refuse(!with_hints.is_empty(), "a table hint", LEAVE_OUT)?;
                refuse(
                    version.is_some(),
                    "a version of a table (FOR SYSTEM_TIME AS OF)",
                    "a table has only its present rows; keep a copy with CREATE TABLE … AS",
                )?;
                refuse(
                    *with_ordinality,
                    "WITH ORDINALITY",
                    "number the rows with row_number() OVER ()",
                )?;
                refuse(
                    !partitions.is_empty(),
                    "PARTITION of a table",
                    "select the rows in WHERE",
                )?;
                refuse(json_path.is_some(), "a path into a table", "name a table")?;
                refuse(
                    !index_hints.is_empty(),
                    "an index hint",
                    "write SET halocline.index = force, off or auto",
                )
            }
            TableFactor::Derived {
                lateral: _,
                subquery: _,
                alias,
                sample,
            } => {
                table_alias(alias.as_ref())?;
                refuse(sample.is_some(), "TABLESAMPLE", SAMPLE)
            }
            TableFactor::Function {
                lateral: _,
                name: _,
                args: _,
                with_ordinality,
                alias,
            } => {
                table_alias(alias.as_ref())?;
                refuse(
                    *with_ordinality,
                    "WITH ORDINALITY",
                    "number the rows with row_number() OVER ()",
                )
            }
            TableFactor::Pivot { .. } => refuse(
                true,
                "PIVOT",
                "write an aggregate for each column: sum(x) FILTER (WHERE a = 'b')",
            ),
            TableFactor::Unpivot { .. } => {
                refuse(true, "UNPIVOT", "write UNION ALL of a SELECT for each column")
            }
            TableFactor::MatchRecognize { .. } => {
                refuse(true, "MATCH_RECOGNIZE", "compare rows with lag() and lead()")
            }
            // Planning knows these to the last field, or refuses them.
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> CheckFlow {
        match expr {
            Expr::Function(function) => self::function(function),
            Expr::Collate { .. } => refuse(true, "COLLATE", "text sorts by its bytes; leave it out"),
            _ => ControlFlow::Continue(()),
        }
    }
}

const SAMPLE: &str = "select a share of the rows with WHERE random() < 0.1, or some of them with LIMIT";

fn table_alias(alias: Option<&TableAlias>) -> CheckFlow {
    let at = alias.is_some_and(|alias| alias.at.is_some());
    refuse(at, "AT in an alias of a table", LEAVE_OUT)
}

fn set_expression(body: &SetExpr) -> CheckFlow {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            set_expression(left)?;
            set_expression(right)
        }
        SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => refuse(
            true,
            "a change within a query",
            "send it as a statement of its own, within BEGIN and COMMIT",
        ),
        SetExpr::Select(_) | SetExpr::Query(_) | SetExpr::Values(_) | SetExpr::Table(_) => {
            ControlFlow::Continue(())
        }
    }
}

fn select(select: &Select) -> CheckFlow {
    let Select {
        select_token: _,
        // Hints are comments to most parsers, and do not change the rows.
        optimizer_hints: _,
        distinct: _,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection,
        exclude,
        into,
        from,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window: _,
        qualify: _,
        window_before_qualify: _,
        value_table_mode,
        flavor: _,
    } = select;
    projection.iter().try_for_each(wildcard)?;
    let modified = select_modifiers
        .as_ref()
        .is_some_and(|modifiers| modifiers.is_any_set());
    refuse(modified, "a modifier of SELECT", LEAVE_OUT)?;
    refuse(top.is_some(), "TOP", "write LIMIT n at the end of the query")?;
    refuse(
        exclude.is_some(),
        "EXCLUDE after the columns",
        "write SELECT * EXCLUDE (…)",
    )?;
    refuse(
        into.is_some(),
        "SELECT … INTO",
        "write CREATE TABLE … AS SELECT …",
    )?;
    refuse(!lateral_views.is_empty(), "LATERAL VIEW", "join with unnest(…)")?;
    refuse(
        prewhere.is_some(),
        "PREWHERE",
        "write WHERE; what is filtered first is decided by costs",
    )?;
    refuse(!connect_by.is_empty(), "CONNECT BY", "write WITH RECURSIVE")?;
    refuse(!cluster_by.is_empty(), "CLUSTER BY", "write ORDER BY")?;
    refuse(!distribute_by.is_empty(), "DISTRIBUTE BY", LEAVE_OUT)?;
    refuse(!sort_by.is_empty(), "SORT BY", "write ORDER BY")?;
    refuse(
        value_table_mode.is_some(),
        "SELECT AS STRUCT or AS VALUE",
        "name the columns",
    )?;
    let (GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers)) = group_by;
    refuse(
        !modifiers.is_empty(),
        "GROUP BY … WITH ROLLUP, CUBE or TOTALS",
        "write GROUP BY ROLLUP (…), CUBE (…) or GROUPING SETS (…)",
    )?;
    from.iter().try_for_each(joins)
}

/// Refuses what planning drops of `*`: a pattern, and replacements of columns that are left out.
fn wildcard(item: &SelectItem) -> CheckFlow {
    let (SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options)) = item else {
        return ControlFlow::Continue(());
    };
    refuse(options.opt_ilike.is_some(), "* ILIKE", "name the columns")?;
    let excluded: Vec<String> = match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => vec![last_name(name)],
        Some(ExcludeSelectItem::Multiple(names)) => names.iter().map(last_name).collect(),
        None => Vec::new(),
    };
    let except = options.opt_except.iter();
    let except =
        except.flat_map(|except| std::iter::once(&except.first_element).chain(&except.additional_elements));
    let excluded: Vec<String> = excluded.into_iter().chain(except.map(normal)).collect();
    let replaced = options.opt_replace.iter().flat_map(|replace| &replace.items);
    let both = replaced
        .map(|element| normal(&element.column_name))
        .any(|name| excluded.contains(&name));
    refuse(
        both,
        "REPLACE of a column that EXCLUDE leaves out",
        "name it in one of them",
    )
}

/// Returns the last part of a name as it is looked up.
fn last_name(name: &ObjectName) -> String {
    let last = name.0.last().and_then(ObjectNamePart::as_ident);
    last.map(normal).unwrap_or_default()
}

fn joins(table: &TableWithJoins) -> CheckFlow {
    if let TableFactor::NestedJoin { table_with_joins, .. } = &table.relation {
        joins(table_with_joins)?;
    }
    for Join {
        relation,
        global,
        join_operator,
    } in &table.joins
    {
        refuse(*global, "GLOBAL JOIN", "leave GLOBAL out")?;
        let straight = matches!(join_operator, JoinOperator::StraightJoin(_));
        refuse(
            straight,
            "STRAIGHT_JOIN",
            "write JOIN; the order is decided by costs",
        )?;
        let asof = matches!(join_operator, JoinOperator::AsOf { .. });
        refuse(asof, "ASOF JOIN", LATEST)?;
        let applied = matches!(join_operator, JoinOperator::CrossApply | JoinOperator::OuterApply);
        refuse(applied, "APPLY", "write CROSS JOIN LATERAL or LEFT JOIN LATERAL")?;
        refuse(
            lacks_condition(join_operator),
            "JOIN without ON or USING",
            "add a condition, or write CROSS JOIN for all pairs of rows",
        )?;
        if let TableFactor::NestedJoin { table_with_joins, .. } = relation {
            joins(table_with_joins)?;
        }
    }
    ControlFlow::Continue(())
}

/// Returns true for a join that needs a condition and has none, which planning takes for all pairs of rows.
fn lacks_condition(operator: &JoinOperator) -> bool {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::Semi(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::Anti(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint)
        | JoinOperator::AsOf { constraint, .. }
        | JoinOperator::StraightJoin(constraint) => *constraint == JoinConstraint::None,
        JoinOperator::CrossJoin(_)
        | JoinOperator::CrossApply
        | JoinOperator::OuterApply
        | JoinOperator::ArrayJoin
        | JoinOperator::LeftArrayJoin
        | JoinOperator::InnerArrayJoin => false,
    }
}

fn order_by_clause(order: &OrderBy) -> CheckFlow {
    let OrderBy { kind, interpolate } = order;
    refuse(
        interpolate.is_some(),
        "INTERPOLATE",
        "compute the values in SELECT",
    )?;
    match kind {
        OrderByKind::Expressions(exprs) => fills(exprs),
        OrderByKind::All(_) => ControlFlow::Continue(()),
    }
}

fn fills(exprs: &[OrderByExpr]) -> CheckFlow {
    let fill = exprs.iter().any(|expr| expr.with_fill.is_some());
    refuse(fill, "WITH FILL", "join with generate_series(…)")
}

/// Refuses what planning drops of a function: clauses that only aggregates and window functions have.
fn function(function: &Function) -> CheckFlow {
    let Function {
        name,
        uses_odbc_syntax: _,
        parameters,
        args,
        filter,
        null_treatment,
        over,
        within_group,
    } = function;
    refuse(
        *parameters != FunctionArguments::None,
        &format!("a second list of arguments of {name}"),
        "write one list",
    )?;
    fills(within_group)?;
    if let Some(WindowType::WindowSpec(window)) = over {
        fills(&window.order_by)?;
    }
    let (distinct, mut clauses) = match args {
        FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment,
            args: _,
            clauses,
        }) => (duplicate_treatment.is_some(), clauses.iter()),
        _ => (false, [].iter()),
    };
    let orders = |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
    if over.is_some() {
        refuse(
            clauses.clone().any(orders),
            &format!("ORDER BY among the arguments of {name} with OVER"),
            "write it within OVER (…)",
        )?;
    }
    let only_of_aggregates = filter.is_some()
        || null_treatment.is_some()
        || over.is_some()
        || distinct
        || !within_group.is_empty()
        || clauses.next().is_some();
    refuse(
        only_of_aggregates && functions::is_scalar(&name.to_string().to_ascii_lowercase()),
        &format!("DISTINCT, ORDER BY, FILTER, OVER, WITHIN GROUP or NULLS of {name}, which is no aggregate"),
        LEAVE_OUT,
    )
}
