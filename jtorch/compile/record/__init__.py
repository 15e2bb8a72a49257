"""Runs a function once on symbolic values. See README.md."""
