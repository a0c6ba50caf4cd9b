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
