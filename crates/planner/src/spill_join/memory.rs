//! The memory of a join, from the memory of all queries.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use halocline_joins::equi::{JoinBudget, MemorySource};

use crate::row_size::must_spill;

/// The part of the memory of queries that a join may take, which leaves some to what reads and what takes its
/// rows: numerator and denominator.
const JOIN_MEMORY_FRACTION: (usize, usize) = (3, 4);

/// Returns the bytes that a join may take at most, of those of all queries.
pub(super) fn most(size: usize) -> usize {
    size / JOIN_MEMORY_FRACTION.1 * JOIN_MEMORY_FRACTION.0
}

/// A reservation in the memory of queries.
struct QueryShare {
    pool: Arc<dyn MemoryPool>,
    reservation: MemoryReservation,
}

/// Returns a budget that takes what the join needs from the memory of queries, and gives it back.
///
/// The sorts of its sides return rows, and the one of the probe side begins, while the join holds its build
/// side. In a query that has run out of memory they get as much as the join each.
pub(super) fn budget(sides: [&Arc<dyn ExecutionPlan>; 2], context: &TaskContext) -> Arc<JoinBudget> {
    let pool = Arc::clone(context.memory_pool());
    let reservation = MemoryConsumer::new("SpillingJoin").register(&pool);
    let shares = if must_spill(context.session_config().options()) {
        1 + sides.into_iter().map(sorts).sum::<usize>()
    } else {
        1
    };
    let limit = match pool.memory_limit() {
        MemoryLimit::Finite(size) => most(size) / shares,
        MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX / 4,
    };
    JoinBudget::from_source(limit, QueryShare { pool, reservation })
}

/// Returns the number of sorts of a plan.
fn sorts(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let below: usize = plan.children().into_iter().map(sorts).sum();
    below + usize::from(plan.is::<SortExec>())
}

impl MemorySource for QueryShare {
    fn try_take(&self, bytes: usize) -> bool {
        self.reservation.try_grow(bytes).is_ok()
    }

    fn force(&self, bytes: usize) {
        self.reservation.grow(bytes);
    }

    fn give_back(&self, bytes: usize) {
        self.reservation.shrink(bytes);
    }

    fn available(&self) -> usize {
        match self.pool.memory_limit() {
            MemoryLimit::Finite(size) => size.saturating_sub(self.pool.reserved()),
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX / 4,
        }
    }
}
