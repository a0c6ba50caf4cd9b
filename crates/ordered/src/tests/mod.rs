//! Tests that need internals: crashes, injected faults, failures and thread schedules.
//!
//! All of them run for a type that implements [`Kind`](workload::Kind) in its own file here and has a
//! line of `tree_tests` below. The file also has the tree's own scenarios and a call of
//! [`noticed`](faults::noticed) for each of its faults. A tree declares its faults in its own module with
//! `halocline_faults::faults!` and has a line of `injected_faults` in [`faults`]. The tests in `tests/` cover
//! every [`TreeKind`](crate::TreeKind).

mod checkpoint;
mod closing;
mod crash;
mod failures;
mod fair;
mod faults;
mod fp;
mod hybrid;
mod images;
mod lb;
pub(crate) mod models;
mod persistent;
mod survival;
mod unclean;
mod wb;
mod workload;

/// Passes the names of all crash scenarios to a macro.
macro_rules! crash_scenarios {
    ($macro:ident!($($args:tt)*)) => {
        $macro! {
            $($args)*
            creation
            inserts_into_a_leaf
            splits
            growth_and_decline
            updates_and_removals
            empty_leaves
            bulk_loads
            long_random_runs
        }
    };
}

macro_rules! names {
    ($($name:ident)+) => { [$(stringify!($name)),+] };
}

macro_rules! crash_tests {
    ($kind:ty: $($test:ident)+) => {$(
        #[test]
        fn $test() {
            images::scenario(SCENARIOS, crash::$test::<$kind>);
        }
    )+};
}

macro_rules! tree_tests {
    ($($tree:ident: $kind:ty;)+) => {
        /// Number of crash scenarios of all trees.
        const SCENARIOS: usize = names!($($tree)+).len() * crash_scenarios!(names!()).len();

        $(mod $tree {
            use super::*;

            crash_scenarios!(crash_tests!($kind:));
            tree_tests!(@ $kind: closing, closing_and_the_first_store_after_it);
            tree_tests!(@ $kind: closing, a_changed_value_is_damage_that_closing_keeps);
            tree_tests!(@ $kind: closing, readers_share_a_tree);
            tree_tests!(@ $kind: closing, readers_of_a_tree_that_was_not_closed);
            tree_tests!(@ $kind: failures, a_full_pool_changes_nothing);
            tree_tests!(@ $kind: models, threads_and_splits);
            tree_tests!(@ $kind: models, threads_and_empty_leaves);
            tree_tests!(@ $kind: models, threads_and_inner_nodes);
            tree_tests!(@ $kind: failures, a_medium_that_fails_takes_no_more_and_can_be_read);
        })+
    };
    (@ $kind:ty: $module:ident, $test:ident) => {
        #[test]
        fn $test() {
            $module::$test::<$kind>();
        }
    };
}

tree_tests! {
    lb1: lb::Lb<1, true>;
    lb1_still: lb::Lb<1, false>;
    lb2: lb::Lb<2, true>;
    lb4: lb::Lb<4, true>;
    fptree: fp::Fp;
    fast_fair: fair::FastFairKind;
    wb_tree: wb::WbKind;
}

macro_rules! hybrid_tests {
    ($($tree:ident: $kind:ty;)+) => {$(
        mod $tree {
            use super::*;

            tree_tests!(@ $kind: hybrid, damaged_leaves_are_named_and_refused);
            tree_tests!(@ $kind: hybrid, broken_links_keep_a_tree_from_opening);
            tree_tests!(@ $kind: checkpoint, opened_used_and_closed);
            tree_tests!(@ $kind: checkpoint, opened_used_and_killed);
            tree_tests!(@ $kind: survival, crashes_of_a_running_tree);
            tree_tests!(@ $kind: models, threads_and_checkpoints);
            tree_tests!(@ $kind: checkpoint, closing_with_a_checkpoint);
            tree_tests!(@ $kind: checkpoint, damage_in_leaves_that_were_not_read);
            tree_tests!(@ $kind: checkpoint, damage_behind_an_empty_anchor);
            tree_tests!(@ $kind: checkpoint, checkpoints_that_are_not_valid);
            tree_tests!(@ $kind: checkpoint, anchors_before_blocks_that_were_not_read);
            tree_tests!(@ $kind: checkpoint, loading_what_was_emptied);
            tree_tests!(@ $kind: checkpoint, an_interrupted_build);
            tree_tests!(@ $kind: models, threads_and_blocks_that_were_not_read);
        }
    )+};
}

hybrid_tests! {
    hybrid_lb1: lb::Lb<1, true>;
    hybrid_lb4: lb::Lb<4, true>;
    hybrid_fp: fp::Fp;
}

macro_rules! persistent_tests {
    ($($tree:ident: $kind:ty;)+) => {$(
        mod $tree {
            use super::*;

            tree_tests!(@ $kind: persistent, changes_of_inner_nodes);
            tree_tests!(@ $kind: persistent, damaged_leaves_are_named_and_refused);
            tree_tests!(@ $kind: persistent, damaged_inner_nodes_are_named_and_refused);
            tree_tests!(@ $kind: persistent, broken_links_are_named_and_refused);
            tree_tests!(@ $kind: persistent, levels_above_the_root_are_not_damage);
            tree_tests!(@ $kind: persistent, leaves_with_wrong_heads_end_in_errors);
            tree_tests!(@ $kind: persistent, a_damaged_root_is_named);
            tree_tests!(@ $kind: persistent, a_count_among_writers);
            tree_tests!(@ $kind: persistent, opening_writes_nothing);
            tree_tests!(@ $kind: unclean, opening_reads_the_root_only);
            tree_tests!(@ $kind: unclean, crashes_of_trees_with_nodes_in_doubt);
            tree_tests!(@ $kind: unclean, space_after_many_kills);
            tree_tests!(@ $kind: unclean, merges_behind_the_walk);
            tree_tests!(@ $kind: models, threads_and_nodes_that_were_not_visited);
        }
    )+};
}

persistent_tests! {
    persistent_fast_fair: fair::FastFairKind;
    persistent_wb: wb::WbKind;
}
