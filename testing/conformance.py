"""The tests that follow from a declaration: what its author would otherwise have to write, or might forget.

`checks_of(target)` lists them for a whole package, a plugin, one thing, or a file; `cases(record)` for one record.
Running one raises AssertionError with a message that names subject, argument, check, distribution and version. A
package's conformance test for pytest is a line::

    test_package = conformance_tests("plugrad-foo")
"""

from __future__ import annotations

import contextlib
import importlib
import warnings

from plugrad.process_state import DAEMONS, FILTERS, Heard, ProcessState
from plugrad.testing.calls import Skip, described
from plugrad.testing.targets import subject_of, subjects_of

_last: list = [None]  # the state of the process before the last check, and what was seen when it was repaired
PRINTING = "hooks", "trackers"  # kinds of things that may print
MISSING = "can't be used here"  # what the error of a device says that this machine does not have


class Case:
    """One check of one subject: a call returns None, or why it does not apply.

    Attributes: `subject`, the public name ("optim.Adam"; of an op the name of its record); `kind` ("ops",
    "layers", ...); `name` of the check; `provider`, the plugin behind the subject, or None for a record that no
    plugin brought.
    """

    __slots__ = ("subject", "kind", "name", "provider", "_value", "_check", "_device")

    def __init__(self, subject, name, value, check, device="cpu", provider=None):
        self.subject, self.name, self.kind, self.provider = subject.name, name, subject.kind, provider
        self._value, self._check, self._device = value, check, device

    def run(self, follows=False):
        """Run the check.

        Args:
            follows: whether nothing but plugrad has run in this process since the last check.

        Raises AssertionError naming subject, check and where it is from, made of whatever error came up, and
        RuntimeError under `python -O`, which leaves out the statements that checks are made of.
        """
        if not __debug__:
            raise RuntimeError("checks need assert statements: run Python without -O, and without PYTHONOPTIMIZE")
        ours = self.provider is not None and self.provider.builtin
        after = _last[0] if follows else None
        before, threads, changed = ProcessState(names=not ours, drawing=True, after=after), DAEMONS.read(), None
        _last[0] = before
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.filterwarnings("ignore", r".*\bdeprecated\b", FutureWarning)  # old names say that they are
                filters = FILTERS.read()  # which the block puts back
                with contextlib.nullcontext() if ours or self.kind in PRINTING else Heard() as heard:
                    self._check(self._value, self._device)
                unfiltered = FILTERS.same(filters, FILTERS.read())
            changed = [*before.repair(), *([] if unfiltered else [FILTERS.label])]
            left = DAEMONS.new(threads, DAEMONS.read())
            assert not left, f"it leaves a thread running ({left[0].name!r}): end it, or let an executor have it"
            printed = heard is not None and heard.text
            assert not printed, f"it writes to the file of the standard output: {printed!r:.60}"
            assert not changed or self.name == "example", f"it changes {changed[0]}, for the whole program"
        except Skip as reason:
            return str(reason)
        except NotImplementedError as reason:  # a stated limit; that the subject works at all is the case "samples"
            if self.name != "samples":
                return str(reason) or "not implemented"
            raise AssertionError(f"{self.title}: NotImplementedError: {reason}") from reason
        except (Exception, SystemExit) as error:  # whatever is raised where it should work is a finding
            if isinstance(error, RuntimeError) and MISSING in str(error):
                return str(error)
            told = error if isinstance(error, AssertionError) else described(error)
            raise AssertionError(f"{self.title}: {told}") from error
        finally:
            if changed is None:
                before.repair()
        return None

    __call__ = run

    @property
    def origin(self) -> str:
        """Whose the subject is, such as "plugrad-foo 1.0"; empty if no plugin brought it."""
        return "" if self.provider is None else f"{self.provider.distribution} {self.provider.version}"

    @property
    def title(self) -> str:
        """How a message about this case begins."""
        return entitled(self.kind, self.subject, self.origin, self.name)

    @property
    def id(self) -> str:
        """The name of the case in reports, such as "swish-second-gradient"."""
        return f"{self.subject}-{self.name.replace(' ', '-')}"

    def __repr__(self):
        return self.id


def entitled(kind, subject, origin, name) -> str:
    """Return the words that a message about a check begins with."""
    noun = "loss" if kind == "losses" else kind.removesuffix("s")
    return f"{noun} {subject!r}{f' of {origin}' if origin else ''}, {name}"


def cases(record, device="cpu"):
    """Yield the cases of one record: an op, or what a plugin brought.

    >>> import plugrad as torch
    >>> from plugrad import registry
    >>> {case.name for case in cases(registry.op("sin"))} >= {"gradient", "in-place", "meta device"}
    True
    """
    yield from _cases(subject_of(record), device)


def _cases(subject, device):
    suite = importlib.import_module(f"plugrad.testing.checks.{subject.kind}")  # a kind's checks are loaded at first use
    for name, check in suite.checks(subject.value).items():
        yield Case(subject, name, subject.value, check, device, subject.provider)


def checks_of(target=None, device="cpu") -> list:
    """Return all checks of a target as a list of `Case`.

    Args:
        target: a distribution ("plugrad-foo"; "plugrad" itself), a plugin ("plugrad-foo:bar"), the name of an op
            ("swish"), a public name ("optim.Adam"), the path of a Python file that defines records, a record or
            class itself, or a list of such. None means all that third-party plugins brought.
        device: where the samples are put.

    Raises LookupError, naming the nearest known names, when there is no such target.

    >>> [case.name for case in checks_of("optim.SGD")][:3]
    ['docstring', 'example', 'signature']
    """
    return [case for subject in subjects_of(target) for case in _cases(subject, device)]


def conformance_tests(target=None, device="cpu", *, known=()):
    """Return a pytest function, parametrised over all checks of a target: `checks_of`.

    Args:
        target, device: as for `checks_of`.
        known: ids of cases that are known to fail, such as "swish-meta-device", with reasons: {id: reason}. One that
            passes is an error.

    Written in a test file: ``test_package = conformance_tests("plugrad-foo")``.
    """
    import pytest

    known = dict(known)
    chosen = checks_of(target, device)
    unknown = set(known) - {case.id for case in chosen}
    if unknown:
        raise LookupError(f"known failures that are not checks of {target!r}: {', '.join(sorted(unknown))}")
    marks = [
        pytest.param(case, id=case.id, marks=pytest.mark.xfail(reason=known[case.id], strict=True))
        if case.id in known
        else pytest.param(case, id=case.id)
        for case in chosen
    ]

    @pytest.mark.parametrize("case", marks)
    def test_conformance(case):
        reason = case.run()
        if reason is not None:
            pytest.skip(reason)

    return test_conformance
