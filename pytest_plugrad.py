"""`pytest --plugrad TARGET`: one test for each check that `plugrad check TARGET` runs.

pytest imports this module wherever plugrad is installed, so it lies outside of the package, and plugrad is imported
only when the option is given.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser):
    """Add the options."""
    group = parser.getgroup("plugrad", "checks of plugrad's plugins")
    group.addoption(
        "--plugrad", action="append", default=[], metavar="TARGET",
        help="run the checks of a distribution, plugin, op, public name or file; without paths, run nothing else",
    )  # fmt: skip
    group.addoption("--plugrad-device", default="cpu", metavar="DEVICE", help="where the samples of checks are put")


def pytest_ignore_collect(collection_path, config):
    """Collect no files when checks were asked for and no paths were given."""
    alone = config.args_source is not pytest.Config.ArgsSource.ARGS
    return True if config.getoption("plugrad") and alone else None


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose among the items
def pytest_collection_modifyitems(session, config, items):
    """Add the checks to the tests."""
    for target in config.getoption("plugrad"):
        from plugrad.testing import checks_of

        try:
            cases = checks_of(target, config.getoption("plugrad_device"))
        except LookupError as error:
            raise pytest.UsageError(f"--plugrad {target}: {error}") from None
        holder = Target.from_parent(session, name=target, nodeid=target)
        checks = [Check.from_parent(holder, name=case.id, case=case) for case in cases]
        items.extend(checks)
        config.hook.pytest_collectreport(report=pytest.CollectReport(holder.nodeid, "passed", None, checks))


class Target(pytest.Collector):
    """A target, which holds its checks."""

    def collect(self):
        return []


class Check(pytest.Item):
    """One check of one subject."""

    def __init__(self, *, case, **keywords):
        super().__init__(**keywords)
        self.case = case

    def runtest(self):
        reason = self.case.run()
        if reason is not None:
            pytest.skip(reason)

    def repr_failure(self, excinfo, style=None):
        if excinfo.errisinstance(AssertionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, None, f"{self.parent.name}: {self.name}"
