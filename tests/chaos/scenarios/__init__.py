"""Situations that take longer than a test should: one at a time, on real processes (`make scenarios`)."""
