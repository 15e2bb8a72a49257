"""What users ask of compiled functions. See README.md."""
