//! Which answers to a damaged pool are right.
//!
//! A right answer always is. An error is right if it names the file or what is damaged, and if what was asked
//! needs damaged bytes: damage to one object does not affect another one. What `check` calls intact gives no
//! errors.

use std::collections::BTreeSet;

use crate::damage::{Damaged, Owner};
use crate::image::is_slab;
use crate::items::ITEMS;
use crate::keyed::is_keyed;

/// The index of each table.
const INDEXES: [(&str, &str); 3] = [("by_k", "orders"), ("by_region", "orders"), ("by_day", "events")];

/// The objects that errors may name: the file or an object in it.
const NAMES: [&str; 15] = [
    "attacked-",
    "orders",
    "events",
    "texts",
    "small",
    "by_k",
    "by_region",
    "by_day",
    "tree/",
    "the log",
    "accounts",
    "visits",
    "the stores",
    "store '",
    "memcached",
];

/// The things that problems of `check` may name.
const PROBLEMS: [&str; 9] = [
    "table",
    "index",
    "log",
    "tree",
    "generation",
    "attacked-",
    "store",
    "checkpoint",
    "memcached",
];

/// The judgement of one case.
#[derive(Debug)]
pub(crate) struct Verdict {
    owners: BTreeSet<Owner>,
    /// The file is as someone made it: objects may be what they say, and the file may be refused.
    pub(crate) hostile: bool,
    /// Errors that were given and may be, before `check`.
    refused: Vec<String>,
    pub(crate) faults: Vec<String>,
}

impl Verdict {
    pub(crate) fn new(damaged: &Damaged, hostile: bool) -> Self {
        Self {
            owners: damaged.owners.clone(),
            hostile,
            refused: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Nothing but objects is damaged: the pool must open.
    pub(crate) fn only_objects(&self) -> bool {
        self.owners.iter().all(|owner| match owner {
            Owner::Object(_) | Owner::Redundant(_) => true,
            // There are three more copies, two of them of this generation or the one before.
            Owner::Superblock(_) => !self.may_be_older(),
            Owner::File | Owner::Directory => false,
        })
    }

    /// The newest superblock may be gone with all its copies.
    pub(crate) fn may_be_older(&self) -> bool {
        let copies = self
            .owners
            .iter()
            .filter(|owner| matches!(owner, Owner::Superblock(_)));
        copies.count() > 1
    }

    /// An object is damaged.
    pub(crate) fn owns(&self, object: &str) -> bool {
        let owners = [
            Owner::Object(object.to_owned()),
            Owner::Redundant(object.to_owned()),
        ];
        owners.iter().any(|owner| self.owners.contains(owner))
    }

    /// The stores are damaged, in which tables with a primary key are.
    pub(crate) fn owns_stores(&self) -> bool {
        self.owns("stores") || self.owns("stores/decided")
    }

    /// An object with items of a memcached server is damaged.
    pub(crate) fn owns_items(&self) -> bool {
        self.owners.iter().any(|owner| match owner {
            Owner::Object(name) | Owner::Redundant(name) => name.starts_with(ITEMS),
            Owner::File | Owner::Superblock(_) | Owner::Directory => false,
        })
    }

    /// A table or an index of it is damaged, or what all of them need.
    pub(crate) fn concerns(&self, table: &str) -> bool {
        self.may_fail(table, true)
    }

    /// A question to a table may get an error.
    pub(crate) fn may_fail(&self, table: &str, by_index: bool) -> bool {
        !self.only_objects() || self.involves(table, by_index)
    }

    /// The table, an index of it that is used, or its rows in the log are not as they were.
    pub(crate) fn involves(&self, table: &str, by_index: bool) -> bool {
        let mut indexes = INDEXES.iter().filter(|(_, on)| by_index && *on == table);
        self.owns("log")
            || is_keyed(table) && self.owns_stores()
            || self.owns(&format!("table/{table}"))
            || indexes.any(|(index, _)| self.owns(&format!("index/{index}")))
    }

    /// Something gave an error.
    pub(crate) fn refused(&mut self, what: &str, may_be: bool, error: &str) {
        if !may_be && !self.hostile {
            self.fault("isolation", &format!("{what}: {error}"));
        }
        if !NAMES.iter().any(|name| error.contains(name)) {
            self.fault("nameless", &format!("{what}: {error}"));
        }
        self.refused.push(format!("{what}: {error}"));
    }

    /// Something gave an answer that is not right. `own`: it is what a hostile object says.
    pub(crate) fn wrong(&mut self, what: &str, text: &str, own: bool) {
        if self.hostile && own {
            return;
        }
        self.fault("wrong", &format!("{what}: {text}"));
    }

    /// Judges the problems that `check` found, after questions that only read.
    pub(crate) fn checked(&mut self, problems: &[String]) {
        self.named(problems);
        if !problems.is_empty() || self.hostile {
            return;
        }
        let object = |owner: &&Owner| matches!(owner, Owner::Object(name) if !is_slab(name));
        if let Some(owner) = self.owners.iter().find(object).cloned() {
            self.fault("undetected", &format!("{owner:?}"));
        }
        if let Some(error) = self.refused.first().cloned() {
            self.fault("unreported", &format!("check finds nothing, but {error}"));
        }
    }

    /// Problems that `check` lists name something.
    pub(crate) fn named(&mut self, problems: &[String]) {
        for problem in problems {
            if !PROBLEMS.iter().any(|word| problem.contains(word)) {
                self.fault("nameless", &format!("check: {problem}"));
            }
        }
    }

    pub(crate) fn fault(&mut self, class: &str, text: &str) {
        self.faults.push(format!("{class}: {text}"));
    }
}

/// A verdict on damage to these.
fn on(owners: &[Owner], hostile: bool) -> Verdict {
    let damaged = Damaged {
        bytes: Vec::new(),
        len: None,
        owners: owners.iter().cloned().collect(),
        story: String::new(),
    };
    Verdict::new(&damaged, hostile)
}

/// The classes of faults so far.
fn classes(verdict: &Verdict) -> Vec<&str> {
    let faults = verdict.faults.iter();
    faults.filter_map(|fault| fault.split(':').next()).collect()
}

#[test]
fn errors_are_accepted_where_they_may_be() {
    let table = Owner::Object("table/orders".to_owned());
    let mut verdict = on(&[table], false);
    let may_fail = verdict.may_fail("orders", false);
    verdict.refused("select", may_fail, "extent 1 of 'table/orders' is damaged");
    verdict.checked(&["extent 1 of 'table/orders' does not match".to_owned()]);
    assert!(verdict.only_objects() && verdict.faults.is_empty(), "{verdict:?}");
}

#[test]
fn what_must_not_be_is_noticed() {
    let table = Owner::Object("table/orders".to_owned());
    let mut verdict = on(std::slice::from_ref(&table), false);
    verdict.wrong("select", "1 instead of 2", true);
    let may_fail = verdict.may_fail("small", false);
    verdict.refused("select", may_fail, "'table/orders' is damaged");
    verdict.refused("select", true, "something is damaged");
    verdict.checked(&[]);
    let expected = ["wrong", "isolation", "nameless", "undetected", "unreported"];
    assert_eq!(classes(&verdict), expected);
    // What a hostile object says of itself is its own matter; what is said of others is not.
    let mut verdict = on(&[table], true);
    verdict.wrong("select", "1 instead of 2", true);
    assert!(verdict.faults.is_empty(), "{verdict:?}");
    verdict.wrong("select", "1 instead of 2", false);
    assert_eq!(classes(&verdict), ["wrong"]);
}

#[test]
fn damage_reaches_as_far_as_it_goes() {
    let index = on(&[Owner::Object("index/by_k".to_owned())], false);
    assert!(index.may_fail("orders", true) && !index.may_fail("orders", false));
    assert!(!index.may_fail("events", true));
    let log = on(&[Owner::Object("log".to_owned())], false);
    assert!(log.may_fail("small", false) && log.only_objects());
    let stores = on(&[Owner::Object("stores".to_owned())], false);
    assert!(stores.may_fail("visits", false) && !stores.may_fail("small", true));
    assert!(stores.owns_stores() && !stores.owns_items() && stores.only_objects());
    let items = on(&[Owner::Object("memcached/tree/numbers".to_owned())], false);
    assert!(items.owns_items() && !items.may_fail("visits", true));
    let directory = on(&[Owner::Directory], false);
    assert!(directory.may_fail("small", false) && !directory.only_objects());
    let copy = on(&[Owner::Superblock(0)], false);
    assert!(copy.only_objects() && !copy.may_be_older());
    let copies = on(&[Owner::Superblock(0), Owner::Superblock(1)], false);
    assert!(copies.may_be_older() && !copies.only_objects());
}
