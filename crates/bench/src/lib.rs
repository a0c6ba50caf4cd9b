//! One module per experiment.
