"""Runs plans, and calls of compiled functions. See README.md."""
