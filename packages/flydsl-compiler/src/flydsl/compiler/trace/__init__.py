"""Running a rewritten function: arguments become IR values, launches become operations, a module comes out."""
