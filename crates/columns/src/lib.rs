//! Tables as encoded, zone-mapped columns in extents.
