"""Machine code for functions written in a small part of Python: what they do to objects, they do.

The Python text stays the only description of what happens. A local is a place that owns a reference, an
operation a call of the C API; what NumPy and our own classes keep in their structs is read there, where the
class is as expected, and asked of Python where it is not. Nothing is taken for granted of CPython but what
``native/layout.py`` has tried, so the same code serves every version.

A function may hold assignments, ``if``, ``while``, ``for`` over sequences, ``return`` and ``continue``;
names, numbers, strings, attributes, items, calls, tuples, lists, conditions, ``+ - &``. Anything else is a
SyntaxError when it is translated. These things differ from Python:

* ``name = a and b``, a comparison, ``not`` or ``isinstance`` makes a truth value of ``name``, false
  before, no object; any other local that has no value yet is a TypeError, and so is what does not unpack;
* ``name: Class = value`` is taken at its word, and so is the class in the signature of a helper's result; an
  argument that is annotated with a class of which fields are known is of that class, or the call a TypeError;
* a thing equals itself, NaN too; ``(x.shape, x.dtype)`` is compared without being made; ``float(n)`` of a
  number that is too large gives up;
* ``isinstance`` and ``x.__class__`` ask the type, whatever ``__class__`` says; ``for`` and unpacking ask
  sequences for their items, not iterators;
* ``_new(cls)`` is ``object.__new__(cls)``, ``CONTEXT.get()`` asks a ContextVar for its Context,
  ``weak_reference(x)`` is ``weakref.ref(x)``; names of keyword arguments are the record's ``keywords``;
* where a `Field` holds another class than its usual one, or the arguments are too many or few, the function
  gives None: whoever writes one reads such fields before anything happens that must not happen twice.

The code knows no address: all lie in a record, its ``self`` (see `Words`), so it can be kept in a file and
used by every process.
"""
