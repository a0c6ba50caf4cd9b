//! A two-tier memory engine: facade.
