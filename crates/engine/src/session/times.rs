//! The time that the steps of a statement take, for `EXPLAIN ANALYZE`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

/// The use of the plan cache by a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheUse {
    /// It has no plan to be used again: it is no query of tables of the pool, is part of a transaction, or
    /// `halocline.plan_cache` is off.
    Unused,
    /// Its text may be planned for repeated use the next time.
    First,
    /// It was planned for repeated use.
    Planned,
    /// A plan was used again.
    Hit,
}

impl CacheUse {
    fn text(self) -> &'static str {
        match self {
            Self::Unused => "not used",
            Self::First => "first use",
            Self::Planned => "plan added",
            Self::Hit => "hit",
        }
    }
}

/// The times of a statement. A step ends when the next one begins.
#[derive(Debug, Clone)]
pub(crate) struct StatementTimes {
    /// The begin of the step that is running.
    since: Instant,
    parse: Duration,
    plan: Duration,
    optimise: Duration,
    pub(crate) cache: CacheUse,
}

impl StatementTimes {
    /// Returns times that begin with parsing now.
    pub(crate) fn start() -> Self {
        Self {
            since: Instant::now(),
            parse: Duration::ZERO,
            plan: Duration::ZERO,
            optimise: Duration::ZERO,
            cache: CacheUse::Unused,
        }
    }

    /// Ends parsing.
    pub(crate) fn parsed(&mut self) {
        let time = self.lap();
        self.parse += time;
    }

    /// Ends the conversion of the syntax tree, or of a template, to a logical plan.
    pub(crate) fn planned(&mut self) {
        let time = self.lap();
        self.plan += time;
    }

    /// Ends logical optimisation and physical planning.
    pub(crate) fn optimised(&mut self) {
        let time = self.lap();
        self.optimise += time;
    }

    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.since, now))
    }

    /// Adds a row with the times to the output of `EXPLAIN ANALYZE`, whose execution begins now.
    pub(crate) fn add_to(mut self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let schema = rows.schema();
        let of = Arc::clone(&schema);
        let last = futures::stream::once(async move {
            let execute = self.lap();
            let text = format!(
                "parse={:?}, plan={:?}, optimise={:?}, execute={execute:?}, plan_cache=[{}]",
                self.parse,
                self.plan,
                self.optimise,
                self.cache.text()
            );
            let columns = ["Statement Times".to_owned(), text];
            let columns = columns.map(|text| Arc::new(StringArray::from(vec![text])) as ArrayRef);
            Ok(RecordBatch::try_new(of, columns.to_vec())?)
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows.chain(last)))
    }
}
