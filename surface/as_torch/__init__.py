"""`import torch` gives plugrad: `plugrad.install_as_torch()`, and the command `plugrad run`.

The modules are the same objects under both names, so that `isinstance` and pickles agree. The folder `import_path`
holds the module `torch` that Python finds where the folder stands in `sys.path` before PyTorch, as in programs that
`plugrad run` starts and in the processes that those start; importing that module calls `install_as_torch`.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys
from importlib.machinery import ModuleSpec

import plugrad
from plugrad import absent, nn, registry
from plugrad.torch_modules import imported, torch_version

IMPORT_PATH = str(pathlib.Path(__file__).parent / "import_path")

# Packages of plugrad's that have the name of something else of PyTorch's, which importing them would replace.
_HIDDEN = {"plugrad.device", "plugrad.tensor"}

# Classes that programs print, and that libraries recognise by their modules' names. Pickles do not name them.
_CLASSES = {plugrad.Tensor: "torch", plugrad.Size: "torch", nn.Parameter: "torch.nn.parameter"}

__all__ = ["IMPORT_PATH", "install_as_torch", "run"]


def install_as_torch() -> None:
    """Make `import torch` give plugrad, here and in libraries imported later.

    For notebooks and conftest files; a program needs no line of this: `plugrad run script.py`. Processes that
    `multiprocessing` starts follow, and `plugrad.__version__` becomes the version of PyTorch whose names these are, as
    libraries expect of `torch.__version__`, with plugrad's own behind a plus, and `plugrad.__name__` "torch".

    Raises RuntimeError when PyTorch itself was imported before. Again, it does nothing.

    >>> import plugrad
    >>> plugrad.install_as_torch()  # doctest: +SKIP
    >>> import torch  # doctest: +SKIP
    >>> torch is plugrad  # doctest: +SKIP
    True
    """
    present = sys.modules.get("torch")
    if present is plugrad:
        return
    where = getattr(present, "__file__", None) or "unknown"
    if present is not None and pathlib.Path(where).parent != pathlib.Path(IMPORT_PATH):
        raise RuntimeError(
            f"PyTorch is already imported (from {where}), and one process can't have both under the name torch: call "
            "plugrad.install_as_torch() before anything imports torch, or start the program with `plugrad run`"
        )
    sys.meta_path.insert(0, _TorchNames)
    if IMPORT_PATH not in sys.path:
        sys.path.insert(1, IMPORT_PATH)  # behind the program's own folder; processes started by "spawn" get this list
    plugrad.__version__, plugrad.__name__ = torch_version.__version__, "torch"
    sys.modules["torch"] = plugrad
    for cls, home in _CLASSES.items():
        cls.__module__ = home
    for home in ("optim", "optim.lr_scheduler"):
        load_ours(home)


def load_ours(home: str) -> None:
    """Load plugrad's own plugins of a namespace: there are programs that choose from `torch.optim.__dict__`."""
    module = imported(f"plugrad.{home}")
    for name in registry.names_in(home):
        if all(plugin.builtin for plugin in registry.claims.get(f"{home}.{name}", ())):
            getattr(module, name)


class _TorchNames:
    """Finds `torch.X` as the module `plugrad.X`, for import statements."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        """Return a spec for a path below torch that plugrad has, None for everything else."""
        if not name.startswith("torch."):
            return None
        real = f"plugrad{name.removeprefix('torch')}"
        parent, _, own = real.rpartition(".")
        hidden = vars(sys.modules[parent]).get(own) if parent in sys.modules else None
        if hidden is not None and real in _HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}; {name} is a {type(hidden).__name__}", name=name)
        return ModuleSpec(name, cls) if real in sys.modules or _exists(real) else None

    @staticmethod
    def create_module(spec):
        """Return None: the module is there already, or is imported under its own name."""

    @staticmethod
    def exec_module(module):
        """Put plugrad's module into the place of the empty one."""
        name = module.__spec__.name
        ours = sys.modules[name] = imported(f"plugrad{name.removeprefix('torch')}")
        if not hasattr(ours, "__getattr__"):  # for what PyTorch's module has because it imports it
            ours.__getattr__ = absent.attributes(name.removeprefix("torch."))


def _exists(module) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # nor is there the package that it would be in
        return False


def run(arguments) -> int:
    """Run `python ARGUMENTS...` in which `import torch` gives plugrad; where the system can, this process becomes it.

    Raises RuntimeError where Python is told to ignore PYTHONPATH, by which that is done.
    """
    if sys.flags.ignore_environment or any(_ignores_environment(one) for one in _options(arguments)):
        raise RuntimeError("plugrad gives the program its torch by PYTHONPATH, which Python's options -E and -I ignore")
    paths = [IMPORT_PATH, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    command = [sys.executable, *subprocess._args_from_interpreter_flags(), *arguments]
    sys.stdout.flush()
    if os.name == "nt":  # has no way for one program to become another
        return subprocess.call(command, env=environment)
    os.execve(sys.executable, command, environment)


def _options(arguments):
    """Yield what stands before the program: Python's own options."""
    for one in arguments:
        if not one.startswith("-") or one == "-" or one[:2] in ("-m", "-c"):
            return
        yield one


def _ignores_environment(option) -> bool:
    return option[1:2] not in ("X", "W", "-") and bool({"E", "I"} & {*option})
