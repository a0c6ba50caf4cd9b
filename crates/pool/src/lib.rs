//! The durable file: superblock, directory of named objects, extents.
