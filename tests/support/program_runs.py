"""Run a program, a list of statements about a module `T`, on two libraries; find the first difference; shrink it.

A difference says what differs (values, dtype, shape, strides, flags, grad_fn, grad, an error that only one raises, the
hooks that ran), at which statement, and what each of the two showed.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import re
import warnings

import numpy as np

from support.program_prelude import PRELUDE

# Nodes of ops that consist of other ops in one of the two libraries, or that PyTorch makes anew for views after writes.
ANY_VIEW = ("AliasBackward", "AsStridedBackward", "CppFunction")
SAME_NODES = {
    "AddmmBackward ViewBackward", "BmmBackward ViewBackward", "CloneBackward CopyBackwards",
    "MeanBackward VarMeanBackward",
    "CopyBackward CopyBackwards", "ConjPhysicalBackward CopyBackward", "CopyBackwards CopySlices",
    "CloneBackward MmBackward", "CopySlices FillBackward",
    "CopySlices IndexPutBackward", "DivBackward MulBackward", "DotBackward MmBackward", "ImagBackward SelectBackward",
    "MmBackward UnsafeViewBackward", "RsubBackward SubBackward", "SumBackward TraceBackward",
    "UnsafeViewBackward ViewBackward", "VarBackward VarMeanBackward", "SliceBackward UnsqueezeBackward",
    "RealBackward SelectBackward", "SelectBackward SliceBackward", "MmBackward SqueezeBackward",
    "MmBackward MvBackward", "AddBackward AddmmBackward", "MmBackward TransposeBackward",
    "ReshapeAliasBackward ViewBackward", "CloneBackward ToCopyBackward", "AddAtBackward IndexPutBackward",
    "AddAtBackward IndexPutImplBackward", "ComplexBackward PolarBackward",
}  # fmt: skip


# Calls that consist of several ops in one of the two libraries, the last of which names the node: what it is called is
# not compared in programs that have one.
COMPOSED = """
_loss( entropy( vmap( func. functional. functional_call( checkpoint norm( normalize( dist( distance( similarity(
eigvalsh( logdet( slogdet( det( inv( cholesky( matrix_power( multi_dot( chain_matmul( tensordot( addmm( baddbmm(
kron( cov( glu( block_diag( _scatter( std_mean( repeat_interleave( solve( heaviside( trapezoid( vander(
combinations( cartesian_prod( diff( rot90( tile( nanmean( nansum( quantile( float_power( softmin( atleast_2d(
take_along_dim( diag( diag_embed( dual_level( bernoulli_( exponential_( cauchy_(
random_( uniform_( normal_( T.normal( autocast( sparse channel_shuffle( sinc( index_reduce(
""".split()


def names_nodes(statement: str) -> bool:
    """Whether nodes that come of a statement have the same name in both libraries."""
    return not any(word in statement for word in COMPOSED) and not re.search(r"= m\d+\(|lambda a: .*\)\(", statement)


def same_node(expected, actual, named: bool) -> bool:
    """Whether the names of two nodes are the same, or mean the same; if not `named`, whether there are nodes."""
    if expected == actual or None in (expected, actual):
        return expected == actual
    if not named or expected in ANY_VIEW or actual == "ToCopyBackward":
        return True
    return " ".join(sorted((expected, actual))) in SAME_NODES


def tolerance_of(run) -> float:
    """The relative and absolute tolerance for the values of a run: gradients of gradients lose digits."""
    dtypes = {str(tensor.dtype) for tensor in run.tensors().values()}
    if dtypes & {"torch.float16", "torch.bfloat16"}:
        return 5e-2
    return 2e-4 if dtypes & {"torch.float32", "torch.complex64"} else 1e-7


@dataclasses.dataclass
class Difference:
    """What two libraries show differently after a statement of a program."""

    kind: str
    position: int  # of the statement; their number for what is seen at the end
    name: str  # of the variable
    expected: object
    actual: object
    message: str = ""
    raised: bool = False  # whether a statement raised an error, in both

    def __str__(self):
        message = f" ({self.message})" if self.message else ""
        return f"{self.kind} of {self.name}: {self.expected!r} expected, {self.actual!r} found{message}"


_namespaces: dict = collections.defaultdict(list)  # by library: namespaces with the definitions, in no run's use


class Run:
    """A program under way on one library: its variables, and what its hooks logged."""

    def __init__(self, T):
        self.T, self.log = T, []
        self.names = _namespaces[T].pop() if _namespaces[T] else {"T": T}
        self.names["log"] = self.log
        if len(self.names) == 2:
            exec(compiled(PRELUDE), self.names)
        self.names["noting"] = False
        self.before = set(self.names)
        self.modes = contextlib.ExitStack()
        self.message = ""

    def __enter__(self):
        self.modes.enter_context(self.T.enable_grad())
        return self

    def __exit__(self, *error):
        self.modes.close()
        definitions = {name: value for name, value in self.names.items() if name in self.before}
        self.names.clear()
        self.names.update(definitions)  # the same dict, whose functions look their names up in it
        _namespaces[self.T].append(self.names)

    def step(self, statement: str) -> str | None:
        """Carry out one statement; return the name of the error's type that it raised, if any."""
        # Looking at tensors is not noted, nor what functions of Python are made of or walks run again.
        inside = re.search(r"T\.(distributions|nn|autograd)\.|backward", statement)
        self.names["noting"] = names_nodes(statement) and not inside
        code = compiled(statement)  # a program that is none shows nothing
        try:
            exec(code, self.names)
        except Exception as error:
            self.message = str(error)[:200]
            return type(error).__name__
        finally:
            self.names["noting"] = False
        self.message = ""
        return None

    def tensors(self) -> dict:
        """The tensors among the variables of the program, and the parameters and buffers of its modules, by name."""
        tensors = {}
        for name, value in self.names.items():
            if name in self.before or name.startswith("_"):
                continue
            if isinstance(value, self.T.Tensor):
                tensors[name] = value
            elif isinstance(value, self.T.nn.Module):
                for path, tensor in (*value.named_parameters(), *value.named_buffers()):
                    tensors[name + re.sub(r"\.(\d+)", r"[\1]", f".{path}")] = tensor
        return tensors


_compiled: dict = {}


def compiled(source: str):
    """Return the code of a statement."""
    code = _compiled.get(source)
    if code is None:
        if len(_compiled) > 20000:
            _compiled.clear()
        code = _compiled[source] = compile(source, "<program>", "exec")
    return code


def values_of(tensor):
    return np.array((tensor.to_dense() if tensor.is_sparse else tensor).tolist())


def strides_of(tensor) -> tuple:
    """The strides of a view of a contiguous tensor, of dimensions with more than one element."""
    if not tensor.numel() or not tensor._is_view() or not tensor._base.is_contiguous():
        return ()
    return tuple([step for step, n in zip(tensor.stride(), tensor.shape) if n > 1])


def name_of_node(tensor):
    """The name of a tensor's node, without the number of the overload of its op."""
    return None if tensor.grad_fn is None else type(tensor.grad_fn).__name__.rstrip("0123456789")


SEEN = {
    "class": lambda t: type(t).__name__.replace("SparseTensor", "Tensor"),
    "dtype": lambda t: str(t.dtype),
    "layout": lambda t: str(t.layout),
    "shape": lambda t: tuple(t.shape),
    "requires_grad": lambda t: t.requires_grad,
    "is_leaf": lambda t: t.is_leaf,
    "inference": lambda t: t.is_inference(),
    "values": values_of,
}
SEEN_OF_VARIABLES = {
    **SEEN,
    "grad_fn": name_of_node,
    "strides": strides_of,
    "retains_grad": lambda t: t.retains_grad,
    "grad": lambda t: None if t.grad is None else describe(t.grad, SEEN),
}


def describe(tensor, kinds) -> dict:
    """Return what is to be seen of a tensor, by kind; an error's type where looking at it raises one."""
    seen = {}
    for kind, look in kinds.items():
        try:
            seen[kind] = look(tensor)
        except Exception as error:
            seen[kind] = f"{type(error).__name__}"
    return seen


def same(expected, actual, tolerance: float) -> bool:
    """Whether what was seen of two tensors is the same; values up to rounding."""
    if isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray):
        if expected.shape != actual.shape or expected.dtype.kind != actual.dtype.kind:
            return False
        with np.errstate(all="ignore"):
            return bool(np.allclose(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True))
    if isinstance(expected, dict) and isinstance(actual, dict):
        return unlike(expected, actual, tolerance) is None
    return type(expected) is type(actual) and expected == actual


def unlike(expected: dict, actual: dict, tolerance: float, named=True) -> str | None:
    """Return the first kind in which two descriptions differ; `named` says whether names of nodes count."""
    for kind, value in expected.items():
        if kind == "strides" and () in (value, actual[kind]):
            continue
        if kind == "grad_fn" and same_node(value, actual[kind], named):
            continue
        if not same(value, actual[kind], tolerance):
            return kind
    return None


def held(tensor) -> bool:
    """Whether PyTorch can say of a tensor what its history is, which it refuses for some views after writes."""
    try:
        return tensor.grad_fn is None or True
    except RuntimeError:
        return False


def compare_tensors(position, expected: Run, actual: Run, tolerance, named) -> Difference | None:
    """Return the first difference between variables of two runs."""
    ours = actual.tensors()
    for name, tensor in expected.tensors().items():
        if name not in ours:
            return Difference("type", position, name, "Tensor", type(actual.names.get(name)).__name__)
        seen, found = describe(tensor, SEEN_OF_VARIABLES), describe(ours[name], SEEN_OF_VARIABLES)
        kind = unlike(seen, found, tolerance, named)
        if kind == "grad" and isinstance(seen[kind], dict) and isinstance(found[kind], dict):
            inner = unlike(seen[kind], found[kind], tolerance)
            return Difference(f"grad.{inner}", position, name, seen[kind][inner], found[kind][inner])
        if kind is not None:
            return Difference(kind, position, name, seen[kind], found[kind])
    return None


def as_array(values):
    return None if values is None else np.array(values)


def compare_logs(position, expected: Run, actual: Run, tolerance) -> Difference | None:
    """Return the first difference between what the hooks of two runs logged."""
    for number, (one, other) in enumerate(zip(expected.log, actual.log)):
        if one[0] != other[0] or not same(*map(as_array, (one[1], other[1])), tolerance) or one[2] != other[2]:
            return Difference("log", position, f"log[{number}]", one, other)
    if len(expected.log) != len(actual.log):
        return Difference("log", position, "length of log", expected.log, actual.log)
    return None


def difference(program, oracle, subject, watch=True, within=None, instead=None, between=None) -> Difference | None:
    """Return the first difference between a program's runs on two libraries; None if there is none.

    With `watch` the variables are compared after every statement, else at the end only: to look at a tensor brings its
    history up to date, which may hide what is wrong. `within` is a context in which the oracle runs, `instead` another
    program of as many statements that it runs, `between` what is done with both runs after each statement.
    """
    tolerance, raised, named = 0.0, False, True
    with warnings.catch_warnings(), Run(oracle) as expected, Run(subject) as actual:
        warnings.simplefilter("ignore")
        for position, statement in enumerate(program):
            with within or contextlib.nullcontext():
                one = expected.step(statement if instead is None else instead[position])
            other = actual.step(statement)
            raised = raised or one is not None
            inside = 5e-2 if "T.autocast(" in statement else 0.0  # numbers of half precision that nobody sees
            tolerance, named = max(tolerance, tolerance_of(expected), inside), named and names_nodes(statement)
            if one != other:
                return Difference("error", position, "the statement", one, other, expected.message or actual.message)
            if watch:
                found = compare_tensors(position, expected, actual, tolerance, named)
                if found is not None:
                    found.raised = raised
                    return found
            if between is not None:
                between(expected, actual)
        end = len(program)
        found = compare_tensors(end, expected, actual, tolerance, named)
        found = found or compare_logs(end, expected, actual, tolerance)
        if found is not None:
            found.raised = raised
        return found


def shrink(program: list[str], found: Difference, oracle, subject, watch=True) -> tuple[list[str], Difference]:
    """Return a program that shows the same kind of difference and needs each of its statements; and the difference.

    What does not come again, since PyTorch returned memory that nobody had written, stays as it is.
    """
    program = program[: found.position + 1]
    again = True
    while again:
        again = False
        for size in (8, 4, 2, 1):
            for start in range(len(program) - size, -1, -1):
                shorter = program[:start] + program[start + size :]
                other = difference(shorter, oracle, subject, watch)
                if other is not None and alike(other, found):
                    program, found, again = shorter[: other.position + 1], other, True
    return program, found


def alike(one: Difference, other: Difference) -> bool:
    """Whether two differences are of the same kind; a NameError of a shortened program is none."""
    if one.kind == "error":
        return other.kind == "error" and (one.expected, one.actual) == (other.expected, other.actual)
    return one.kind == other.kind
