"""Sees what plain Python a recorded function reads and writes. See README.md."""
