//! Checks that each injected fault is noticed by some crash.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::workload::{Do, Kind, survives};

/// A fault of any of the lists of this crate.
pub(crate) trait InjectedFault: Copy + Debug {
    /// Runs a closure with this fault injected.
    fn inject<T>(self, run: impl FnOnce() -> T) -> T;
}

/// Checks that a crash of the workload reveals the injected fault, and that nothing fails without it.
pub(crate) fn noticed<K: Kind>(fault: impl InjectedFault, setup: &[Do], operations: &[Do]) {
    let work = || survives::<K>(500, 7, setup, operations);
    work().unwrap_or_else(|violation| panic!("{violation}"));
    let result = fault.inject(|| catch_unwind(AssertUnwindSafe(work)));
    assert!(!matches!(result, Ok(Ok(_))), "{fault:?}");
}

macro_rules! injected_faults {
    ($($($module:ident)::+ $fault:ident;)+) => {$(
        impl InjectedFault for crate::$($module)::+::$fault {
            fn inject<T>(self, run: impl FnOnce() -> T) -> T {
                crate::$($module)::+::with(self, run)
            }
        }
    )+};
}

injected_faults! {
    fault LockFault;
    hybrid::fault HybridFault;
    hybrid::checkpoint::fault CheckpointFault;
    lb::fault LbFault;
    fp::fault FpFault;
    persistent::fault PersistentFault;
    fair::fault FastFairFault;
    wb::fault WbFault;
}
