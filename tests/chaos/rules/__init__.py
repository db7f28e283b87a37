"""What a history must satisfy, one module for each matter; each has `check(view)`, which yields every violation."""
