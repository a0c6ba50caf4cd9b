//! Whether the extents of a directory can stand side by side: [`Claims`].
//!
//! Invariant of a directory that is accepted: two extents share blocks only if they are the same immutable extent. So what
//! one object's owner writes, to a log or a slab, is never another object's, and the writer counts each block once.

use std::ops::Range;

use crate::directory::ExtentRef;

/// Who claims space.
#[derive(Debug, Clone, Copy)]
enum Owner {
    /// The object of this number.
    Object(usize),
    Directory,
    LimboList,
}

#[derive(Debug)]
struct Claim {
    range: Range<u64>,
    owner: Owner,
    /// What others may name as well; nothing if it changes while it is published.
    shared: Option<ExtentRef>,
}

/// All space that a directory lays claim to.
#[derive(Debug, Default)]
pub(crate) struct Claims(Vec<Claim>);

impl Claims {
    pub(crate) fn add_object(&mut self, number: usize, extents: &[ExtentRef], mutable: bool) {
        for extent in extents.iter().filter(|extent| extent.len > 0) {
            self.0.push(Claim {
                range: extent.space(),
                owner: Owner::Object(number),
                shared: (!mutable).then_some(*extent),
            });
        }
    }

    pub(crate) fn add_directory(&mut self, extent: &ExtentRef) {
        self.0.push(Claim {
            range: extent.space(),
            owner: Owner::Directory,
            shared: None,
        });
    }

    pub(crate) fn add_limbo(&mut self, range: Range<u64>) {
        self.0.push(Claim {
            range,
            owner: Owner::LimboList,
            shared: None,
        });
    }

    /// Finds two claims that cannot both be right. Sorts them; `name` gives the name of an object by its number.
    ///
    /// # Errors
    /// Which two, as a phrase.
    pub(crate) fn check(mut self, name: impl Fn(usize) -> String) -> Result<(), String> {
        self.0
            .sort_unstable_by_key(|claim| (claim.range.start, claim.range.end));
        let mut before: Option<&Claim> = None;
        for claim in &self.0 {
            if let Some(before) = before
                && claim.range.start < before.range.end
                && (claim.shared.is_none() || claim.shared != before.shared)
            {
                let text = |owner| match owner {
                    Owner::Object(number) => format!("an extent of '{}'", name(number)),
                    Owner::Directory => "the directory itself".to_owned(),
                    Owner::LimboList => "an entry of the limbo list".to_owned(),
                };
                return Err(format!(
                    "{} and {} overlap at {}",
                    text(before.owner),
                    text(claim.owner),
                    claim.range.start
                ));
            }
            // Ranges that pass are the same or disjoint, so the last one reaches furthest.
            before = Some(claim);
        }
        Ok(())
    }
}
