//! Estimates of logical plans, operator by operator: reads plans for the formulas of [`halocline_costs`].

use std::any::Any;

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::{Column, DFSchema, JoinType};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, FetchType, Join, Limit, LogicalPlan, Projection, SkipType, TableScan,
};
use halocline_catalog::estimate::of_statistics;
use halocline_catalog::settings::FeatureMode;
use halocline_costs::cardinality::{ColumnEstimate, PlanEstimate, key_domain, semi_selectivity};
use halocline_scan::estimate::{ColumnLookup, conjunction_of, of_expression, shares};
use halocline_scan::plan::PoolTable;

use crate::materialized::materialized_input;
use crate::star;

/// Estimates plans.
#[derive(Debug, Clone, Copy)]
pub struct Estimator {
    /// The setting `halocline.index`: selections are estimated by the indexes that may answer them.
    pub mode: FeatureMode,
}

/// The columns of a plan.
struct PlanColumns<'p> {
    schema: &'p DFSchema,
    estimate: &'p PlanEstimate,
}

impl ColumnLookup for PlanColumns<'_> {
    fn column(&self, column: &Column) -> Option<&ColumnEstimate> {
        let at = self.schema.maybe_index_of_column(column)?;
        self.estimate.columns.get(at)
    }
}

impl Estimator {
    /// Estimates a plan. O(size of the plan), and what the indexes of its tables take.
    pub fn estimate(self, plan: &LogicalPlan) -> PlanEstimate {
        let columns = plan.schema().fields().len();
        let mut estimate = self.of_operator(plan);
        // An operator that is not known has the columns of its input, as far as there are any.
        let rows = estimate.rows;
        estimate
            .columns
            .resize_with(columns, || ColumnEstimate::with_distinct(rows));
        estimate
    }

    fn of_operator(self, plan: &LogicalPlan) -> PlanEstimate {
        use LogicalPlan as P;
        match plan {
            P::TableScan(scan) => self.scan(scan),
            P::Filter(filter) => {
                let input = self.estimate(&filter.input);
                filtered(
                    input,
                    filter.input.schema(),
                    &split_conjunction(&filter.predicate),
                )
            }
            P::Projection(projection) => self.projection(projection),
            P::SubqueryAlias(alias) => self.estimate(&alias.input),
            P::Aggregate(aggregate) => self.aggregate(aggregate),
            P::Distinct(Distinct::All(input)) => self.estimate(input).distinct(),
            P::Distinct(Distinct::On(on)) => {
                let input = self.estimate(&on.input);
                let columns = PlanColumns {
                    schema: on.input.schema(),
                    estimate: &input,
                };
                PlanEstimate::uniform(groups(&on.on_expr, &columns), on.schema.fields().len())
                    .known_as(&input)
            }
            P::Join(join) => self.join(join),
            P::Limit(limit) => self.limit(limit),
            P::Sort(sort) => {
                let mut input = self.estimate(&sort.input);
                input.limit(sort.fetch.map_or(f64::INFINITY, |fetch| fetch as f64));
                input
            }
            P::Union(union) => {
                let inputs = union.inputs.iter().map(|input| self.estimate(input));
                inputs
                    .reduce(PlanEstimate::appended)
                    .unwrap_or_else(|| PlanEstimate::unknown(0))
            }
            P::EmptyRelation(empty) => PlanEstimate::uniform(f64::from(u8::from(empty.produce_one_row)), 0),
            P::Values(values) => PlanEstimate::uniform(values.values.len() as f64, 0),
            P::Extension(extension) => {
                let node = extension.node.as_ref();
                match star::replaced_plan(node).or_else(|| materialized_input(node)) {
                    Some(replaced) => self.estimate(replaced),
                    None => PlanEstimate::unknown(0),
                }
            }
            other => match other.inputs().as_slice() {
                // Windows and others that keep the rows of their input.
                [input] => self.estimate(input),
                _ => PlanEstimate::unknown(0),
            },
        }
    }

    fn scan(self, scan: &TableScan) -> PlanEstimate {
        let provider = source_as_provider(&scan.source).ok();
        let pool_table = provider
            .as_ref()
            .and_then(|provider| (provider.as_ref() as &dyn Any).downcast_ref::<PoolTable>());
        let mut estimate = match (pool_table, provider.as_ref()) {
            (Some(table), _) => table.estimate(&scan.filters, self.mode),
            (None, provider) => {
                let table = match provider.and_then(|provider| provider.statistics()) {
                    Some(statistics) => of_statistics(&statistics),
                    None => PlanEstimate::unknown(scan.source.schema().fields().len()),
                };
                let name = scan.table_name.clone();
                match DFSchema::try_from_qualified_schema(name, &scan.source.schema()) {
                    Ok(schema) => filtered(table, &schema, &scan.filters.iter().collect::<Vec<_>>()),
                    Err(_) => table,
                }
            }
        };
        if let Some(projection) = &scan.projection {
            let columns = projection.iter().map(|at| estimate.columns.get(*at).cloned());
            let unknown = || ColumnEstimate::with_distinct(estimate.rows);
            estimate.columns = columns.map(|column| column.unwrap_or_else(unknown)).collect();
        }
        estimate.limit(scan.fetch.map_or(f64::INFINITY, |fetch| fetch as f64));
        estimate
    }

    fn projection(self, projection: &Projection) -> PlanEstimate {
        let input = self.estimate(&projection.input);
        let columns = PlanColumns {
            schema: projection.input.schema(),
            estimate: &input,
        };
        let of = |expr: &Expr| of_expression(expr, &columns, input.rows);
        PlanEstimate {
            columns: projection.expr.iter().map(of).collect(),
            ..input
        }
    }

    fn aggregate(self, aggregate: &Aggregate) -> PlanEstimate {
        let input = self.estimate(&aggregate.input);
        let columns = PlanColumns {
            schema: aggregate.input.schema(),
            estimate: &input,
        };
        let rows = groups(&aggregate.group_expr, &columns);
        // A group column has all values of its input, and they are the domain from now on.
        let of_group = |expr: &Expr| match expr {
            Expr::GroupingSet(_) => ColumnEstimate::with_distinct(rows),
            expr => {
                let values = of_expression(expr, &columns, input.rows);
                ColumnEstimate {
                    range: values.range,
                    ..ColumnEstimate::with_distinct(values.distinct.min(rows))
                }
            }
        };
        PlanEstimate {
            rows,
            base_rows: rows,
            columns: aggregate.group_expr.iter().map(of_group).collect(),
            is_known: input.is_known,
        }
    }

    fn limit(self, limit: &Limit) -> PlanEstimate {
        let mut input = self.estimate(&limit.input);
        if let Ok(SkipType::Literal(skip)) = limit.get_skip_type() {
            let rest = (input.rows - skip as f64).max(0.0);
            input.limit(rest);
        }
        if let Ok(FetchType::Literal(Some(fetch))) = limit.get_fetch_type() {
            input.limit(fetch as f64);
        }
        input
    }

    fn join(self, join: &Join) -> PlanEstimate {
        let (left, right) = (self.estimate(&join.left), self.estimate(&join.right));
        let of_side = |side: &PlanEstimate, schema: &DFSchema, exprs: Vec<&Expr>| {
            let columns = PlanColumns {
                schema,
                estimate: side,
            };
            let keys = exprs
                .into_iter()
                .map(|expr| of_expression(expr, &columns, side.rows));
            keys.collect::<Vec<ColumnEstimate>>()
        };
        let left_keys = of_side(
            &left,
            join.left.schema(),
            join.on.iter().map(|(key, _)| key).collect(),
        );
        let right_keys = of_side(
            &right,
            join.right.schema(),
            join.on.iter().map(|(_, key)| key).collect(),
        );
        let domain = key_domain((&left_keys, left.base_rows), (&right_keys, right.base_rows));
        let matches = left.rows * right.rows / domain;
        // Conditions on both sides are estimated on the pairs of rows.
        let pairs = PlanEstimate::pairs(&left, &right);
        let filter = match &join.filter {
            Some(filter) => match join.left.schema().join(join.right.schema()) {
                Ok(schema) => conjunction_of(
                    &split_conjunction(filter),
                    &PlanColumns {
                        schema: &schema,
                        estimate: &pairs,
                    },
                ),
                Err(_) => 1.0,
            },
            None => 1.0,
        };
        let joined = |rows: f64| PlanEstimate::joined(&left, &right, rows);
        let kept = |side: &PlanEstimate, share: f64| side.kept(share).known_as(&pairs);
        match join.join_type {
            JoinType::Inner => joined(matches * filter),
            JoinType::Left => joined((matches * filter).max(left.rows)),
            JoinType::Right => joined((matches * filter).max(right.rows)),
            JoinType::Full => joined((matches * filter).max(left.rows).max(right.rows)),
            JoinType::LeftSemi => kept(
                &left,
                semi_selectivity(&left_keys, &left, &right_keys, &right, false),
            ),
            JoinType::LeftAnti => kept(
                &left,
                semi_selectivity(&left_keys, &left, &right_keys, &right, true),
            ),
            JoinType::RightSemi => kept(
                &right,
                semi_selectivity(&right_keys, &right, &left_keys, &left, false),
            ),
            JoinType::RightAnti => kept(
                &right,
                semi_selectivity(&right_keys, &right, &left_keys, &left, true),
            ),
            // One column more.
            JoinType::LeftMark => kept(&left, 1.0),
            JoinType::RightMark => kept(&right, 1.0),
        }
    }
}

/// Applies conditions on the columns of a schema.
fn filtered(mut input: PlanEstimate, schema: &DFSchema, conditions: &[&Expr]) -> PlanEstimate {
    let columns = PlanColumns {
        schema,
        estimate: &input,
    };
    let share = conjunction_of(conditions, &columns);
    let of_columns = shares(conditions, &columns).into_iter();
    let of_columns: Vec<(usize, f64)> = of_columns
        .filter_map(|(column, share)| Some((schema.maybe_index_of_column(column)?, share)))
        .collect();
    let rows = input.rows * share;
    input.select(rows, &of_columns);
    input
}

/// Estimates the number of groups of the rows of a plan.
fn groups(exprs: &[Expr], columns: &PlanColumns<'_>) -> f64 {
    let input = columns.estimate;
    let of_group = |expr: &Expr| match expr {
        Expr::GroupingSet(_) => input.rows,
        expr => of_expression(expr, columns, input.rows).distinct,
    };
    input.groups(exprs.iter().map(of_group))
}
