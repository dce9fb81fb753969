"""Value classes over the `fly` dialect types, registered as MLIR value casters."""
