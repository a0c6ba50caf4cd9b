//! Figures of the public programs: lines and fences per insert of 10 M random keys, splits included, counted
//! in them.

use halocline_ordered::TreeKind;

/// The program, its lines and its fences.
pub(super) fn insert(kind: TreeKind) -> Option<(&'static str, f64, f64)> {
    match kind.name() {
        "lb" => Some(("LB+-Tree (original)", 1.80, 1.50)),
        "fp" => Some(("FPTree (sfu-dis)", 3.9, 3.2)),
        "fast-fair" => Some(("FAST&FAIR (clwb)", 4.20, 3.84)),
        _ => None,
    }
}

/// How many times the lines of an insert into a stable tree entry moving saves at least.
pub(super) const MOVING: f64 = 1.35;

/// The most lines and fences of an insert into leaves of 256 bytes, splits included.
pub(super) const INSERT: (f64, f64) = (1.80, 1.50);

/// The most lines with the leaf size that measures best.
pub(super) const BEST: f64 = 1.6;
