//! The search beside all orders there are, and the plans that are built.

use std::collections::HashMap;

use arrow_schema::{DataType, Field, Schema};
use datafusion::common::JoinType;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::builder::table_scan;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::{OptimizerContext, OptimizerRule};
use datafusion::prelude::{col, lit};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::graph::{JoinGraph, JoinTree};
use super::{emit, enumerate};

/// Returns a scan of table `name` with columns `k` and `v`.
fn scan(name: &str) -> LogicalPlanBuilder {
    let fields = ["k", "v"].map(|name| Field::new(name, DataType::Int64, true));
    let scan = table_scan(Some(name), &Schema::new(fields.to_vec()), None);
    scan.expect("a scan")
}

fn build(plan: LogicalPlanBuilder) -> LogicalPlan {
    plan.build().expect("a plan")
}

/// Returns a random tree of joins over `tables` tables; some of them are semi, anti and left joins.
fn random_plan(rng: &mut StdRng, tables: usize) -> LogicalPlan {
    let mut plan = scan("t0");
    let mut seen = vec![0];
    for at in 1..tables {
        let other = seen[rng.random_range(0..seen.len())];
        let column = |rng: &mut StdRng| if rng.random_range(0..2) == 0 { "k" } else { "v" };
        let on = col(format!("t{other}.{}", column(rng))).eq(col(format!("t{at}.{}", column(rng))));
        let another = seen[rng.random_range(0..seen.len())];
        let more = match rng.random_range(0..4) {
            0 => vec![on, col(format!("t{another}.k")).eq(col(format!("t{at}.k")))],
            1 => vec![on, col(format!("t{another}.v")).lt(col(format!("t{at}.v")))],
            _ => vec![on],
        };
        let join_type = match rng.random_range(0..6) {
            0 => JoinType::LeftSemi,
            1 => JoinType::LeftAnti,
            // The order of outer joins alone stays.
            2 if at > 1 => JoinType::Left,
            _ => JoinType::Inner,
        };
        let right = build(scan(&format!("t{at}")));
        // The builder splits equalities from other conditions.
        plan = plan.join_on(right, join_type, more).expect("a join");
        if join_type == JoinType::Inner {
            seen.push(at);
        }
    }
    let plan = build(plan);
    let rewritten =
        plan.transform_up(|plan| ExtractEquijoinPredicate::new().rewrite(plan, &OptimizerContext::new()));
    rewritten.expect("a plan").data
}

/// Returns all join orders of a part of the graph without cross products, with the smaller side as the build
/// side.
fn all_orders(graph: &JoinGraph, part: u64, rows: &dyn Fn(u64) -> f64) -> Vec<JoinTree> {
    if part.is_power_of_two() {
        return vec![JoinTree::Relation(part.trailing_zeros() as usize)];
    }
    let semi = |part: u64| {
        if part.is_power_of_two() {
            graph.relations[part.trailing_zeros() as usize].attached.as_ref()
        } else {
            None
        }
    };
    let connected = |a: u64, b: u64| {
        graph.classes.iter().any(|class| {
            let has = |part: u64| class.members.iter().any(|member| part & 1 << member.leaf != 0);
            has(a) && has(b)
        })
    };
    let mut orders = Vec::new();
    let mut half = (part - 1) & part;
    while half != 0 {
        let rest = part & !half;
        let allowed = match (semi(half), semi(rest)) {
            (None, Some(semi)) => semi.outer & !half == 0,
            (Some(semi), None) => semi.outer & !rest == 0,
            (None, None) => connected(half, rest),
            (Some(_), Some(_)) => false,
        };
        if allowed && rows(half) <= rows(rest) {
            for a in all_orders(graph, half, rows) {
                for b in all_orders(graph, rest, rows) {
                    orders.push(JoinTree::join(a.clone(), b));
                }
            }
        }
        half = (half - 1) & part;
    }
    orders
}

#[expect(clippy::print_stdout, reason = "the seed repeats a failure")]
#[test]
fn no_order_is_cheaper_than_the_best_one() {
    let seed = std::env::var("HALOCLINE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("HALOCLINE_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..60 {
        let tables = rng.random_range(2..=5);
        let plan = random_plan(&mut rng, tables);
        let graph = JoinGraph::from_plan(&plan).expect("a graph");
        assert_eq!(graph.relations.len(), tables);
        // Any number of rows for each set of relations: the search assumes nothing of them.
        let of_set: HashMap<u64, f64> = (1..=graph.all())
            .map(|set| (set, rng.random_range(1.0..1000.0f64).round()))
            .collect();
        let rows = |set: u64| of_set[&set];
        let best = enumerate::best_order(&graph, &rows).expect("an order");
        assert_eq!(best.tree.relations(), graph.all());
        assert!((enumerate::cost(&best.tree, &rows) - best.cost).abs() < 1e-6);
        let all = all_orders(&graph, graph.all(), &rows);
        let cheapest = all
            .iter()
            .map(|order| enumerate::cost(order, &rows))
            .fold(f64::INFINITY, f64::min);
        assert!(
            (best.cost - cheapest).abs() < 1e-6,
            "{} instead of {cheapest}: {:?}\n{}",
            best.cost,
            best.tree,
            plan.display_indent()
        );
    }
}

/// Every order gives a plan with the columns of the query, which is read as a graph with the same parts.
#[test]
fn plans_of_all_orders_are_graphs_with_the_same_parts() {
    let mut rng = StdRng::seed_from_u64(7);
    for _ in 0..20 {
        let tables = rng.random_range(2..=4);
        let plan = random_plan(&mut rng, tables);
        let graph = JoinGraph::from_plan(&plan).expect("a graph");
        let rows = |_: u64| 1.0;
        for order in all_orders(&graph, graph.all(), &rows) {
            let joined = emit::plan(&graph, &order).expect("a plan");
            assert_eq!(joined.schema().columns(), plan.schema().columns());
            let topmost = match &joined {
                LogicalPlan::Projection(projection) => projection.input.as_ref(),
                other => other,
            };
            let again = JoinGraph::from_plan(topmost).expect("a graph");
            let names = |graph: &JoinGraph| {
                let relations = graph.relations.iter();
                let mut names: Vec<(String, bool)> = relations
                    .map(|relation| {
                        (
                            relation.plan.schema().columns()[0].to_string(),
                            relation.attached.is_some(),
                        )
                    })
                    .collect();
                names.sort();
                names
            };
            assert_eq!(names(&again), names(&graph), "{}", joined.display_indent());
            assert_eq!(
                again.conditions.len(),
                graph.conditions.len(),
                "{}",
                joined.display_indent()
            );
        }
    }
}

#[test]
fn joins_that_cannot_move_are_relations() {
    let outer = scan("a")
        .join_on(build(scan("b")), JoinType::Left, [col("a.k").eq(col("b.k"))])
        .expect("a join");
    let plan = outer
        .join(
            build(scan("c")),
            JoinType::Inner,
            (vec!["b.v"], vec!["c.v"]),
            None,
        )
        .expect("a join");
    let plan = build(plan);
    // The key of the inner join is on the side that may be missing.
    let graph = JoinGraph::from_plan(&plan).expect("a graph");
    assert_eq!(graph.relations.len(), 2);
    assert!(JoinGraph::from_plan(&graph.relations[0].plan).is_none());
    // An expression with another value in each row that it is evaluated for.
    let random = Expr::ScalarFunction(datafusion::logical_expr::expr::ScalarFunction::new_udf(
        datafusion::functions::math::random(),
        vec![],
    ));
    let volatile = scan("a")
        .join(
            build(scan("b")),
            JoinType::Inner,
            (vec!["a.k"], vec!["b.k"]),
            Some(col("a.v").gt(random)),
        )
        .expect("a join");
    assert!(JoinGraph::from_plan(&build(volatile)).is_none());
    assert!(
        JoinGraph::from_plan(&build(scan("a").filter(col("a.k").gt(lit(1))).expect("a filter"))).is_none()
    );
}

/// Projections that leave columns out, and conditions between the joins, do not end a graph.
#[test]
fn graphs_reach_through_projections_and_filters() {
    let below = scan("a")
        .join(
            build(scan("b")),
            JoinType::Inner,
            (vec!["a.k"], vec!["b.k"]),
            None,
        )
        .and_then(|plan| plan.filter(col("a.v").lt(col("b.v")).and(col("a.v").gt(lit(3)))))
        .and_then(|plan| plan.project([col("a.k"), col("b.v")]))
        .and_then(|plan| {
            plan.join(
                build(scan("c")),
                JoinType::Inner,
                (vec!["b.v"], vec!["c.v"]),
                None,
            )
        })
        .expect("joins");
    let plan = build(below);
    let graph = JoinGraph::from_plan(&plan).expect("a graph");
    assert_eq!(graph.relations.len(), 3);
    assert_eq!(graph.classes.len(), 2);
    let mut leaves: Vec<u64> = graph
        .conditions
        .iter()
        .map(|condition| condition.leaves)
        .collect();
    leaves.sort_unstable();
    assert_eq!(leaves, [0b1, 0b11]);
    let joined = emit::plan(&graph, &graph.order).expect("a plan");
    assert_eq!(joined.schema().columns(), plan.schema().columns());
}
