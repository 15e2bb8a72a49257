"""The floor of machine code under both modes; imports ``core`` alone. See README.md."""
