"""What a mode makes of the function, generator or class that it decorates."""

from __future__ import annotations

import functools
import inspect
import warnings


def decorated(context, function):
    """Return a function that runs in a region that `context()` makes anew for every call."""
    if inspect.isclass(function):
        warnings.warn(
            "Decorating classes is deprecated and will be disabled in future versions. You should only decorate "
            "functions or methods. To preserve the current behavior of class decoration, you can directly "
            "decorate the `__init__` method and nothing else.",
            FutureWarning,
            stacklevel=3,
        )

        def wrapper(*args, **kwargs):
            with context():
                return function(*args, **kwargs)

        return wrapper
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator(*args, **kwargs):
            # The mode is set only while the generator runs, never between two of its values.
            source = function(*args, **kwargs)
            step, sent = source.send, (None,)
            try:
                while True:
                    with context():
                        value = step(*sent)
                    try:
                        step, sent = source.send, ((yield value),)
                    except GeneratorExit:
                        with context():
                            source.close()
                        raise
                    except BaseException as error:
                        step, sent = source.throw, (error,)
            except StopIteration as stop:
                return stop.value

        return generator

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        with context():
            return function(*args, **kwargs)

    return wrapper
