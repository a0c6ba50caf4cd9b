//! Checks that each rule broken on purpose is noticed by some crash.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::workload::{Do, Kind, survives};

/// A tree's list of mistakes.
pub(crate) trait Rule: Copy + Debug {
    /// Runs a function while this mistake is made.
    fn broken<T>(self, run: impl FnOnce() -> T) -> T;
}

/// Checks that a crash of the workload reveals the mistake, and that there is no failure without it.
pub(crate) fn noticed<K: Kind>(mistake: impl Rule, setup: &[Do], operations: &[Do]) {
    let work = || survives::<K>(500, 7, setup, operations);
    work().unwrap_or_else(|violation| panic!("{violation}"));
    let result = mistake.broken(|| catch_unwind(AssertUnwindSafe(work)));
    assert!(!matches!(result, Ok(Ok(_))), "{mistake:?}");
}

macro_rules! rules {
    ($($($module:ident)::+;)+) => {$(
        impl Rule for crate::$($module)::+::Mistake {
            fn broken<T>(self, run: impl FnOnce() -> T) -> T {
                crate::$($module)::+::with(self, run)
            }
        }
    )+};
}

rules! {
    mistake;
    hybrid::mistake;
    lb::mistake;
    fp::mistake;
    fair::mistake;
    wb::mistake;
}
