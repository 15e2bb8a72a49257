"""``python -m benchmarks report R.json``: a run as one HTML page that needs nothing else.

``charts`` draws, ``page`` puts it together, beside ``page.css`` and ``page.js``, which sorts the tables.
"""
