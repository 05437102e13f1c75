"""Plugins with one fault each: what the plugin module is, at which stage it fails, and what the error says.

Each promises the op or class that bears its name. `value` is the entry point's value where it is not just the module.
"""

from __future__ import annotations

import importlib.machinery

from support.distribution_builder import build, op_module

GOOD = op_module("{name}")

LIBRARY = "import ctypes\nctypes.CDLL('libplugrad_is_not_there.so.7')\n"

UNPRINTABLE = """
class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text either")
raise Unprintable
"""

RAISING_HOOK = op_module("{name}").replace("    return", "    raise LookupError('in the hook')\n    return")

HALF_A_GENERATOR = op_module("{name}").replace("    return collect(Op, globals())", "    yield {name}\n    1 / 0")

OWN_LAYER = """
from plugrad.extend import Module, collect, hookimpl
from plugrad.nn import OwnLayer

class OwnLayer(Module):
    pass

@hookimpl
def plugrad_layers():
    return collect(Module, globals())
"""

NO_GRADIENT = """
from plugrad.extend import {family}, hookimpl

@{family}()
def {{name}}(xp, input{more}):
    return input

@hookimpl
def plugrad_ops():
    return [{{name}}]
"""

NAMELESS = """
from plugrad.extend import hookimpl

@hookimpl
def plugrad_inits():
    return [lambda tensor: tensor]
"""

KERNEL = """
from plugrad.extend import hookimpl, kernel_for

@kernel_for("{op}", "cpu")
def {name}({parameters}):
    return input

@hookimpl
def plugrad_kernels():
    return [{name}]
"""

CLASS = """
from plugrad.extend import Backend, LRScheduler, Module, Optimizer, hookimpl

class {name}({base}):
    {body}

@hookimpl
def plugrad_{kind}():
    return [{name}]
"""

HALF = """
from plugrad.extend import Backend, Kernel, Module, hookimpl, kernel_for, unary

@unary()
def half_first(xp, input):
    return input + 1

@half_first.vjp
def half_first_vjp(F, g):
    return g

@unary()
def halfway(xp, input):
    return input

@unary()
def half_third(xp, input):
    return input

@half_third.vjp
def half_third_vjp(F, g):
    return g

@kernel_for("tan", "cpu")
def half_tan(xp, input):
    return 7 + input

class HalfLayer(Module):
    pass

class HalfDevice(Backend):
    name = "half_device"
    from_numpy = to_numpy = lambda self, array, index=0: array

@hookimpl
def plugrad_layers():
    return [HalfLayer]

@hookimpl
def plugrad_kernels():
    return [half_tan]

@hookimpl
def plugrad_backends():
    return [HalfDevice]

@hookimpl
def plugrad_ops():
    return [half_first, halfway, half_third]
"""


def _class(name, kind, base, body="pass"):
    return CLASS.format(name=name, kind=kind, base=base, body=body)


def _after(name, code):
    """A plugin that does something to its host before it registers what it promised."""
    return f"import plugrad\n{code}\n" + op_module(name)


def _kernel(arguments):
    """A plugin whose op is declared by something else than a plain function, or with odd options."""
    return f"import numpy\nfrom plugrad.extend import unary\n{{name}} = unary({arguments}, name='{{name}}')\n"


# What a module does to its host while it is imported, and what the error calls it.
HARM = {
    "wrapping_a_method": ("""
import functools
old = plugrad.nn.Linear.forward
@functools.wraps(old)
def forward(self, input):
    return old(self, input) + 1
plugrad.nn.Linear.forward = forward""", "Linear.forward"),
    "wrapping_a_call": ("""
import functools
old = plugrad.nn.Module.__call__
plugrad.nn.Module.__call__ = functools.wraps(old)(lambda self, *args: old(self))""", "it changed Module.__call__"),
    "wrapping_a_function": ("""
import functools
old = plugrad.tanh
plugrad.tanh = functools.wraps(old)(lambda *args: old(*args))""", "plugrad.tanh"),
    "wrapping_a_core_function": ("""
import functools
plugrad.from_numpy = functools.wraps(plugrad.from_numpy)(lambda array: None)""", "plugrad.from_numpy"),
    "exchanging_what_a_method_does": ("""
def forward(self, input):
    return input
plugrad.nn.Linear.forward.__code__ = forward.__code__""", "Linear.forward does"),
    "exchanging_a_default": ("plugrad.manual_seed.__defaults__ = (3,)", "manual_seed does"),
    "patching_a_step": ("plugrad.optim.Adam.step = lambda self: None", "Adam.step"),
    "patching_an_inner_function": ("import plugrad.autograd.fit\nplugrad.autograd.fit.fit = print", "autograd.fit.fit"),
    "patching_an_abstract_base": ("plugrad.nn.Module.train = print", "Module.train"),
    "exchanging_two_methods": ("plugrad.Tensor.tanh = plugrad.Tensor.backward", "Tensor.tanh"),
    "changing_a_dtype": ("plugrad.float32 = plugrad.float64", "plugrad.float32"),
    "changing_a_constant": ("plugrad.pi = 3", "plugrad.pi"),
    "deleting_a_core_function": ("del plugrad.from_numpy", "plugrad.from_numpy"),
    "deleting_a_core_method": ("del plugrad.Tensor.backward", "Tensor.backward"),
    "replacing_a_kernel": ("plugrad.registry.op('tanh').kernels['*'] = lambda xp, input: input", "record of op 'tanh'"),
    "emptying_formulas": ("plugrad.registry.op('tanh').formulas.clear()", "record of op 'tanh'"),
    "patching_numpy": ("import numpy\nnumpy.tanh = numpy.sinh", "numpy.tanh"),
    "patching_print": ("import builtins\nbuiltins.print = len", "builtins.print"),
    "a_function_mode": ("plugrad.overrides.TorchFunctionMode().__enter__()", "function modes"),
    "a_dispatch_mode": ("""
from plugrad.utils._python_dispatch import TorchDispatchMode
TorchDispatchMode().__enter__()""", "dispatch modes"),
    "a_hook_on_ops": ("from plugrad.extend import OpHook\nOpHook().__enter__()", "hooks on ops"),
    "an_installed_hook": ("from plugrad.extend import OpHook\nOpHook().install()", "hooks on ops of all threads"),
    "a_hook_on_modules": ("""
plugrad.nn.modules.module.register_module_forward_hook(lambda module, args, output: output + 1)""",
                          "hooks of all modules"),
    "no_grad": ("plugrad.set_grad_enabled(False)", "the grad mode"),
    "inference": ("plugrad.inference_mode().__enter__()", "inference mode"),
    "anomaly": ("plugrad.autograd.set_detect_anomaly(True)", "anomaly mode"),
    "zero_safe": ("plugrad.autograd.set_zero_safe(True)", "zero_safe"),
    "saved_hooks": ("plugrad.autograd.graph.saved_tensors_hooks(id, id).__enter__()", "hooks on saved tensors"),
    "a_device": ("plugrad.device('meta').__enter__()", "the device of a `with` block"),
    "another_mode": ("plugrad.graph.modes.mode.no_override = True", "the mode 'no_override'"),
    "a_default_dtype": ("plugrad.set_default_dtype(plugrad.float64)", "the default dtype"),
    "a_default_device": ("plugrad.set_default_device('meta')", "the default device"),
    "print_options": ("plugrad.set_printoptions(precision=2)", "print options (precision)"),
    "a_fallback": ("plugrad.backends.fallback()", "what may fall back to the CPU"),
    "an_accelerator": ("plugrad.backends.set_accelerator('cpu')", "the accelerator"),
    "seeding": ("plugrad.manual_seed(0)", "the state of random number generators"),
    "drawing": ("plugrad.randn(3)", "the state of random number generators"),
    "seeding_numpy": ("import numpy\nnumpy.random.seed(0)", "the state of NumPy's random numbers"),
    "drawing_of_numpy": ("import numpy\nnumpy.random.rand()", "the state of NumPy's random numbers"),
    "seeding_python": ("import random\nrandom.seed(0)", "the state of Python's random numbers"),
    "numpy_errors": ("import numpy\nnumpy.seterr(all='raise')", "NumPy's error state"),
    "numpy_printing": ("import numpy\nnumpy.set_printoptions(precision=2)", "NumPy's print options (precision)"),
    "ignoring_warnings": ("import warnings\nwarnings.simplefilter('ignore')", "the filters of warnings"),
    "another_directory": ("import os\nos.chdir('/')", "the working directory"),
    "a_signal_handler": ("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)", "signal handlers"),
    "no_collector": ("import gc\ngc.disable()", "the garbage collector"),
    "a_recursion_limit": ("import sys\nsys.setrecursionlimit(50000)", "the recursion limit"),
    "environment": ("import os\nos.environ['OMP_NUM_THREADS'] = '77'", "the environment (OMP_NUM_THREADS)"),
    "tables": ("plugrad.registry.plugins.clear()\nplugrad.registry.backends.pop('meta')", "it changed the plugin"),
    "import_path": ("import sys\nsys.path.insert(0, '/nowhere')", "sys.path"),
    "before_its_first_use": ("plugrad.load = print", "plugrad.load"),
    "in_a_room": ("import plugrad.func\nplugrad.func.hessian = print", "plugrad.func.hessian"),
    "a_class_in_a_room": ("plugrad.utils.data.DataLoader.__len__ = lambda self: 0", "DataLoader.__len__"),
    "patching_chance": ("import random\nrandom.random = lambda: 0", "random.random"),
    "patching_pickles": ("import pickle\npickle.dumps = print", "pickle.dumps"),
    "patching_algebra": ("import numpy\nnumpy.linalg.svd = print", "numpy.linalg.svd"),
    "patching_math": ("import math\nmath.exp = print", "math.exp"),
    "all_messages": ("import warnings\nwarnings.filterwarnings('ignore', message='.*')", "the filters of warnings"),
    "deterministic": ("plugrad.use_deterministic_algorithms(True)", "deterministic algorithms"),
    "a_mask_of_modes": ("import os\nos.umask(0o777)", "the mask of new files' modes"),
    "switching": ("import sys\nsys.setswitchinterval(1)", "the interval at which threads switch"),
    "tracing": ("import sys\nsys.settrace(lambda *given: None)", "tracing or profiling"),
    "no_tracebacks": ("import sys\nsys.excepthook = print", "sys (excepthook)"),
    "decimals": ("import decimal\ndecimal.getcontext().prec = 3", "how decimal numbers are computed (prec)"),
    "traps": ("import decimal\ndecimal.getcontext().traps[decimal.Inexact] = True", "are computed (traps)"),
    "rounding": ("import decimal\ndecimal.getcontext().rounding = 'ROUND_DOWN'", "are computed (rounding)"),
    "logging": ("import logging\nlogging.basicConfig(level='DEBUG')", "loggers (root)"),
    "a_level": ("import logging\nlogging.getLogger().setLevel(10)", "loggers (root)"),
    "a_filter": ("import logging\nlogging.getLogger().addFilter(lambda record: False)", "loggers (root)"),
    "no_messages": ("import logging\nlogging.disable(50)", "loggers (disable)"),
    "our_messages": ("import logging\nlogging.getLogger('plugrad').disabled = True", "loggers (plugrad)"),
    "finder": ("import sys\nsys.meta_path.insert(0, type('F', (), {'find_spec': lambda *a: None})())", "sys.meta_path"),
    "no_finders": ("import sys\ndel sys.meta_path[-1]", "sys.meta_path"),
    "path_hook": ("import sys\nsys.path_hooks.insert(0, sys.path_hooks[-1])", "sys.path_hooks"),
    "sockets": ("import socket\nsocket.setdefaulttimeout(0.1)", "the default timeout of sockets"),
    "spawning": ("import multiprocessing\nmultiprocessing.set_start_method('spawn', force=True)", "start method"),
    "showing": ("import warnings\nwarnings.showwarning = print", "warnings (showwarning)"),
    "threads_errors": ("import threading\nthreading.excepthook = print", "threading.excepthook"),
    "an_alarm": ("import signal\nsignal.alarm(1000)", "the timer of alarms"),
    "another_module": ("import sys\nsys.modules['numpy.linalg'] = sys", "sys.modules (numpy.linalg)"),
    "a_module_lost": ("import sys\ndel sys.modules['numpy.linalg']", "sys.modules (numpy.linalg)"),
    "a_module_blocked": ("import sys\nsys.modules['turtle'] = None", "sys.modules (turtle)"),
    "a_callback": ("import numpy\nnumpy.seterrcall(print)", "NumPy's error callback"),
    "a_buffer": ("import numpy\nnumpy.setbufsize(16)", "NumPy's buffer size"),
    "fewer_files": ("""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))""",
                    "the limits of resources (RLIMIT_NOFILE)"),
    "small_stacks": ("import threading\nthreading.stack_size(1 << 20)", "the size of threads' stacks"),
    "few_digits": ("import sys\nsys.set_int_max_str_digits(700)", "the limit of digits"),
    "patching_the_system": ("import os\nos.getcwd = lambda: '/'", "os.getcwd"),
    "patching_the_clock": ("import time\ntime.time = lambda: 0", "time.time"),
    "another_generator": ("import numpy\nnumpy.random.set_bit_generator(numpy.random.PCG64(3))",
                          "the state of NumPy's random numbers"),
    "a_time_zone": ("import os, time\nos.environ['TZ'] = 'Asia/Tokyo'\ntime.tzset()", "the environment (TZ)"),
    "tracing_threads": ("import threading\nthreading.settrace(lambda *given: None)", "threading._trace_hook"),
    "watching_coroutines": ("import sys\nsys.set_asyncgen_hooks(firstiter=print)", "how coroutines are watched"),
    "a_debugged_collector": ("import gc\ngc.set_debug(gc.DEBUG_UNCOLLECTABLE)", "the garbage collector"),
    "other_arguments": ("import sys\nsys.argv = ['other']", "sys.argv"),
    "held_signals": ("import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])",
                     "which signals are held back"),
    "another_timer": ("import signal\nsignal.setitimer(signal.ITIMER_VIRTUAL, 1000)", "the timer of alarms"),
    "a_class_of_loggers": ("import logging\nlogging.setLoggerClass(type('L', (logging.Logger,), {}))",
                           "logging._loggerClass"),
    "no_errors": ("import os\nos.dup2(os.open(os.devnull, os.O_WRONLY), 2)", "the file behind descriptor 2"),
    "no_input": ("import os\nos.close(0)", "the file behind descriptor 0"),
    "no_output": ("import os\nos.close(1)", "the file behind descriptor 1"),
    "patching_transforms": ("import numpy\nnumpy.fft.fft = print", "numpy.fft.fft"),
    "patching_drawing": ("import numpy\nnumpy.random.rand = print", "numpy.random.rand"),
    "patching_tools": ("import functools\nfunctools.wraps = print", "functools.wraps"),
    "a_hook_on_registering": ("""
plugrad.nn.modules.module.register_module_parameter_registration_hook(lambda module, name, p: None)""",
                              "hooks of all modules"),
    "a_hook_on_steps": ("plugrad.optim.optimizer.register_optimizer_step_post_hook(print)", "hooks of all optimizers"),
    "a_switch": ("plugrad.backends.cuda.matmul.allow_tf32 = True", "torch.backends (cuda.matmul.allow_tf32)"),
    "warning_always": ("plugrad.set_warn_always(True)", "whether warnings are given each time"),
    "converting": ("plugrad.__future__.set_overwrite_module_params_on_conversion(True)", "how modules are converted"),
    "a_policy": ("plugrad.amp.policies.register_autocast('tanh', 'cpu', 'float32')", "the record of op 'tanh'"),
    "a_shape_rule": ("plugrad.registry.op('tanh').meta(lambda input: ((1,), input.dtype))", "record of op 'tanh'"),
    "an_end_of_threads": ("import threading\nthreading._register_atexit(print)", "is called when threads have ended"),
    "an_audit": ("import sys\nsys.addaudithook(lambda *given: None)", "event of the interpreter (sys.addaudithook)"),
    "encodings": ("import codecs\ncodecs.register(lambda name: None)", "how encodings are found (codecs.register)"),
    "encoding_errors": ("import codecs\ncodecs.register_error('strict', print)", "codecs do about errors (strict)"),
    "pickling": ("import copyreg\ncopyreg.pickle(dict, lambda given: (dict, ()))", "copied and pickled ('dict')"),
    "collecting": ("import gc\ngc.callbacks.append(lambda *given: None)", "when garbage is collected (gc.callbacks)"),
    "crashes": ("import faulthandler\nfaulthandler.enable()", "when the process crashes (faulthandler)"),
    "printing_stacks": ("import faulthandler\nfaulthandler.dump_traceback_later(1000)", "when time is up"),
    "forks": ("import os\nos.register_at_fork(before=lambda: None)", "register_at_fork) while it was loaded (what"),
    "a_new_builtin": ("import builtins\nbuiltins.helper = len", "builtins.helper"),
    "no_warnings": ("import warnings\nwarnings.warn = print", "warnings (warn)"),
    "caught_warnings": ("import warnings\nwarnings.catch_warnings(record=True).__enter__()", "warnings (_showwarn"),
    "named_levels": ("import logging\nlogging.addLevelName(30, 'HM')", "loggers (names of levels)"),
    "silent_loggers": ("import logging\nlogging.raiseExceptions = False", "loggers (raiseExceptions)"),
    "environment_of_c": ("import os\nos.putenv('OMP_NUM_THREADS', '7')", "environment of children (os.putenv)"),
    "loops": ("""
import asyncio
asyncio.set_event_loop_policy(type("Own", (asyncio.DefaultEventLoopPolicy,), {})())""", "how event loops are made"),
    "leaving": ("import sys\nsys.exit = print", "sys (exit)"),
    "short_tracebacks": ("import sys\nsys.tracebacklimit = 0", "sys (tracebacklimit)"),
    "other_modules": ("import sys\nsys.modules = dict(sys.modules)", "sys (modules)"),
    "a_planted_module": ("import sys, types\nsys.modules['torch'] = types.ModuleType('torch')", "sys.modules (torch)"),
    "patching_core_of_numpy": ("import numpy._core.numeric as core\ncore.ones = print", "numpy._core.numeric.ones"),
    "patching_a_class": ("import json\njson.JSONEncoder.default = print", "json.encoder.JSONEncoder.default"),
    "patching_copies": ("import copy\ncopy.deepcopy = print", "copy.deepcopy"),
    "certificates": ("import ssl\nssl._create_default_https_context = ssl._create_unverified_context", "ssl._create"),
    "allocations": ("import tracemalloc\ntracemalloc.start()", "whether allocations are watched (tracemalloc)"),
    "fields": ("import csv\ncsv.field_size_limit(3)", "the limit of fields in CSV files"),
    "another_python": ("import multiprocessing\nmultiprocessing.set_executable('/no')", "what runs children of the"),
    "waking": ("import os, signal\nsignal.siginterrupt(signal.SIGINT, False)", "signals interrupt calls of the system"),
    "asked_by_python": ("plugrad.Tensor.__getattr__ = lambda self, name: 3", "Tensor.__getattr__"),
    "other_bases": ("""
class Between(plugrad.nn.Module):
    pass
plugrad.nn.Linear.__bases__ = (Between,)""", "Linear.__bases__"),
    "trusting": ("plugrad.serialization.add_safe_globals([eval])", "what load trusts (add_safe_globals)"),
    "a_divergence": ("""
from plugrad.distributions import Normal, register_kl
register_kl(Normal, Normal)(lambda p, q: 0)""", "divergences of distributions"),
    "trees": ("from plugrad.utils import _pytree\n_pytree.SUPPORTED_NODES[dict] = None", "trees are made of ('dict')"),
    "temporary_files": ("import tempfile\ntempfile.tempdir = '/nowhere'", "the folder of temporary files"),
    "no_prints": ("import io, sys\nsys.stdout = io.StringIO()", "sys.stdout"),
    "no_errors_printed": ("import io, sys\nsys.stderr = io.StringIO()", "sys.stderr"),
    "another_encoding": ("import sys\nsys.stdout.reconfigure(encoding='latin-1')", "written (__stderr__"),
    "never_waiting": ("import os\nos.set_blocking(2, False)", "whether standard files wait"),
    "shared_symbols": ("import sys\nsys.setdlopenflags(sys.getdlopenflags() | 256)", "how libraries are loaded"),
    "frozen_garbage": ("import gc\ngc.freeze()", "the garbage collector"),
    "patching_paths": ("import pathlib\npathlib.Path.exists = lambda self: True", "pathlib.Path.exists"),
    "patching_imports": ("import importlib\nimportlib.import_module = print", "importlib.import_module"),
    "patching_children": ("import subprocess\nsubprocess.run = print", "subprocess.run"),
    "unfilled": ("plugrad.utils.deterministic.fill_uninitialized_memory = False", "what new memory holds"),
    "unchecked": ("plugrad.distributions.Distribution.set_default_validate_args(False)", "check their arguments"),
    "an_end": ("import atexit\n@atexit.register\ndef farewell():\n    print('bye')",
               "what is called at the end of the program (atexit: 'farewell')"),
    "an_end_of_pythons": ("import atexit, functools, os\natexit.register(functools.partial(os._exit, 0))",
                          "what is called at the end of the program (atexit: 'partial')"),
    "a_thread": ("import threading, time\nthreading.Thread(target=time.sleep, args=(3,)).start()",
                 "the threads for which the program waits at its end"),
    "a_locale": ("import locale\nlocale.setlocale(locale.LC_ALL, 'C.UTF-8')", "the locale"),
}  # fmt: skip


# name -> (kind of entry point, source, stage, text of the error)
FAULTS = {
    "missing_import": ("ops", "import nowhere_at_all", "import", "No module named 'nowhere_at_all'"),
    "broken_syntax": ("ops", "def (:", "import", "SyntaxError"),
    "exiting": ("ops", "raise SystemExit(3)", "import", "SystemExit: 3"),
    "exiting_oddly": ("ops", "import sys; sys.exit('bye')", "import", "SystemExit: bye"),
    "base_exception": ("ops", "raise GeneratorExit", "import", "GeneratorExit"),
    "no_isinstance": ("ops", "import builtins; builtins.isinstance = None\nraise ImportError", "import", "ImportError"),
    "missing_library": ("ops", LIBRARY, "import", "OSError: libplugrad_is_not_there.so.7"),
    "missing_attribute": ("ops", "x = 1", "import", "AttributeError: module 'plugrad_missing_attribute' has no"),
    "unprintable": ("ops", UNPRINTABLE, "import", "Unprintable: <exception str() failed>"),
    "recursive": ("ops", "def f():\n    f()\nf()", "import", "RecursionError"),
    "own_name": ("ops", "import plugrad\nplugrad.own_name", "import", "uses a name of its own while it is being"),
    "OwnLayer": ("layers", OWN_LAYER, "import", "uses a name of its own while it is being imported"),
    "wrong_api": ("ops", GOOD + "plugrad_api = (7, 9)", "API check", "written for plugin API 7 to 9"),
    "raising_hook": ("ops", RAISING_HOOK, "hooks", "LookupError: in the hook"),
    "exiting_hook": ("ops", RAISING_HOOK.replace("LookupError", "SystemExit"), "hooks", "SystemExit: in the hook"),
    "half_generator": ("ops", HALF_A_GENERATOR, "hooks", "ZeroDivisionError"),
    "hook_of_nothing": ("ops", GOOD.replace("return collect(Op, globals())", "return 3"), "hooks", "TypeError"),
    "misspelt_hook": ("ops", GOOD.replace("plugrad_ops", "plugrad_opss"), "hooks",
                      "unknown hook 'plugrad_opss'; did you mean 'plugrad_ops'?"),
    "unmarked_hook": ("ops", GOOD.replace("@hookimpl", ""), "hooks", "plugrad_ops looks like the hook plugrad_ops but"),
    "record_alone": ("ops", GOOD.replace("collect(Op, globals())", "{name}"), "hooks",
                "must return a list, it returned <Op"),
    "dict_of_records": ("ops", GOOD.replace("collect(Op, globals())", "{'{name}': {name}}"), "hooks",
                "must return a list"),
    "no_return": ("ops", GOOD.replace("return collect", "collect"), "hooks",
                "it returned None: its `return` is missing"),
    "hook_with_argument": ("ops", GOOD.replace("ops()", "ops(registry)"), "hooks", "is called without arguments"),
    "note_on_error": ("ops", "e = ValueError('itself')\ne.add_note('a\\nnote')\nraise e", "import",
                "ValueError: itself"),
    "ufunc": ("ops", _kernel("numpy.cbrt"), "import",
                "is declared by a function written `def cbrt(xp, input, ...)`, not"),
    "variadic": ("ops", _kernel("lambda xp, *args: args[0]"), "import", "takes *args or **kwargs: name its parameters"),
    "misspelt_option": ("ops", _kernel("lambda xp, x: x, vjpp=None"), "import",
                "no option 'vjpp'; did you mean 'vjp'?"),
    "like_nothing": ("ops", _kernel("lambda xp, x: x, like='y'"), "import", "like='y' must be one of x"),
    "formula_as_option": ("ops", _kernel("lambda xp, x: x, vjp=abs"), "import",
                "declare one by @formula_as_option.vjp"),
    "two_formulas": ("ops", GOOD + "{name}.vjp(lambda F, g: g)\n", "import",
                "has a gradient formula for 'input' already"),
    "trailing_": ("ops", op_module("trailing_"), "registration",
                "in-place forms come with their ops: promise 'trailing'"),
    "aliased": ("ops", op_module("aliased", options="aliases=('unpromised',)"), "registration",
                "it brings 'unpromised', which no entry point promises"),
    "misplaced": ("ops", op_module("misplaced", options="at=('special.misplaced',)"), "registration",
                  """add `"special.misplaced" = "plugrad_misplaced"` to"""),
    "nowhere": ("ops", op_module("nowhere", options="at=('nowhere', 'no.nowhere')"), "registration",
                "op 'nowhere' can't be public as 'no.nowhere': ops are public in plugrad, plugrad.Tensor"),
    "no_hooks": ("ops", "x = 1", "hooks", "'plugrad_no_hooks' has no hooks"),
    "lying": ("ops", op_module("something_else"), "registration", "promises 'lying' in plugrad.ops, but it brings"),
    "more_than_promised": ("ops", GOOD + op_module("unpromised"), "registration", "no entry point promises: add"),
    "hidden_kernel": ("ops", GOOD + KERNEL.format(op="cos", name="k", parameters="xp, input"), "registration",
                      "it brings 'cos', which no entry point promises"),
    "record_of_another_kind": ("ops", GOOD.replace("collect(Op, globals())", "[print]"), "registration",
                               "the hook plugrad_ops must return Op records; it returned <built-in function print>"),
    "no_gradient": ("ops", NO_GRADIENT.format(family="unary", more=""), "registration", "op 'no_gradient' has no"),
    "no_gradient_of_op": ("ops", NO_GRADIENT.format(family="op", more=", dim=0"), "registration", "has no gradient"),
    "half_a_gradient": ("ops", NO_GRADIENT.format(family="binary", more=", other").replace(
        "@hookimpl", "{name}.vjp(lambda F, g: g)\n\n@hookimpl"), "registration", "has no gradient for 'other'"),
    "twice": ("ops", GOOD.replace("collect(Op, globals())", "[twice, twice]"), "registration", "is declared twice"),
    "odd_place": ("ops", op_module("odd_place", options="at=('odd_place', 'no name')"), "registration", "'no name'"),
    "kernel_parameters": ("kernels", KERNEL.format(op="tan", name="kernel_parameters", parameters="input"),
                          "registration", "takes (input), it must take (xp, input)"),
    "kernel_of_nothing": ("kernels", KERNEL.format(op="no_such_op", name="k", parameters="xp, input"), "registration",
                          "there is no op named 'no_such_op'"),
    "NoModule": ("layers", _class("NoModule", "layers", "object"), "registration", "must return Module classes"),
    "NoOptimizer": ("optimizers", _class("NoOptimizer", "optimizers", "Optimizer"), "registration", "has neither `upd"),
    "NoScheduler": ("schedulers", _class("NoScheduler", "schedulers", "LRScheduler"), "registration", "has neither"),
    "nameless_device": ("backends", _class("nameless_device", "backends", "Backend"), "registration",
                        "needs a name that is a Python name, not None"),
    "half_device": ("backends", _class("Half", "backends", "Backend", "name = 'half_device'"), "registration",
                    "backend 'half_device' has no from_numpy and no to_numpy"),
    "nameless_": ("inits", NAMELESS, "registration", "needs a name that is a Python name, not '<lambda>'"),
    "deleting_a_method": ("ops", _after("deleting_a_method", "del plugrad.Tensor.tanh"), "hooks", "Tensor.tanh"),
    "deleting_the_registry": ("ops", _after("deleting_the_registry", "plugrad.registry.ops.clear()"), "hooks",
                              "it changed the op"),
    "patching_a_function": ("ops", _after("patching_a_function", "plugrad.tanh = len"), "hooks", "plugrad.tanh"),
    "patching_an_operator": ("ops", _after("patching_an_operator", "plugrad.Tensor.__add__ = len"), "hooks",
                             "it changed Tensor.__add__"),
    "patching_the_core": ("ops", _after("patching_the_core", "plugrad.Tensor.backward = print"), "hooks",
                          "it changed Tensor.backward"),
    "changing_defaults": ("ops", _after("changing_defaults", "plugrad.set_default_dtype(plugrad.float64)"), "hooks",
                          "it changed the default dtype"),
    "registering_kernels": ("ops", _after("registering_kernels", """
from plugrad.extend import kernel_for, register
@kernel_for("tanh", "cpu")
def other(xp, input):
    return input
register(other)"""), "import", "register() is for programs"),
    "preferring_itself": ("ops", _after("preferring_itself", "plugrad.registry.prefer('relu', 'me')"), "import",
                          "can't set the user's preferences"),
}  # fmt: skip
FAULTS |= {
    f"harm_{name}": ("ops", _after(f"harm_{name}", code), "hooks", text) for name, (code, text) in HARM.items()
}
PLACES = {"layers": "nn", "optimizers": "optim", "schedulers": "optim.lr_scheduler", "inits": "nn.init"}
PROMISED = {"kernel_parameters": "tan", "kernel_of_nothing": "no_such_op"}  # names of kernels are those of their ops


def build_all(folder) -> None:
    """Install all of them, and one whose extension module is no library."""
    for name, (kind, source, _, _) in FAULTS.items():
        module = f"plugrad_{name}"
        value = f"{module}:nothing.there" if name == "missing_attribute" else module
        points = {f"plugrad.{kind}": {PROMISED.get(name, name): value}}
        build(folder, f"plugrad-{name}", points, "1.2", **{module: source.replace("{name}", name)})
    build(folder, "plugrad-extension", {"plugrad.ops": {"extension": "plugrad_extension"}}, "1.2")
    (folder / f"plugrad_extension{importlib.machinery.EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")
