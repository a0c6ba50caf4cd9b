//! The Elf multi-dimensional index.
