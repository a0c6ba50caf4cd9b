//! The halocline program.

fn main() {}
