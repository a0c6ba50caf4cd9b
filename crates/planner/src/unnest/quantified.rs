//! `EXISTS`, and comparisons of a value with all rows of a subquery: `IN`, `ANY`, `ALL`.
//!
//! The value of `x op ANY (S)` is true if it is for a row of S, else unknown if it is for a row, else false.
//! Whether it is true for a row is found by a semi, anti or mark join, or from the least and the greatest
//! value of S; what remains is known from the number of rows of S and of those that are NULL.

use std::sync::Arc;

use datafusion::common::{Column, JoinType, Result, ScalarValue};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, ExprSchemable, Limit, LogicalPlan, Operator, SubqueryAlias, binary_expr, lit,
    when,
};
use halocline_sql::semantics::{self, float_comparison};

use super::correlation::{has_subquery, substitute};
use super::expressions::{Extended, negated_if};
use super::join_conditions::joined;
use super::partner::Partner;
use super::push::literal_limits;
use super::row_value::split_rows;
use super::rule::unsupported;
use super::scalar::has_single_row;

/// A subquery of which only matters if it has rows.
enum Existence {
    Known(bool),
    Rows(LogicalPlan),
}

impl Extended<'_> {
    /// Replaces a condition that a row has to meet to be kept. It is dropped where a semi or anti join takes
    /// its place.
    ///
    /// # Errors
    /// A subquery cannot be joined.
    pub(super) fn condition(&mut self, condition: Expr) -> Result<Option<Expr>> {
        let (negated, inner) = without_not(condition);
        match inner {
            Expr::Exists(Exists {
                subquery,
                negated: also,
            }) => {
                let plan = self.unnested(subquery)?;
                self.keep_if_exists(plan, negated != also)
            }
            Expr::InSubquery(within) if !has_subquery(&within.expr) => {
                let negated = negated != within.negated;
                self.keep_if_in(within, negated)
            }
            other => self.expression(negated_if(negated, other)).map(Some),
        }
    }

    fn keep_if_exists(&mut self, plan: LogicalPlan, negated: bool) -> Result<Option<Expr>> {
        let plan = match existence(plan)? {
            Existence::Known(exists) => return Ok(Some(lit(exists != negated))),
            Existence::Rows(plan) => plan,
        };
        if let Some(row) = self.of_single_row(&plan)? {
            let exists = row.has_row.map_or(lit(true), |condition| condition.is_true());
            return Ok(Some(negated_if(negated, exists)));
        }
        let partner = first_row(self.partner(plan, false)?);
        let conditions = partner.conditions();
        self.keep(partner, conditions, negated)?;
        Ok(None)
    }

    fn keep_if_in(&mut self, within: InSubquery, negated: bool) -> Result<Option<Expr>> {
        let plan = self.unnested(within.subquery)?;
        if has_single_row(&plan) {
            return Ok(Some(negated_if(
                negated,
                self.quantified(*within.expr, Operator::Eq, plan)?,
            )));
        }
        let (compared, plan) = split_rows(*within.expr, plan, self.names)?;
        if !negated || !self.may_be_unknown(&compared, &plan)? {
            let partner = self.partner(plan, false)?;
            let conditions = self.matching(&partner, &compared)?;
            self.keep(partner, conditions, negated)?;
            return Ok(None);
        }
        if compared.len() > 1 {
            return Ok(Some(negated_if(true, self.in_rows(compared, plan)?)));
        }
        let partner = self.partner(plan, true)?;
        let conditions = self.matching(&partner, &compared)?;
        let (rows, values) = self.join_counts(&partner)?;
        self.keep(partner, conditions, true)?;
        // No row is equal: not in them if that is known of all.
        let nothing = rows.clone().is_null().or(rows.clone().eq(lit(0_i64)));
        let known = compared.into_iter().map(|expr| expr.is_not_null());
        let known = known.chain([values.eq(rows)]);
        Ok(conjunction(known).map(|known| nothing.or(known)))
    }

    /// Keeps the rows of the outer plan that have a partner, or those that have none.
    fn keep(&mut self, partner: Partner, conditions: Vec<Expr>, negated: bool) -> Result<()> {
        let join_type = if negated {
            JoinType::LeftAnti
        } else {
            JoinType::LeftSemi
        };
        let outer = self.take_plan();
        self.plan = joined(outer, partner.plan, join_type, conditions)?;
        Ok(())
    }

    /// Returns the value of EXISTS.
    ///
    /// # Errors
    /// The subquery cannot be joined.
    pub(super) fn exists(&mut self, plan: LogicalPlan) -> Result<Expr> {
        let plan = match existence(plan)? {
            Existence::Known(exists) => return Ok(lit(exists)),
            Existence::Rows(plan) => plan,
        };
        if let Some(row) = self.of_single_row(&plan)? {
            return Ok(row.has_row.map_or(lit(true), |condition| condition.is_true()));
        }
        let partner = first_row(self.partner(plan, false)?);
        let conditions = partner.conditions();
        self.mark(partner.plan, conditions)
    }

    /// Returns the value of `expr op ANY (plan)`.
    ///
    /// # Errors
    /// The subquery cannot be joined.
    pub(super) fn quantified(&mut self, expr: Expr, op: Operator, plan: LogicalPlan) -> Result<Expr> {
        let (compared, plan) = split_rows(expr, plan, self.names)?;
        if let [value] = compared.as_slice()
            && let Some(row) = self.of_single_row(&plan)?
        {
            let equal = self.comparison(value.clone(), op, row.value)?;
            return match row.has_row {
                Some(condition) => when(condition, equal).otherwise(lit(false)),
                None => Ok(equal),
            };
        }
        match (op, compared.len()) {
            (Operator::Eq, 1) => self.in_values(compared, plan),
            (Operator::Eq, _) => self.in_rows(compared, plan),
            (_, 1) => match compared.into_iter().next() {
                Some(value) => self.ordered(value, op, plan),
                None => Ok(lit(false)),
            },
            _ => Err(unsupported(
                &format!("{op} ANY or ALL of rows of several columns"),
                "compare them with EXISTS (SELECT … WHERE …)",
            )),
        }
    }

    fn in_values(&mut self, compared: Vec<Expr>, plan: LogicalPlan) -> Result<Expr> {
        let unknown = self.may_be_unknown(&compared, &plan)?;
        let partner = self.partner(plan, unknown)?;
        let conditions = self.matching(&partner, &compared)?;
        if !unknown {
            return self.mark(partner.plan, conditions);
        }
        let (rows, values) = self.join_counts(&partner)?;
        let found = self.mark(partner.plan, conditions)?;
        let value = compared.into_iter().next().unwrap_or(lit(ScalarValue::Null));
        let nothing = rows.clone().is_null().or(rows.clone().eq(lit(0_i64)));
        when(found, lit(true))
            .when(nothing, lit(false))
            .when(
                value.is_null().or(values.lt(rows)),
                lit(ScalarValue::Boolean(None)),
            )
            .otherwise(lit(false))
    }

    /// Returns the value of `(a, b) IN (plan)`: unknown if no row is equal, but one is in all columns in
    /// which neither is NULL.
    fn in_rows(&mut self, compared: Vec<Expr>, plan: LogicalPlan) -> Result<Expr> {
        let unknown = self.may_be_unknown(&compared, &plan)?;
        let partner = self.partner(plan, false)?;
        let conditions = self.matching(&partner, &compared)?;
        let found = self.mark(partner.plan.clone(), conditions)?;
        if !unknown {
            return Ok(found);
        }
        let mut conditions = partner.conditions();
        for (value, column) in compared.into_iter().zip(partner.outputs.clone()) {
            let column = Expr::Column(column);
            let equal = binary_expr(value.clone(), Operator::Eq, column.clone());
            conditions.push(equal.or(value.is_null()).or(column.is_null()));
        }
        let (again, conditions) = self.copied(partner.plan, conditions)?;
        let maybe = self.mark(again, conditions)?;
        when(found, lit(true))
            .when(maybe, lit(ScalarValue::Boolean(None)))
            .otherwise(lit(false))
    }

    /// Returns the value of `value op ANY (plan)` for an operator that the least or the greatest value of the
    /// plan decides.
    fn ordered(&mut self, value: Expr, op: Operator, plan: LogicalPlan) -> Result<Expr> {
        use Operator as O;
        if !matches!(op, O::NotEq | O::Lt | O::LtEq | O::Gt | O::GtEq) {
            return Err(unsupported(
                &format!("{op} ANY or ALL (SELECT …)"),
                "compare with EXISTS (SELECT … WHERE …)",
            ));
        }
        let partner = self.partner(plan, true)?;
        let Some(column) = partner.outputs.first().cloned().map(Expr::Column) else {
            return Ok(lit(false));
        };
        let data_type = column.get_type(partner.plan.schema())?;
        let aggregates = vec![
            count_udaf().call(vec![lit(1_i64)]),
            count_udaf().call(vec![column.clone()]),
            semantics::least(&data_type).call(vec![column.clone()]),
            semantics::greatest(&data_type).call(vec![column]),
        ];
        let mut columns = self
            .join_aggregates(&partner, aggregates)?
            .into_iter()
            .map(Expr::Column);
        let mut next = || columns.next().unwrap_or(lit(ScalarValue::Null));
        let (rows, values, least, greatest) = (next(), next(), next(), next());
        let found = match op {
            O::Lt | O::LtEq => self.comparison(value.clone(), op, greatest)?,
            O::Gt | O::GtEq => self.comparison(value.clone(), op, least)?,
            _ => {
                let differs = self.comparison(value.clone(), op, least)?;
                differs.or(self.comparison(value.clone(), op, greatest)?)
            }
        };
        let nothing = rows.clone().is_null().or(rows.clone().eq(lit(0_i64)));
        when(nothing, lit(false))
            .when(found, lit(true))
            .when(
                value.is_null().or(values.lt(rows)),
                lit(ScalarValue::Boolean(None)),
            )
            .otherwise(lit(false))
    }

    /// Joins the number of rows that belong to each row, and of those that are not NULL.
    fn join_counts(&mut self, partner: &Partner) -> Result<(Expr, Expr)> {
        let column = partner.outputs.first().cloned().map_or(lit(1_i64), Expr::Column);
        let aggregates = vec![
            count_udaf().call(vec![lit(1_i64)]),
            count_udaf().call(vec![column]),
        ];
        let mut columns = self
            .join_aggregates(partner, aggregates)?
            .into_iter()
            .map(Expr::Column);
        let mut next = || columns.next().unwrap_or(lit(ScalarValue::Null));
        Ok((next(), next()))
    }

    /// Joins aggregates of the rows that belong to each row, and returns their columns.
    fn join_aggregates(&mut self, partner: &Partner, aggregates: Vec<Expr>) -> Result<Vec<Column>> {
        let aggregated = partner.aggregated(aggregates, self)?;
        let pairs = partner.pairs.iter().zip(aggregated.keys);
        let pairs = pairs.map(|(pair, column)| (pair.outer.clone(), column, pair.strict));
        self.join_groups(aggregated.plan, pairs.collect())?;
        Ok(aggregated.values)
    }

    /// Adds a column that says if a row has a partner.
    fn mark(&mut self, partner: LogicalPlan, conditions: Vec<Expr>) -> Result<Expr> {
        let outer = self.take_plan();
        self.plan = joined(outer, partner, JoinType::LeftMark, conditions)?;
        let mark = self.plan.schema().columns().pop();
        mark.map(Expr::Column)
            .ok_or_else(|| unsupported("a subquery of this form", "write it as a join"))
    }

    /// Returns a plan with other names of its columns, and the conditions with them.
    fn copied(&mut self, plan: LogicalPlan, conditions: Vec<Expr>) -> Result<(LogicalPlan, Vec<Expr>)> {
        let before = plan.schema().columns();
        let alias = SubqueryAlias::try_new(Arc::new(plan), self.names.relation())?;
        let by = before.into_iter().zip(alias.schema.columns());
        let by = by
            .map(|(before, column)| (before, Expr::Column(column)))
            .collect();
        let conditions = conditions.into_iter().map(|condition| substitute(condition, &by));
        let conditions = conditions.collect::<Result<_>>()?;
        Ok((LogicalPlan::SubqueryAlias(alias), conditions))
    }

    /// Returns the conditions under which a row of the subquery belongs to a row of the outer plan and equals
    /// the values.
    fn matching(&self, partner: &Partner, compared: &[Expr]) -> Result<Vec<Expr>> {
        let mut conditions = partner.conditions();
        for (value, column) in compared.iter().zip(partner.outputs.clone()) {
            conditions.push(binary_expr(value.clone(), Operator::Eq, Expr::Column(column)));
        }
        Ok(conditions)
    }

    /// Returns true if a comparison may be neither true nor false.
    fn may_be_unknown(&self, compared: &[Expr], plan: &LogicalPlan) -> Result<bool> {
        for value in compared {
            if value.nullable(self.plan.schema())? {
                return Ok(true);
            }
        }
        Ok(plan.schema().fields().iter().any(|field| field.is_nullable()))
    }

    /// Returns a comparison of values of the same type.
    fn comparison(&self, left: Expr, op: Operator, right: Expr) -> Result<Expr> {
        let binary = BinaryExpr::new(Box::new(left), op, Box::new(right));
        Ok(
            if binary
                .left
                .get_type(self.plan.schema())
                .is_ok_and(|found| found.is_floating())
            {
                float_comparison(binary)
            } else {
                Expr::BinaryExpr(binary)
            },
        )
    }
}

/// Leaves one row of a subquery of which only matters if it has any.
fn first_row(partner: Partner) -> Partner {
    if !partner.pairs.is_empty() || !partner.residual.is_empty() {
        return partner;
    }
    let limit = Limit {
        skip: None,
        fetch: Some(Box::new(lit(1_i64))),
        input: Arc::new(partner.plan),
    };
    Partner {
        plan: LogicalPlan::Limit(limit),
        ..partner
    }
}

/// Takes off NOT.
fn without_not(expr: Expr) -> (bool, Expr) {
    match expr {
        Expr::Not(inner) => {
            let (negated, inner) = without_not(*inner);
            (!negated, inner)
        }
        other => (false, other),
    }
}

/// Takes off a subquery what does not change if it has rows.
fn existence(plan: LogicalPlan) -> Result<Existence> {
    Ok(match plan {
        LogicalPlan::Projection(projection) => existence(Arc::unwrap_or_clone(projection.input))?,
        LogicalPlan::SubqueryAlias(alias) => existence(Arc::unwrap_or_clone(alias.input))?,
        LogicalPlan::Window(window) => existence(Arc::unwrap_or_clone(window.input))?,
        LogicalPlan::Distinct(Distinct::All(input)) => existence(Arc::unwrap_or_clone(input))?,
        LogicalPlan::Distinct(Distinct::On(distinct)) => existence(Arc::unwrap_or_clone(distinct.input))?,
        LogicalPlan::Sort(sort) => match sort.fetch {
            Some(0) => Existence::Known(false),
            _ => existence(Arc::unwrap_or_clone(sort.input))?,
        },
        LogicalPlan::Limit(limit) => match literal_limits(&limit) {
            Ok((_, Some(0))) => Existence::Known(false),
            Ok((0, _)) => existence(Arc::unwrap_or_clone(limit.input))?,
            _ => Existence::Rows(LogicalPlan::Limit(limit)),
        },
        LogicalPlan::Aggregate(aggregate) => match aggregate.group_expr.as_slice() {
            [] => Existence::Known(true),
            [Expr::GroupingSet(_)] => Existence::Rows(LogicalPlan::Aggregate(aggregate)),
            _ => existence(Arc::unwrap_or_clone(aggregate.input))?,
        },
        LogicalPlan::EmptyRelation(empty) => Existence::Known(empty.produce_one_row),
        other => Existence::Rows(other),
    })
}
