"""Distributions of third parties as plain directories, and programs that run beside them in a process of their own."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
DISTRIBUTIONS = ROOT / "tests" / "support" / "distributions"
EXAMPLES = ROOT / "examples" / "guests"
TIMEOUT = 280  # seconds: less than pytest waits until it ends everything


def build(folder, name, entries, version="1.0", **modules):
    """Write an installed distribution into `folder`: entries are {group: {name: value}}, modules {name: source}."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, points in entries.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in points.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(source)
    return folder


def example(folder, name):
    """Lay an example out as if it were installed; return the directories to put on the path."""
    project = tomllib.loads((EXAMPLES / name / "pyproject.toml").read_text())["project"]
    build(folder / name, name, project["entry-points"], project["version"])
    return folder / name, EXAMPLES / name / "src"


def run(code, *paths, arguments=(), cwd=None, **environment):
    """Run a program, or with `code=None` the command `python ARGUMENTS`, with directories added to the path."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PLUGRAD_")}
    command = [sys.executable, *(("-c", code) if code is not None else ()), *arguments]
    return subprocess.run(
        command,
        env={**inherited, "PYTHONPATH": os.pathsep.join(map(str, paths)), **environment},
        cwd=cwd or DISTRIBUTIONS,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def output(code, *paths, **options):
    """Return what a program prints; it must end well and say nothing on stderr."""
    done = run(code, *paths, **options)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def lines(text):
    """Return the lines of a text that are not empty."""
    return [line for line in text.splitlines() if line]


OP = '''
from plugrad.extend import Op, collect, hookimpl, unary

@unary({options})
def {name}(xp, input):
    """{name} of each element."""
    return {value}

@{name}.vjp
def {name}_vjp(F, g):
    return g

@hookimpl
def plugrad_ops():
    return collect(Op, globals())
'''


def op_module(name, value="input + 1", options=""):
    """Return the source of a plugin module that brings one unary op."""
    return OP.format(name=name, value=value, options=options)


def command(*arguments, paths=(), status=0, **options):
    """Run `plugrad ARGUMENTS` beside distributions; it must end with the given status."""
    done = run(None, *paths, arguments=("-m", "plugrad.cli", *arguments), **options)
    assert done.returncode == status, done.stderr + done.stdout
    return done


def refusal(*arguments, **options):
    """Return what a refused command prints, without the frame and the line breaks."""
    return " ".join(command(*arguments, status=2, **options).stderr.replace("│", " ").split())


KERNEL = """
from plugrad.extend import hookimpl, kernel_for

@kernel_for("{op}", "cpu", override={override})
def {op}_cpu(xp, input):
    return {value} + 0 * input

@hookimpl
def plugrad_kernels():
    return [{op}_cpu]
"""


def kernel_plugin(folder, name, value, group="plugrad.kernels", op="tan", override=False):
    """Install a plugin with a kernel for an op of ours on the CPU, which returns `value` everywhere."""
    point = op if group == "plugrad.kernels" else name
    source = KERNEL.format(op=op, value=value, override=override)
    return build(folder / name, f"plugrad-{name}", {group: {point: f"plugin_{name}"}}, **{f"plugin_{name}": source})


DEVICE = """
import numpy
from plugrad.extend import Backend, hookimpl

class Array(numpy.ndarray):
    pass

class {cls}(Backend):
    name, xp, array_type, {extra} = "{device}", numpy, Array, None

    def available(self):
        return {reason!r}

    def from_numpy(self, array, index):
        return array.copy().view(Array)

    def to_numpy(self, array):
        return array.view(numpy.ndarray)

@hookimpl
def plugrad_backends():
    return [{cls}]
"""


def device_plugin(folder, name, device, reason=None, group="plugrad.backends", extra="more"):
    """Install a plugin with a device on NumPy's memory; it is not available if there is a reason."""
    source = DEVICE.format(cls=f"Device{name.title()}", device=device, reason=reason, extra=extra)
    return build(folder / name, f"plugrad-{name}", {group: {device: f"plugin_{name}"}}, **{f"plugin_{name}": source})
