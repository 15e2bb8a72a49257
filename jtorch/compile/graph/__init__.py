"""The graph, what it means, and the passes over it. See README.md."""
