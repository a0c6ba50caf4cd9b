//! Detection of overlapping extents in a directory: [`SpaceClaims`].
//!
//! Invariant of an accepted directory: two extents share blocks only if they are the same immutable extent.
//! So what one object's owner writes, to a log or a slab, is never part of another object, and the writer
//! counts each block once.

use std::ops::Range;

use crate::object::ExtentRef;

/// The owner of claimed space.
#[derive(Debug, Clone, Copy)]
enum ClaimOwner {
    /// The object of this number.
    Object(usize),
    Directory,
    LimboList,
}

#[derive(Debug)]
struct SpaceClaim {
    range: Range<u64>,
    owner: ClaimOwner,
    /// The extent that others may claim as well, or `None` if it is mutable.
    shared: Option<ExtentRef>,
}

/// All space that a directory claims.
#[derive(Debug, Default)]
pub(crate) struct SpaceClaims(Vec<SpaceClaim>);

impl SpaceClaims {
    pub(crate) fn add_object(&mut self, number: usize, extents: &[ExtentRef], mutable: bool) {
        for extent in extents.iter().filter(|extent| extent.len > 0) {
            self.0.push(SpaceClaim {
                range: extent.space(),
                owner: ClaimOwner::Object(number),
                shared: (!mutable).then_some(*extent),
            });
        }
    }

    pub(crate) fn add_directory(&mut self, extent: &ExtentRef) {
        self.0.push(SpaceClaim {
            range: extent.space(),
            owner: ClaimOwner::Directory,
            shared: None,
        });
    }

    pub(crate) fn add_limbo(&mut self, range: Range<u64>) {
        self.0.push(SpaceClaim {
            range,
            owner: ClaimOwner::LimboList,
            shared: None,
        });
    }

    /// Sorts the claims and checks them for conflicts. `name` returns the name of an object by its number.
    ///
    /// # Errors
    /// A description of two conflicting claims.
    pub(crate) fn check(mut self, name: impl Fn(usize) -> String) -> Result<(), String> {
        self.0
            .sort_unstable_by_key(|claim| (claim.range.start, claim.range.end));
        let mut before: Option<&SpaceClaim> = None;
        for claim in &self.0 {
            if let Some(before) = before
                && claim.range.start < before.range.end
                && (claim.shared.is_none() || claim.shared != before.shared)
            {
                let text = |owner| match owner {
                    ClaimOwner::Object(number) => format!("an extent of '{}'", name(number)),
                    ClaimOwner::Directory => "the directory itself".to_owned(),
                    ClaimOwner::LimboList => "an entry of the limbo list".to_owned(),
                };
                return Err(format!(
                    "{} and {} overlap at {}",
                    text(before.owner),
                    text(claim.owner),
                    claim.range.start
                ));
            }
            // Ranges that pass are equal or disjoint, so the last one reaches furthest.
            before = Some(claim);
        }
        Ok(())
    }
}
