"""What programs measure themselves by: flop counts, timers and their tables, what is known of the machine."""

import importlib

import pytest

import plugrad
from plugrad.utils import benchmark, collect_env
from plugrad.utils.flop_counter import FlopCounterMode


def _layer(torch, cls, *arguments, shape, **options):
    getattr(torch.nn, cls)(*arguments, **options)(torch.randn(shape)).sum().backward()


def _product(torch, name, *shapes):
    getattr(torch, name)(*[torch.ones(shape, requires_grad=True) for shape in shapes]).sum().backward()


COUNTED = {
    "matrices": lambda torch: _product(torch, "matmul", (3, 4), (4, 5)),
    "a folded batch": lambda torch: _product(torch, "matmul", (2, 3, 4), (4, 5)),
    "batches": lambda torch: _product(torch, "matmul", (2, 1, 3, 4), (6, 4, 5)),
    "vectors are not counted": lambda torch: _product(torch, "matmul", (3, 4), (4,)),
    "baddbmm": lambda torch: _product(torch, "baddbmm", (2, 3, 3), (2, 3, 4), (2, 4, 3)),
    "tensordot": lambda torch: torch.tensordot(torch.ones(2, 3, 4), torch.ones(4, 3, 5), ([1, 2], [1, 0])),
    "einsum": lambda torch: torch.einsum("ij,jk,kl->il", torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 5)),
    "outer": lambda torch: torch.einsum("i,j->ij", torch.ones(3), torch.ones(4)),
    "linear": lambda torch: _layer(torch, "Linear", 4, 5, shape=(2, 3, 4)),
    "without bias": lambda torch: _layer(torch, "Linear", 4, 5, bias=False, shape=(3, 4)),
    "conv": lambda torch: _layer(torch, "Conv1d", 4, 6, 3, groups=2, shape=(2, 4, 9)),
    "transposed": lambda torch: _layer(torch, "ConvTranspose2d", 4, 6, 3, stride=2, groups=2, shape=(1, 4, 5, 5)),
    "recurrent": lambda torch: torch.nn.RNN(3, 4, 2, bidirectional=True)(torch.ones(5, 2, 3))[0].sum().backward(),
    "gated": lambda torch: torch.nn.GRU(3, 4)(torch.ones(5, 2, 3), torch.ones(1, 2, 4))[0].sum().backward(),
    "attention": lambda torch: torch.nn.MultiheadAttention(8, 2)(*[torch.ones(5, 1, 8)] * 3)[0].sum().backward(),
    "encoder": lambda torch: _layer(torch, "TransformerEncoderLayer", 8, 2, 16, shape=(2, 5, 8)),
    "modules": lambda torch: torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Sequential(torch.nn.Linear(144, 10), torch.nn.ReLU())
    )(torch.ones(2, 3, 8, 8)).sum().backward(),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_flops_are_those_that_pytorch_counts(torch, name):
    counts = []
    for module, mode in (
        (torch, importlib.import_module("torch.utils.flop_counter").FlopCounterMode),
        (plugrad, FlopCounterMode),
    ):
        with mode(display=False) as counter:
            COUNTED[name](module)
        COUNTED[name](module)  # outside of it nothing counts
        by_module = {
            where: {str(op).removeprefix("<OpOverload(op='").removesuffix("')>"): flops for op, flops in ops.items()}
            for where, ops in counter.get_flop_counts().items() if ops
        }  # fmt: skip
        counts.append((by_module, counter.get_total_flops()))
    assert counts[0] == counts[1]


def test_flops_are_shown_as_a_table(capsys):
    with FlopCounterMode(depth=1):
        plugrad.nn.Sequential(plugrad.nn.Linear(30, 40))(plugrad.ones(20, 30))
    assert capsys.readouterr().out.splitlines()[2:] == [
        "Sequential    48.000K    100.00%",
        "- aten.addmm  48.000K    100.00%",
    ]
    assert FlopCounterMode().get_table().splitlines()[-1].split() == ["Global", "0", "0%"]


FLOPS = {
    "an op": lambda T, F, run, x: run(lambda: (x.exp(), T.exp(x))),
    "a function beside the op": lambda T, F, run, x: run(lambda: T.nn.functional.softplus(x)),
    "an op of the program": lambda T, F, run, x: run(lambda: T.ops.flops_of_tests.foo(x, 2)),
    "its overload": lambda T, F, run, x: run(lambda: T.ops.flops_of_tests.foo.default(x, 2)),
    "of raw tensors": lambda T, F, run, x: run(lambda: x.sin()),
    "beside products": lambda T, F, run, x: run(lambda: x.sin() @ x.exp()),
    "for one counter": lambda T, F, run, x: run(lambda: x.cos(), custom_mapping={T.ops.aten.cos: lambda s, **k: 5}),
    "another one": lambda T, F, run, x: run(lambda: x.exp(), custom_mapping={T.ops.aten.exp: lambda s, **k: 5}),
    "twice": lambda T, F, run, x: F.register_flop_formula(T.ops.aten.exp)(len),
    "of a product": lambda T, F, run, x: F.register_flop_formula([T.ops.aten.bmm])(len),
    "of a word": lambda T, F, run, x: F.register_flop_formula("aten.exp")(len),
    "of a function": lambda T, F, run, x: F.register_flop_formula(T.exp)(len),
    "which": lambda T, F, run, x: [getattr(T.ops.aten, name) in F.flop_registry for name in ("exp", "mm", "tan")],
    "mm": lambda T, F, run, x: (F.mm_flop((2, 3), (3, 4)), F.mm_flop(T.ones(2, 3), T.ones(3, 4))),
    "addmm": lambda T, F, run, x: F.addmm_flop((4,), (2, 3), (3, 4)),
    "bmm": lambda T, F, run, x: (F.bmm_flop((5, 2, 3), (5, 3, 4)), F.baddbmm_flop((1,), (5, 2, 3), (5, 3, 4))),
    "bmm of others": lambda T, F, run, x: F.bmm_flop((5, 2, 3), (4, 3, 4)),
    "mm of others": lambda T, F, run, x: F.mm_flop((2, 3), (4, 4)),
    "convolutions": lambda T, F, run, x: (
        F.conv_flop_count([2, 3, 8, 8], [4, 3, 3, 3], [2, 4, 6, 6]),
        F.conv_flop_count([2, 3, 8, 8], [3, 4, 3, 3], [2, 4, 10, 10], transposed=True),
        F.conv_flop((2, 3, 8, 8), (4, 3, 3, 3), None, 1, 0, 1, False, out_val=T.ones(2, 4, 6, 6)),
    ),
    "their gradients": lambda T, F, run, x: [
        F.conv_backward_flop(
            (2, 4, n, n), (2, 3, 8, 8), shape, None, 1, 0, 1, transposed, 0, 1, mask,
            out_val=[T.ones(2, 3, 8, 8), T.ones(*shape)],
        )
        for n, shape, transposed in ((6, (4, 3, 3, 3), False), (10, (3, 4, 3, 3), True))
        for mask in ((True, True, False), (True, False, False), (False, True, True))
    ],
    "attention": lambda T, F, run, x: (
        F.sdpa_flop_count((2, 4, 5, 4), (2, 2, 6, 4), (2, 2, 6, 3)),
        F.sdpa_backward_flop_count((2, 4, 5, 3), (2, 4, 5, 4), (2, 2, 6, 4), (2, 2, 6, 3)),
    ),
    "attention of others": lambda T, F, run, x: F.sdpa_flop_count((2, 4, 5, 4), (2, 3, 6, 4), (2, 3, 6, 3)),
    "gradients of others": lambda T, F, run, x: F.sdpa_backward_flop_count(
        (2, 4, 5, 2), (2, 4, 5, 4), (2, 2, 6, 4), (2, 2, 6, 3)
    ),
    "a table": lambda T, F, run, x: run(
        lambda: (T.nn.Sequential(T.nn.Linear(3, 3))(x).exp(), T.ops.flops_of_tests.foo(x, 2)), table=True
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def counted():
    """Both libraries with formulas of an op of each's own, of one of the program, and of one that gets tensors."""
    libraries = []
    for T in (plugrad, pytest.importorskip("torch")):
        F = importlib.import_module(f"{T.__name__}.utils.flop_counter")

        def foo(x: T.Tensor, k: int) -> T.Tensor:
            return x.mm(x) * k

        foo.__annotations__ = {"x": T.Tensor, "k": int, "return": T.Tensor}
        T.library.custom_op("flops_of_tests::foo", foo, mutates_args=())
        F.register_flop_formula(T.ops.aten.exp)(lambda x, *args, out_shape=None: 7 * x.numel())
        F.register_flop_formula(T.ops.aten.softplus)(lambda x, *args, out_shape=None: 9 * x.numel())
        F.register_flop_formula([T.ops.flops_of_tests.foo])(lambda x, k, out_shape=None: k * 1000 + out_shape[0])
        F.register_flop_formula(T.ops.aten.sin, get_raw=True)(lambda x, out_val=None: int(x.sum()) + out_val.numel())
        libraries.append((T, F))
    return libraries


@pytest.mark.parametrize("case", FLOPS)
def test_formulas_of_further_ops(counted, case):
    def outcome(T, F):
        def run(function, table=False, **options):
            with F.FlopCounterMode(display=False, **options) as counter:
                function()
            known = [T.ops.aten.exp, T.ops.aten.sin, T.ops.flops_of_tests.foo, T.ops.aten.mm]
            counts = counter.get_flop_counts()["Global"]
            counts = [(known.index(op) if op in known else -1, flops) for op, flops in counts.items()]
            return counter.get_table() if table else (counter.get_total_flops(), sorted(counts))

        try:
            return FLOPS[case](T, F, run, T.ones(3, 3))
        except (AssertionError, RuntimeError, ValueError) as error:
            return type(error)

    ours, theirs = (outcome(*library) for library in counted)
    assert ours == theirs


def test_what_a_counter_cannot_exchange_is_refused():
    with pytest.raises(NotImplementedError, match="products and convolutions"):
        FlopCounterMode(custom_mapping={plugrad.ops.aten.mm: lambda *shapes, out_shape=None: 1})
    with pytest.raises(ValueError, match=r"torch\.ops\.mylib\.foo"):
        FlopCounterMode(custom_mapping={plugrad.exp: lambda *shapes, out_shape=None: 1})


def _measurements(torch):
    module = importlib.import_module(f"{torch.__name__}.utils.benchmark")

    def measured(times, **words):
        return module.Measurement(10, times, module.TaskSpec(stmt="x + 1", setup="x = 1", **words))

    return module, [
        measured([1e-5, 1.1e-5], label="L", sub_label="one", description="first"),
        measured([2e-4, 2.1e-4], label="L", sub_label="one", description="another"),
        measured([3e-3, 3.1e-3, 3.05e-3, 9e-3], label="L", sub_label="second", description="first", num_threads=4),
        measured([3e-5, 3.1e-5, 3.05e-5, 3.07e-5], description="a long title", env="here"),
    ]


def test_measurements_and_tables_are_those_of_pytorch(torch):
    texts = []
    for module, measurements in map(_measurements, (torch, plugrad)):
        table = module.Compare(measurements)
        parts = [str(table)]
        table.trim_significant_figures()
        parts += [str(table), *(repr(one).splitlines()[1:5] for one in measurements)]
        parts += [(round(one.median, 12), round(one.iqr, 12), one.significant_figures, one.has_warnings, one.title)
            for one in measurements]  # fmt: skip
        texts.append(parts)
    assert texts[0] == texts[1]


def test_timers_measure():
    timer = benchmark.Timer("y = x * 2", setup="x = torch.ones(2)", label="a product")
    told = []
    measured = timer.blocked_autorange(lambda number, taken: told.append(number), min_run_time=1e-3)
    assert told == [measured.number_per_run] * len(measured.times) and min(measured.times) > 0
    assert len(timer.adaptive_autorange(min_run_time=1e-4, max_run_time=1e-3).times) >= 1
    merged = benchmark.Measurement.merge([timer.timeit(3), timer.timeit(3), timer.timeit(4)])
    assert [(one.number_per_run, len(one.times)) for one in merged] == [(3, 2), (4, 1)]
    with pytest.raises(NotImplementedError, match="Python"):
        benchmark.Timer("x", language="c++")
    with pytest.raises(ValueError, match="Measurement"):
        benchmark.Compare([1])


def test_the_machine_is_described():
    text = collect_env.get_pretty_env_info()
    assert text.startswith("plugrad version: ") and "\nplugrad==" in text and "numpy==" in text
