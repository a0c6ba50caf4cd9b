//! Runs a join by an algorithm.

use halocline_costs::join::Algorithm;

use super::hash::Level;
use super::input::SideInput;
use super::join::{EquiJoin, JoinContext, RowSink};
use super::nested::nested_loops;
use super::partitioned::{Residency, partitioned, segmented};
use super::plan::EquiPlan;
use super::source::JoinSource;
use crate::JoinResult;

impl EquiJoin {
    /// Joins two inputs, and passes the joined rows to `sink`, from several threads and in no particular
    /// order. See [`schema`](EquiJoin::schema) for their columns.
    ///
    /// Takes O(build rows + probe rows + pairs) time if it fits; [`Algorithm`] says how often the inputs are
    /// read and written otherwise. All memory and spill space is released when it returns, also with an
    /// error.
    ///
    /// # Errors
    /// Those of [`schema`](EquiJoin::schema), of the sources, of the residual and of the sink, as they are;
    /// [`JoinError::Spill`](crate::JoinError::Spill) and others of the spill space;
    /// [`JoinError::JoinMemory`](crate::JoinError::JoinMemory) for [`Algorithm::Hash`];
    /// [`JoinError::ReadOnce`](crate::JoinError::ReadOnce) if the algorithm reads an input again that cannot
    /// be read again; [`JoinError::Interrupted`](crate::JoinError::Interrupted).
    pub fn run(
        &self,
        algorithm: Algorithm,
        build: &dyn JoinSource,
        probe: &dyn JoinSource,
        context: &JoinContext<'_>,
        sink: &RowSink<'_>,
    ) -> JoinResult<()> {
        let plan = EquiPlan::new(self, &build.schema(), &probe.schema(), context, sink)?;
        let inputs = (SideInput::Source(build, None), SideInput::Source(probe, None));
        let by = |residency| partitioned(&plan, inputs.0, inputs.1, Level::TOP, residency);
        match algorithm {
            Algorithm::Hash => by(Residency::Memory),
            Algorithm::Hybrid => by(Residency::Hybrid),
            Algorithm::Grace => by(Residency::Spilled),
            Algorithm::Segmented { parts, spilled } => segmented(&plan, (build, probe), parts, spilled),
            Algorithm::NestedLoops => nested_loops(&plan, inputs.0, inputs.1),
        }
    }
}
