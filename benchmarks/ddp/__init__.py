"""``python -m benchmarks ddp``: what data-parallel training costs, measured and as a model says.

* ``job.py`` starts processes and asks them; ``worker.py`` is what runs in each of them
* ``measure.py`` times the steps of a network; ``costs.py`` is the model and its fit, ``predict.py`` its words
* ``hosts.py`` makes hosts out of network namespaces, with a network of a chosen speed between them
* ``section.py`` is the command, ``report.py`` its tables
"""
