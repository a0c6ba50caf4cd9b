//! Tests of equi-joins: a model that compares each row with each other decides what is right.

mod arrays;
mod codes;
mod failures;
mod kinds;
mod memory;
mod model;
mod stored;
