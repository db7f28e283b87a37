"""The one place where the version of etcron is written; setup.cfg reads it from here. Pure."""

VERSION = "0.1.0"
