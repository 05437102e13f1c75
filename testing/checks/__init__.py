"""The checks themselves: a module for each kind of thing a plugin brings, whose `checks(value)` returns them by name.

`documents` holds what is asked of every class and function, `guesses` how to construct and call what declares no
samples.
"""
