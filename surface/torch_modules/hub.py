"""`torch.hub`: models of a local folder that has a `hubconf.py`; nothing is downloaded."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys

import plugrad

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_dir = None
_list = list


def get_dir() -> str:
    """Return the folder of files that were downloaded: `$TORCH_HOME/hub`, by default `~/.cache/torch/hub`."""
    if _dir is not None:
        return _dir
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.join(os.path.expanduser(os.environ.get("TORCH_HOME", f"{cache}/torch")), "hub")


def set_dir(d) -> None:
    """Set the folder of files that were downloaded."""
    global _dir
    _dir = os.path.expanduser(d)


def _hubconf(folder, source):
    """Return the module `hubconf` of a local folder."""
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise NotImplementedError(
            f'torch.hub downloads nothing here: clone {folder}, and pass its folder with source="local"'
        )
    path = pathlib.Path(folder) / "hubconf.py"
    if not path.is_file():
        raise FileNotFoundError(f"there is no hubconf.py in {os.fspath(folder)!r}")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.fspath(folder))  # while it is imported: its own modules are beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(os.fspath(folder))
    absent = [name for name in getattr(module, "dependencies", ()) if importlib.util.find_spec(name) is None]
    if absent:
        raise RuntimeError(f"Missing dependencies: {', '.join(absent)}")
    return module


def _entry(module, name):
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    entry = getattr(module, name, None)
    if not callable(entry):
        raise RuntimeError(f"Cannot find callable {name} in hubconf; it has {', '.join(_names(module)) or 'none'}")
    return entry


def _names(module) -> _list:
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def load(repo_or_dir, model, *args, source="github", trust_repo=None, force_reload=False, verbose=True,
         skip_validation=False, **kwargs):  # fmt: skip
    """Return what the entry `model` of a folder's `hubconf.py` returns.

    Args:
        repo_or_dir: the folder.
        model: name of a function there, which gets `args` and `kwargs`.
        source: "local"; "github" raises NotImplementedError, since nothing is downloaded.
    """
    return _entry(_hubconf(repo_or_dir, source), model)(*args, **kwargs)


def list(github, force_reload=False, skip_validation=False, trust_repo=None, verbose=True, *, source="github"):
    """Return the names of the entries of a folder's `hubconf.py`; the arguments are those of `load`."""
    return _names(_hubconf(github, source))


def help(github, model, force_reload=False, skip_validation=False, trust_repo=None, *, source="github"):
    """Return the docstring of an entry; the arguments are those of `load`."""
    return _entry(_hubconf(github, source), model).__doc__


def download_url_to_file(url, dst, hash_prefix=None, progress=True) -> None:
    """Raise NotImplementedError: nothing is downloaded."""
    raise NotImplementedError(f"torch.hub downloads nothing here: fetch {url} to {dst} by other means")


def load_state_dict_from_url(
    url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None, weights_only=False
):
    """Load the file of a URL from the folder where it was put before.

    Args:
        url: of which only the file's name counts, unless `file_name` says another.
        model_dir: the folder, by default `checkpoints` in `get_dir()`.
        map_location, weights_only: as `torch.load` takes them.

    Raises NotImplementedError when the file is not there: nothing is downloaded.
    """
    name = file_name or url.partition("?")[0].rstrip("/").rpartition("/")[2]
    path = os.path.join(model_dir or os.path.join(get_dir(), "checkpoints"), name)
    if not os.path.exists(path):
        download_url_to_file(url, path)
    return plugrad.load(path, map_location=map_location, weights_only=weights_only)
