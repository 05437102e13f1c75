"""Plugins that fail: each is kept out whole, says why, and nothing else is the worse for it."""

import json

import pytest

from support import faulty_plugins
from support.distribution_builder import DISTRIBUTIONS, build, lines, op_module, output, run

FAULTS = faulty_plugins.FAULTS


# ---------------------------------------------------------------------------------------------------- every fault

USE_EACH = """
import json, sys
import plugrad
from plugrad import errors, registry
from plugrad.errors import PluginLoadError
from plugrad.registry import loader

def state():
    return (
        set(registry.ops), set(registry.public), {name: list(op.kernels) for name, op in registry.ops.items()},
        set(vars(plugrad.Tensor)), set(registry.backends), {kind: set(t) for kind, t in registry.tables.items()},
        plugrad.get_default_dtype(), plugrad.Tensor.__add__, plugrad.Tensor.backward, plugrad.tanh,
    )

x = plugrad.ones(1)
x.tanh() + 1, plugrad.sin(x), plugrad.cos(x), plugrad.tan(x), plugrad.nn.Linear, plugrad.tanh
before, reports = state(), {}
for name, use in json.loads(sys.argv[1]).items():
    reports[name] = seen = []
    for _ in range(2):
        try:
            eval(use)
        except PluginLoadError as error:
            seen.append((str(error), errors.describe(error.__cause__)))
        except BaseException as error:
            seen.append((errors.describe(error), "not a PluginLoadError"))
        else:
            seen.append(("no error", ""))
    plugin = next(p for p in loader.plugins.values() if p.promised and p.value.startswith("plugrad_" + name))
    reports[name] = [*seen, plugin.status, plugin.stage, bool(plugin.traceback), plugin.seconds > 0, state() == before]
x = plugrad.ones(2, requires_grad=True)
(x.tanh() + plugrad.sin(x)).sum().backward()
assert plugrad.allclose(x.grad, 1 - x.tanh() ** 2 + x.cos()) and (x + 1).tolist() == [2, 2]
print(json.dumps(reports))
"""


def use_of(name):
    kind = "ops" if name == "extension" else FAULTS[name][0]
    promised = faulty_plugins.PROMISED.get(name, name)
    if kind == "kernels":  # nobody asks for these by name: an op that they serve does
        return f"loader.load(loader.plugins['plugrad-{name.replace('_', '-')}:{promised}'])"
    if kind == "backends":
        return f"plugrad.ones(1, device={name!r})"
    return f"plugrad.{faulty_plugins.PLACES.get(kind, '')}.{name}".replace("..", ".")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What came of using each faulty plugin, all installed at once, in one process."""
    folder = tmp_path_factory.mktemp("nasty")
    faulty_plugins.build_all(folder)
    uses = {name: use_of(name) for name in [*FAULTS, "extension"]}
    done = run(f"import sys; sys.argv = ['', {json.dumps(uses)!r}]\n{USE_EACH}", folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", [*FAULTS, "extension"])
def test_a_faulty_plugin_is_kept_out_whole(outcomes, name):
    _, _, stage, text = FAULTS.get(name, ("ops", "", "import", "ImportError"))
    first, second, status, at, has_traceback, timed, unchanged = outcomes[name]
    promised = faulty_plugins.PROMISED.get(name, name)
    plugin = f"plugin plugrad-{name.replace('_', '-').lower()}:{promised} 1.2 failed at {stage}"
    assert plugin in first[0] and text in first[0], first
    assert first[1] != "not a PluginLoadError" and text in first[1]
    assert second == first, "the second use says something else"
    assert (status, at, has_traceback, timed) == ("failed", stage, True, True)
    assert unchanged, "something of it is left"


def test_nothing_of_a_half_right_plugin_is_left(tmp_path):
    build(tmp_path, "plugrad-half", {"plugrad": {"half": "plugrad_half"}}, plugrad_half=faulty_plugins.HALF)
    program = """
import plugrad
from plugrad import registry
from plugrad.registry import loader
assert plugrad.zeros(1).tan().item() == 0 and "cpu" not in registry.op("tan").kernels
for name in ("half_first", "halfway", "half_third", "half_first_", "HalfLayer"):
    for place in (plugrad, plugrad.Tensor, plugrad.nn, plugrad.nn.functional):
        assert name not in dir(place) and not hasattr(place, name), name
assert "half" not in dir(plugrad.ops) and not hasattr(plugrad.ops, "half")
assert "half_device" not in registry.backends and not any("half_" in name for name in registry.ops)
try:
    plugrad.ones(1, device="half_device")
except RuntimeError as error:
    assert "Expected one of cpu, cuda, meta" in str(error), error
"""
    done = run(program, tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = lines(done.stderr)
    assert "plugrad-half:half 1.0 failed at registration: TypeError: op 'halfway' has no gradient" in line


# ---------------------------------------------------------------------------------------------------- how it is told

BROKEN = """
import plugrad
from plugrad.registry.loader import PluginLoadError
assert plugrad.ones(2).sum().item() == 2
assert "broken" in dir(plugrad)
for _ in range(2):
    for use in (lambda: plugrad.broken(plugrad.ones(1)), lambda: plugrad.ones(1).broken()):
        try:
            use()
        except PluginLoadError as error:
            assert isinstance(error.__cause__, KeyError), error.__cause__
            assert "plugrad-broken:broken 1.0 failed at import: KeyError" in str(error), error
        else:
            raise SystemExit("no error")
assert "broken" not in dir(plugrad)
try:
    plugrad.nothing
except AttributeError as error:
    assert "plugrad-broken:eager" in str(error) and "plugrad plugins" in str(error), error
"""


def test_a_broken_plugin_costs_one_line_and_an_error_when_it_is_used():
    done = run(BROKEN, DISTRIBUTIONS / "broken")
    assert done.returncode == 0, done.stderr
    (line,) = lines(done.stderr)
    assert "plugrad-broken:eager 1.0 failed at import: RuntimeError: no luck" in line


def test_an_exiting_plugin():
    done = run("import plugrad; plugrad.ones(1)", DISTRIBUTIONS / "exiting")
    assert done.returncode == 0 and "failed at import: SystemExit: 3" in done.stderr


def test_an_interrupt_is_not_swallowed(tmp_path):
    build(tmp_path, "plugrad-stop", {"plugrad": {"stop": "plugrad_stop"}}, plugrad_stop="raise KeyboardInterrupt")
    assert run("import plugrad", tmp_path).returncode != 0


def test_several_broken_plugins_still_cost_one_line():
    (line,) = lines(run("import plugrad", DISTRIBUTIONS / "broken", DISTRIBUTIONS / "exiting").stderr)
    assert "(and 1 more)" in line


@pytest.mark.parametrize("code", ["import plugrad", "import plugrad.cli"])
def test_strict_mode_raises(code):
    done = run(code, DISTRIBUTIONS / "broken", PLUGRAD_STRICT="1")
    assert done.returncode != 0
    assert "PluginLoadError: plugin plugrad-broken:eager 1.0 failed at import: RuntimeError: no luck" in done.stderr


def test_strict_mode_raises_for_promised_kernels_and_wrong_metadata(tmp_path):
    points = {"plugrad.kernels": {"tan": "plugrad_k"}}
    build(tmp_path / "k", "plugrad-k", points, plugrad_k="raise ValueError('no kernel')")
    program = "import plugrad; print(plugrad.zeros(1).tan().item())"
    assert run(program, tmp_path / "k").stdout == "0.0\n"
    assert "failed at import: ValueError: no kernel" in run(program, tmp_path / "k", PLUGRAD_STRICT="1").stderr
    build(tmp_path / "g", "plugrad-g", {"plugrad.op": {"sinus": "plugrad_g"}})
    done = run(program, tmp_path / "g")
    assert "there is no entry point group 'plugrad.op'; did you mean 'plugrad.ops'?" in done.stderr
    assert done.stdout == "0.0\n" and len(lines(done.stderr)) == 1
    assert run(program, tmp_path / "g", PLUGRAD_STRICT="1").returncode != 0


def test_the_list_shows_what_failed_and_imports_only_on_demand(tmp_path):
    source = "import time; time.sleep(0.3)\n1 / 0"
    build(tmp_path, "plugrad-b", {"plugrad.ops": {"b": "plugrad_b"}}, "3.1", plugrad_b=source)
    command = ("-m", "plugrad.cli", "plugins", "--third-party")
    (row,) = json.loads(run(None, tmp_path, arguments=(*command, "--json")).stdout)
    assert (row["status"], row["import_ms"]) == ("not loaded", 0)
    (row,) = json.loads(run(None, tmp_path, arguments=(*command, "--json", "--load")).stdout)
    assert (row["status"], row["stage"], row["version"]) == ("failed", "import", "3.1") and row["import_ms"] > 300
    text = run(None, tmp_path, arguments=(*command, "--load", "--verbose")).stdout
    for part in ("plugrad-b:b", "3.1", "failed", "import", "Traceback (most recent call last)", "ZeroDivisionError"):
        assert part in text
    assert "plugins --load` imports them" in run(None, tmp_path, arguments=command).stdout


def test_a_first_use_deep_in_a_recursion_is_no_failure_for_good(tmp_path):
    source = "import collections.abc, plugrad\ndef deep(n):\n    return n and 1 + deep(n - 1)\ndeep(60)\n"
    build(tmp_path, "plugrad-deep", {"plugrad.ops": {"deep": "plugrad_deep"}}, plugrad_deep=source + op_module("deep"))
    program = """
import plugrad
def use(depth):
    return use(depth - 1) if depth else plugrad.deep(plugrad.ones(1)).item()
for depth in range(1100, 700, -7):
    try:
        use(depth)
    except RecursionError:
        pass
print(use(3))
"""
    assert output(program, tmp_path) == "2.0\n"


@pytest.mark.parametrize(("promised", "brought"), [("old", "new"), ("new", "old")])
def test_an_edited_manifest_has_to_be_installed_again(tmp_path, promised, brought):
    build(tmp_path, "plugrad-edited", {"plugrad.ops": {promised: "edited"}}, edited=op_module(brought))
    done = run(f"import plugrad; plugrad.{promised}", tmp_path)
    assert "if its manifest says so by now, install it again" in done.stderr


def test_of_two_versions_in_one_folder_the_newer_counts_and_the_list_says_so(tmp_path):
    for version, names in (("1.9", ("twofold", "gone")), ("1.10", ("twofold",))):
        points = {"plugrad.ops": dict.fromkeys(names, "twofold")}
        build(tmp_path, "plugrad-twofold", points, version, twofold=op_module("twofold"))
    program = "import plugrad; print(plugrad.twofold(plugrad.ones(1)).item(), hasattr(plugrad, 'gone'))"
    assert output(program, tmp_path) == "2.0 False\n"
    text = run(None, tmp_path, arguments=("-m", "plugrad.cli", "plugins")).stdout
    assert f"plugrad-twofold is installed several times, 1.10 in {tmp_path} counts, 1.9 in {tmp_path} not" in text


# ---------------------------------------------------------------------------------------------------- odd but harmless


def test_what_a_plugin_prints_stays_off_the_standard_output(tmp_path):
    source = "import sys\nprint('import noise')\nkept = sys.stdout\n" + op_module("noisy").replace(
        "    return collect", "    print('hook noise')\n    return collect"
    )
    build(tmp_path, "plugrad-noisy", {"plugrad": {"noisy": "plugrad_noisy"}}, plugrad_noisy=source)
    done = run(None, tmp_path, arguments=("-m", "plugrad.cli", "plugins", "--third-party", "--json"))
    assert json.loads(done.stdout)[0]["status"] == "loaded"
    assert lines(done.stderr) == ["import noise", "hook noise"]
    program = "import plugrad, plugrad_noisy; print('later', file=plugrad_noisy.kept); print('last')"
    assert lines(run(program, tmp_path).stdout) == ["later", "last"]


def test_a_plugin_that_takes_the_standard_streams_away(tmp_path):
    source = "import io, sys\nsys.stdout = sys.stderr = io.StringIO()\n" + op_module("thief")
    build(tmp_path, "plugrad-thief", {"plugrad": {"thief": "plugrad_thief"}}, plugrad_thief=source)
    done = run("import sys, plugrad; print(hasattr(plugrad, 'thief')); print('there', file=sys.stderr)", tmp_path)
    assert done.stdout == "False\n" and lines(done.stderr)[-1] == "there"
    assert "it changed sys.stdout, sys.stderr while it was loaded (plugrad put it back)" in done.stderr


def test_a_plugin_may_add_methods_and_use_other_ops_while_it_is_loaded(tmp_path):
    source = "import numpy, plugrad\nplugrad.Tensor.mine = lambda self: 5\n"
    source += "plugrad.nn.GELU()(plugrad.ones(1, 2))\n"
    source += "plugrad.ones(2).exp_() + plugrad.special.expit(plugrad.ones(2))\n"
    build(tmp_path, "plugrad-kind", {"plugrad": {"kind": "plugrad_kind"}}, plugrad_kind=source + op_module("kind"))
    program = "import plugrad; print(plugrad.ones(1).mine(), plugrad.kind(plugrad.ones(1)).item())"
    assert output(program, tmp_path) == "5 2.0\n"


def test_a_plugin_may_be_the_first_to_use_a_method_that_stands_in_a_room(tmp_path):
    uses = "import plugrad, copy\nplugrad.ones(2).untyped_storage(), plugrad.nn.Module().get_submodule('')\n"
    build(
        tmp_path, "plugrad-first", {"plugrad.ops": {"first": "plugrad_first"}},
        plugrad_first=uses + op_module("first", "xp.sin(input)"),
    )  # fmt: skip
    assert output("import plugrad; print(plugrad.first(plugrad.zeros(1)))", tmp_path) == "tensor([0.])\n"


def test_what_children_and_c_code_print_stays_off_the_standard_output(tmp_path):
    source = "import os, subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(1)'])\nos.write(1, b'2\\n')\n"
    build(tmp_path, "plugrad-loud", {"plugrad": {"loud": "plugrad_loud"}}, plugrad_loud=source + op_module("loud"))
    done = run(None, tmp_path, arguments=("-m", "plugrad.cli", "plugins", "--third-party", "--json"))
    assert json.loads(done.stdout)[0]["status"] == "loaded"
    assert lines(done.stderr) == ["1", "2"]


@pytest.mark.parametrize(
    "habit",
    [
        "import warnings\nwarnings.filterwarnings('ignore', module='plugrad_modest')",
        "import warnings\nwarnings.filterwarnings('ignore', message='modesty')",
        "import warnings\nclass Own(UserWarning): pass\nwarnings.simplefilter('always', Own)",
        "import scipy.special, scipy.sparse",
        "import os\nos.environ.setdefault('KMP_INIT_AT_FORK', 'FALSE')",
        "import plugrad\nplugrad.modest_helper = print",
        """
import codecs, copyreg, plugrad
from plugrad.distributions import Normal, register_kl
from plugrad.utils import _pytree
class Own(Normal): pass
register_kl(Own, Normal)(lambda p, q: 0)
_pytree.register_pytree_node(Own, lambda own: ([], None), lambda items, context: None)
plugrad.serialization.add_safe_globals([Own])
copyreg.pickle(Own, lambda own: (Own, ()))
codecs.register_error("modest", codecs.ignore_errors)
import asyncio, concurrent.futures.thread, csv, faulthandler, multiprocessing.spawn, ssl, tracemalloc, zipfile""",
        "import logging, multiprocessing.util, weakref\nkept = weakref.finalize(logging, print)\nkept.atexit = False",
    ],
)
def test_what_a_library_may_set_for_itself(tmp_path, habit):
    build(tmp_path, "plugrad-modest", {"plugrad.ops": {"modest": "plugrad_modest"}},
        plugrad_modest=f"{habit}\n{op_module('modest')}")  # fmt: skip
    assert output("import plugrad; print(plugrad.modest(plugrad.ones(1)).item())", tmp_path) == "2.0\n"


def test_random_numbers_that_another_thread_draws_are_not_the_plugins(tmp_path):
    source = "import time\ntime.sleep(0.3)\n" + op_module("slow")
    build(tmp_path, "plugrad-slow", {"plugrad.ops": {"slow": "plugrad_slow"}}, plugrad_slow=source)
    program = """
import threading, plugrad
stop = threading.Event()
def draw():
    while not stop.wait(0.01):
        plugrad.randn(3)
thread = threading.Thread(target=draw)
thread.start()
try:
    print(plugrad.slow(plugrad.ones(1)).item())
finally:
    stop.set()
    thread.join()
"""
    assert output(program, tmp_path) == "2.0\n"


OVERFLOWING = op_module("blow", "xp.exp(input * 1000)").replace("return g", "return g * F.blow(g)")


@pytest.mark.parametrize("policy", ["", "warnings.simplefilter('error')"])
def test_kernels_of_third_parties_overflow_in_silence(tmp_path, policy):
    build(tmp_path, "blow-up", {"plugrad.ops": {"blow": "blow_up"}}, blow_up=OVERFLOWING)
    program = f"""
import warnings, plugrad
for _ in range(2):
    x = plugrad.ones(2, requires_grad=True)
    plugrad.blow(x).sum().backward()
    assert plugrad.isinf(x.grad).all()
    {policy}
assert plugrad.isinf(plugrad.ones(1).blow()).all()
"""
    output(program, tmp_path)


def test_threads_that_need_one_plugin_at_once(tmp_path):
    slow = "import time, plugrad\nplugrad.count = getattr(plugrad, 'count', 0) + 1\ntime.sleep(0.3)\n"
    build(tmp_path, "plugrad-slow", {"plugrad.ops": {"slow": "plugrad_slow"}}, plugrad_slow=slow + op_module("slow"))
    build(tmp_path, "plugrad-bad", {"plugrad.ops": {"bad": "plugrad_bad"}}, plugrad_bad=slow + "1 + []")
    program = """
import importlib, threading, plugrad
from plugrad.registry.loader import PluginLoadError
def use(i):
    if i % 3 == 0:
        importlib.import_module("plugrad_slow")
    results.append(plugrad.slow(plugrad.ones(1)).item() if i % 2 else plugrad.ones(1).slow_().item())
    try:
        plugrad.bad
    except PluginLoadError as error:
        errors.append(str(error.__cause__))
results, errors = [], []
threads = [threading.Thread(target=use, args=(i,)) for i in range(8)]
[thread.start() for thread in threads]
[thread.join(200) for thread in threads]
assert not any(thread.is_alive() for thread in threads)
assert results == [2.0] * 8 and len(errors) == 8 and "unsupported operand" in errors[0], (results, errors)
assert plugrad.count == 2
"""
    output(program, tmp_path)


def test_two_plugins_that_import_each_others_names_in_two_threads(tmp_path):
    for one, other in (("left", "right"), ("right", "left")):
        source = f"import time, plugrad\ntime.sleep(0.1)\nneeded = '{other}' in dir(plugrad)\n" + op_module(one)
        build(tmp_path, f"plugrad-{one}", {"plugrad.ops": {one: f"plugrad_{one}"}}, **{f"plugrad_{one}": source})
    program = """
import threading, plugrad
threads = [threading.Thread(target=lambda n=n: getattr(plugrad, n)) for n in ("left", "right") * 4]
[thread.start() for thread in threads]
[thread.join(200) for thread in threads]
assert not any(thread.is_alive() for thread in threads)
assert plugrad.left(plugrad.right(plugrad.ones(1))).item() == 3
"""
    output(program, tmp_path)


# ---------------------------------------------------------------------------------------------------- metadata


def test_damaged_metadata_of_strangers_does_no_harm(tmp_path):
    build(tmp_path, "stranger", {"console_scripts": {"x": "y:z"}})
    (tmp_path / "stranger-1.0.dist-info" / "entry_points.txt").write_text("[plugrad.ops\nno equals sign\n= = =\n[x")
    for folder, points in (("leftover", b"[plugrad]\nx = \xff\xfe"), ("nameless", b"[plugrad]\nx = nothing")):
        (tmp_path / f"{folder}-1.0.dist-info").mkdir()
        (tmp_path / f"{folder}-1.0.dist-info" / "entry_points.txt").write_bytes(points)
    output("import plugrad; plugrad.ones(1)", tmp_path)


def test_metadata_that_is_not_utf8(tmp_path):
    build(tmp_path, "plugrad-latin", {"plugrad.ops": {"latin": "plugrad_latin"}}, plugrad_latin=op_module("latin"))
    info = tmp_path / "plugrad_latin-1.0.dist-info"
    text = b"Metadata-Version: 2.1\nName: plugrad-latin\nVersion: 4.0\nAuthor: Fran\xe7ois\n\nName: somebody-else\n"
    (info / "METADATA").write_bytes(text)
    version = "p.registry.loader.plugins['plugrad-latin:latin'].version"
    program = f"import plugrad as p; print(p.latin(p.ones(1)).item(), {version})"
    assert output(program, tmp_path) == "2.0 4.0\n"
    (info / "entry_points.txt").write_bytes(b"[plugrad.ops]\nlatin = plugrad_latin\nodd = fran\xe7ois\n")
    assert output(program, tmp_path) == "2.0 4.0\n"
    assert "failed at import: ModuleNotFoundError" in run(f"{program}; p.odd", tmp_path).stderr


def test_a_distribution_that_calls_itself_plugrad_is_a_third_partys(tmp_path):
    build(tmp_path, "plugrad", {"plugrad": {"mine": "plugrad_mine"}}, plugrad_mine="raise RuntimeError('not yours')")
    version = output("import importlib.metadata as m; print(m.version('plugrad'))", tmp_path)
    assert version == "1.0\n"  # it comes first on the path, and has no part of plugrad's own list
    done = run("import plugrad", tmp_path)
    assert "plugrad:mine 1.0 failed at import: RuntimeError: not yours" in done.stderr


def test_two_distributions_that_install_one_module(tmp_path):
    for name in ("plugrad-copy-b", "plugrad-copy-a"):
        build(tmp_path, name, {"plugrad.ops": {"same": "plugrad_same"}}, plugrad_same=op_module("same"))
    program = "import plugrad; print(plugrad.same(plugrad.ones(1)).item()); plugrad.ops.copy_b.same"
    done = run(program, tmp_path)
    assert done.stdout == "2.0\n"
    warning, *_, last = lines(done.stderr)
    for line in (warning, last):
        assert "plugrad-copy-b:same 1.0 failed at discovery: ImportError: its module 'plugrad_same' is also" in line
        assert "plugrad-copy-a:same" in line and "PLUGRAD_BLOCK=plugrad-copy-a" in line
    kept = output("import plugrad; plugrad.ops.copy_b.same; print(plugrad.same.__op__.provider.id)", tmp_path,
                  PLUGRAD_BLOCK="plugrad-copy-a")  # fmt: skip
    assert kept == "plugrad-copy-b:same\n"


FORMAT = """
from plugrad.extend import hookimpl
from plugrad.formats import Format

class Failing(Format):
    '''A format that fails.'''

    name, suffixes = "failing", (".failing",)

    {body}

@hookimpl
def plugrad_formats():
    return [Failing]
"""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (FORMAT.format(body="def recognises(self, source): raise ValueError('no luck')"), "ValueError: no luck"),
        (FORMAT.format(body="def save(self, obj, file): file.write(b'')"), "does not recognise files"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_format_that_fails_is_left_out_where_files_are_recognised(tmp_path, source, said):
    build(tmp_path, "plugrad-failing", {"plugrad.formats": {"failing": "plugin_failing"}}, plugin_failing=source)
    (tmp_path / "file.bin").write_bytes(b"hello")
    program = f"""
import plugrad
plugrad.save({{"a": plugrad.ones(2)}}, {str(tmp_path / "own.pt")!r})
assert plugrad.load({str(tmp_path / "own.pt")!r})["a"].tolist() == [1, 1]
try:
    plugrad.load({str(tmp_path / "file.bin")!r})
except plugrad.serialization.CheckpointError as error:
    assert "is not a checkpoint" in str(error) and "'failing' could not be asked" in str(error), error
    print(error)
assert plugrad.formats.by_suffix("x.npz").name == "npz" and plugrad.formats.by_suffix("x.unknown") is None
"""
    assert said in output(program, tmp_path)
