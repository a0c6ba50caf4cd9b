//! Selections over `lineitem` in TPC-H: Q6, and the selections of Q1, Q6, Q10, Q14 and Q19 with the
//! default substitution parameters of the specification.

use std::ops::Bound;

use crate::{Conjunction, Literal, Predicate};

/// Returns TPC-H Q6 over `table`, whose result is one row with the revenue.
#[must_use]
pub fn tpch_q6_sql(table: &str) -> String {
    format!(
        "SELECT sum(l_extendedprice * l_discount) AS revenue FROM {table} \
         WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' \
         AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"
    )
}

/// Returns the predicates on `lineitem` of Q1, Q6, Q10, Q14 and Q19.
///
/// Q19 is a disjunction of three conjunctions whose `lineitem` parts differ in the quantity only (1-11,
/// 10-20, 20-30); their union is the range 1-30.
#[must_use]
pub fn tpch_selections() -> Vec<Conjunction> {
    let below = |column, bound| Predicate::range(column, Bound::Unbounded, bound);
    vec![
        Conjunction::new(
            "Q1",
            vec![below("l_shipdate", Bound::Included(Literal::date(1998, 9, 2)))],
        ),
        Conjunction::new(
            "Q6",
            vec![
                Predicate::range(
                    "l_shipdate",
                    Bound::Included(Literal::date(1994, 1, 1)),
                    Bound::Excluded(Literal::date(1995, 1, 1)),
                ),
                Predicate::between("l_discount", Literal::Cents(5), Literal::Cents(7)),
                below("l_quantity", Bound::Excluded(Literal::Cents(2400))),
            ],
        ),
        Conjunction::new("Q10", vec![Predicate::equal("l_returnflag", Literal::text("R"))]),
        Conjunction::new(
            "Q14",
            vec![Predicate::range(
                "l_shipdate",
                Bound::Included(Literal::date(1995, 9, 1)),
                Bound::Excluded(Literal::date(1995, 10, 1)),
            )],
        ),
        Conjunction::new(
            "Q19",
            vec![
                Predicate::one_of("l_shipmode", vec![Literal::text("AIR"), Literal::text("AIR REG")]),
                Predicate::equal("l_shipinstruct", Literal::text("DELIVER IN PERSON")),
                Predicate::between("l_quantity", Literal::Cents(100), Literal::Cents(3000)),
            ],
        ),
    ]
}

/// Returns the columns of `lineitem` used in selections: all but the comment, in schema order.
#[must_use]
pub fn lineitem_selection_columns() -> [&'static str; 15] {
    [
        "l_orderkey",
        "l_partkey",
        "l_suppkey",
        "l_linenumber",
        "l_quantity",
        "l_extendedprice",
        "l_discount",
        "l_tax",
        "l_returnflag",
        "l_linestatus",
        "l_shipdate",
        "l_commitdate",
        "l_receiptdate",
        "l_shipinstruct",
        "l_shipmode",
    ]
}
