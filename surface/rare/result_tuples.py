"""The classes of `return_types`: named tuples with PyTorch's text, made of a sequence as PyTorch's are."""

from __future__ import annotations

from collections import namedtuple


def result_tuple(name: str, fields):
    """Return a tuple class whose text is `torch.return_types.max(values=..., indices=...)`.

    It is made of one sequence, as PyTorch's is by programs that map over containers, or of the fields one by one.
    """
    fields = fields.split() if isinstance(fields, str) else list(fields)
    base, count = namedtuple(name, fields), len(fields)

    def __new__(cls, *values):
        if len(values) == count > 1 and not (count == 2 and isinstance(values[1], dict)):
            return base._make.__func__(cls, values)
        if not values or len(values) > 2 or not hasattr(values[0], "__iter__"):
            raise TypeError(f"torch.return_types.{name}() constructor requires a sequence of {', '.join(fields)}")
        sequence = tuple(values[0])
        if len(sequence) != count:
            raise TypeError(f"torch.return_types.{name}() takes a {count}-sequence ({len(sequence)}-sequence given)")
        return base._make.__func__(cls, sequence)

    def __repr__(self):
        inner = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self))
        return f"torch.return_types.{name}(\n{inner})"

    return type(name, (base,), {
        "__slots__": (), "__new__": __new__, "__repr__": __repr__, "__module__": "plugrad.return_types",
        "n_fields": count, "n_sequence_fields": count, "n_unnamed_fields": 0,
    })  # fmt: skip
