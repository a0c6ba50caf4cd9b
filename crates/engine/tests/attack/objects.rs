//! Objects beside tables that a case reads and changes: trees, stores, and items of a memcached server.

use halocline_ordered::TreeKind;
use halocline_pool::{Pool, PoolOptions};

use crate::case::Case;
use crate::{items, stores, trees};

/// A case reads what is damaged, and one in this many of the others.
const OTHERS: u64 = 6;

impl Case<'_> {
    /// Visits damaged trees and one more.
    pub(crate) fn look_at_trees(&mut self) {
        let damaged = TreeKind::ALL
            .iter()
            .filter(|kind| self.verdict.owns(&trees::name(**kind)));
        let mut kinds: Vec<_> = damaged.copied().collect();
        // No tree twice, as what is looked at is also changed.
        let other = TreeKind::ALL[self.rng.below(TreeKind::ALL.len() as u64) as usize];
        if !kinds.contains(&other) {
            kinds.push(other);
        }
        let write = self.rng.below(2) == 0;
        let options = PoolOptions::default().with_read_only(!write);
        let pool = match Pool::open(&self.path, &options) {
            Ok(pool) => pool,
            Err(error) => {
                let may_fail = !self.verdict.only_objects();
                return self.verdict.refused("opening", may_fail, &error.to_string());
            }
        };
        for kind in kinds {
            let name = trees::name(kind);
            let seen = trees::visit(&pool, kind, write, &mut self.rng);
            let may_fail = !self.verdict.only_objects() || self.verdict.owns(&name);
            for error in &seen.errors {
                self.verdict.refused(&name, may_fail, &error.to_string());
            }
            for wrong in &seen.wrong {
                let own = self.verdict.owns(&name);
                self.verdict.wrong(&name, wrong, own);
            }
            if seen.clean && !seen.errors.is_empty() && !self.verdict.hostile {
                self.verdict
                    .fault("unreported", &format!("{name}: clean, but {:?}", seen.errors[0]));
            }
        }
    }

    /// Visits the stores if they are damaged, and now and then otherwise.
    pub(crate) fn look_at_stores(&mut self) {
        let own = self.verdict.owns_stores();
        if !own && self.rng.below(OTHERS) != 0 {
            return;
        }
        let write = self.rng.below(2) == 0;
        let seen = stores::visit(&self.path, write, &mut self.rng);
        let may_fail = own || !self.verdict.only_objects();
        for error in &seen.errors {
            self.verdict.refused("stores", may_fail, &error.to_string());
        }
        for wrong in &seen.wrong {
            self.verdict.wrong("stores", wrong, own);
        }
        self.verdict.named(&seen.problems);
        if !seen.problems.is_empty() {
            let problems = seen.problems.join("; ");
            self.verdict.refused(
                "check of the stores",
                may_fail,
                &format!("the stores: {problems}"),
            );
        }
        if seen.unreported && !self.verdict.hostile {
            let text = format!("stores: clean, but {:?}", seen.errors.first());
            self.verdict.fault("unreported", &text);
        }
    }

    /// Visits the items of the server if they are damaged, and now and then otherwise.
    pub(crate) fn look_at_items(&mut self) {
        let own = self.verdict.owns_items();
        if !own && self.rng.below(OTHERS) != 0 {
            return;
        }
        let serve = self.rng.below(2) == 0;
        let seen = items::visit(&self.path, serve, &mut self.rng);
        let may_fail = own || !self.verdict.only_objects();
        for error in &seen.errors {
            self.verdict.refused("items", may_fail, error);
        }
        for wrong in &seen.wrong {
            self.verdict.wrong("items", wrong, own);
        }
    }
}
