//! Where bytes live: mapping, durability, and a crash model to test against.
