//! Nothing: the package is there for its lock file and its dependency.
