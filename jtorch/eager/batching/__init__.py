"""One op for a whole batch of examples: how ``jtorch.func.vmap`` computes.

The function that is mapped runs once, on Tensors whose raw values are ``Batched``: arrays with the batch axis
first, which say of themselves what one example would. An evaluator, ``Batching``, stands above the one in
force (eager mode's, the tracer's, or another ``Batching``) and computes each op on whole batches:

* ``values.py``: the values, and the axis that a call of vmap adds
* ``evaluator.py``: the evaluator
* ``rules.py``: what an op does with a batch, by its kind and by what the table says of it; ``views.py``,
  ``products.py``, ``places.py``, ``ordering.py``, ``filling.py`` and ``layers.py``: the rules of single ops
* ``loop.py``: an op without a rule, example by example; ``turns.py``: loops that end for each by itself
* ``boundary.py``: tensors on their way in and out; ``gradient.py``: one node for the whole call on the tape
  outside
"""
