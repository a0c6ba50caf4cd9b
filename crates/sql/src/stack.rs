//! Stack space for statements that nest deeply.
//!
//! Parsing, planning, evaluating and dropping an expression of n levels takes n frames of a stack, and a
//! thread of tokio has 2 MiB. Statements whose text is long enough to nest deeply are therefore parsed and
//! planned on a larger stack, whose size follows from the length of the text, and plans that are deep run on
//! threads with stacks of [`MAX_STACK_BYTES`]. Only the pages that are touched take memory, but all of it
//! counts against the process's limits (`ulimit -d`, `ulimit -v`), so that short statements must not ask for
//! the largest. How deep a statement may nest at all is bounded by `nesting`: a larger stack alone would only
//! move the overflow.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread;

use arrow_schema::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use tokio::runtime::{Builder, Runtime};

use crate::EngineError;
use crate::error::external;

/// Bytes of the largest stack.
const MAX_STACK_BYTES: usize = 256 << 20;
/// Bytes of the smallest stack that is worth changing to.
const MIN_STACK_BYTES: usize = 8 << 20;
/// Bytes of stack that one level of a statement takes at most, in a debug build. A level takes at least a
/// byte of text.
const PER_LEVEL: usize = 128 << 10;
/// Bytes of a text that cannot nest deeply enough to need more than any thread's stack.
const SHORT_TEXT: usize = 256;
/// Levels of a plan and its expressions that any thread's stack has room for.
const SHALLOW_LEVELS: usize = 64;
/// Levels that a large stack has room for.
const MAX_LEVELS: usize = 20_000;

/// The size of the stack that a statement is parsed, planned and dropped on.
#[derive(Debug, Clone, Copy)]
pub struct StackSize(usize);

impl StackSize {
    /// Returns a size that is enough for any statement of this text, however it nests within the limits of
    /// `nesting`.
    pub fn for_text(text: &str) -> Self {
        Self::for_len(text.len())
    }

    /// Returns a size that is enough for any statement of this length in bytes, which includes the texts of
    /// the views that it reads.
    pub fn for_len(len: usize) -> Self {
        match len {
            short if short <= SHORT_TEXT => Self(0),
            len => Self(
                len.saturating_mul(PER_LEVEL)
                    .clamp(MIN_STACK_BYTES, MAX_STACK_BYTES),
            ),
        }
    }

    /// Returns the larger one of two sizes.
    pub fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }

    /// Calls `work` on a stack of this size, or on the thread's own if half of that is left there.
    pub fn call<T>(self, work: impl FnOnce() -> T) -> T {
        match self.0 {
            0 => work(),
            bytes => stacker::maybe_grow(bytes / 2, bytes, work),
        }
    }
}

/// A future that is polled and dropped on a large stack.
pub struct OnLargeStack<F> {
    future: Option<Pin<Box<F>>>,
    size: StackSize,
}

impl<F: Future> OnLargeStack<F> {
    /// Wraps a future, which is polled on a stack of this size.
    pub fn new(size: StackSize, future: F) -> Self {
        Self {
            future: Some(Box::pin(future)),
            size,
        }
    }
}

impl<F: Future> Future for OnLargeStack<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let size = self.size;
        let future = self.future.as_mut().expect("it is there until this is dropped");
        size.call(|| future.as_mut().poll(context))
    }
}

impl<F> Drop for OnLargeStack<F> {
    fn drop(&mut self) {
        let future = self.future.take();
        self.size.call(|| drop(future));
    }
}

/// Starts a plan: on the caller's threads, or on threads with large stacks if the plan is deep.
///
/// # Errors
/// The plan is too deep for any stack; it cannot be started.
pub fn execute(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream, EngineError> {
    match depth(&plan)? {
        levels if levels <= SHALLOW_LEVELS => Ok(execute_stream(plan, context)?),
        levels if levels <= MAX_LEVELS => on_large_stacks(plan.schema(), || execute_stream(plan, context)),
        _ => Err(EngineError::TooDeep {
            what: "the plan of the query",
            limit: MAX_LEVELS,
            instead: "split the query, or store parts of it with CREATE TABLE … AS",
        }),
    }
}

/// Starts a partition of a part of a plan whose rows another thread takes, on threads as [`execute`] does.
///
/// # Errors
/// It cannot be started.
pub fn execute_partition(
    plan: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    if depth(plan)? <= SHALLOW_LEVELS {
        plan.execute(partition, Arc::clone(context))
    } else {
        let (part, context) = (Arc::clone(plan), Arc::clone(context));
        let start = move || part.execute(partition, context);
        on_large_stacks(plan.schema(), start).map_err(external)
    }
}

fn on_large_stacks(
    schema: SchemaRef,
    start: impl FnOnce() -> Result<SendableRecordBatchStream> + Send + 'static,
) -> Result<SendableRecordBatchStream, EngineError> {
    let mut builder = RecordBatchReceiverStream::builder(schema, 1);
    let sender = builder.tx();
    let run = async move {
        let mut rows = start()?;
        while let Some(batch) = rows.next().await {
            let failed = batch.is_err();
            if sender.send(batch).await.is_err() || failed {
                break;
            }
        }
        Ok(())
    };
    builder.spawn_on(run, runtime()?.handle());
    Ok(builder.build())
}

/// Returns the threads with large stacks; the process has one set of them, started by the first plan that
/// needs them.
fn runtime() -> Result<&'static Runtime, EngineError> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let started = Builder::new_multi_thread()
        .worker_threads(thread::available_parallelism().map_or(1, usize::from))
        .thread_name("halocline-deep")
        .thread_stack_size(MAX_STACK_BYTES)
        .enable_all()
        .build();
    let started = started
        .map_err(|error| EngineError::Query(format!("cannot start threads for a deep plan: {error}")))?;
    // Of two that were started at the same time, one ends again; it runs nothing yet, so that its end does
    // not block.
    if let Err(other) = RUNTIME.set(started) {
        other.shutdown_background();
    }
    Ok(RUNTIME.get().expect("it was set just now"))
}

/// Returns the depth of a plan in levels of nested operators and of the expressions within them.
fn depth(plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
    let mut deepest = 0;
    let mut operators: Vec<(&Arc<dyn ExecutionPlan>, usize)> = vec![(plan, 1)];
    let mut expressions: Vec<(Arc<dyn PhysicalExpr>, usize)> = Vec::new();
    while let Some((operator, level)) = operators.pop() {
        deepest = deepest.max(level);
        operator.apply_expressions(&mut |root| {
            expressions.push((Arc::clone(root), level + 1));
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        })?;
        while let Some((expression, level)) = expressions.pop() {
            deepest = deepest.max(level);
            let children = expression.children();
            expressions.extend(children.into_iter().map(|child| (Arc::clone(child), level + 1)));
        }
        operators.extend(operator.children().into_iter().map(|child| (child, level + 1)));
    }
    Ok(deepest)
}
