"""CUDA graphs: captured work does what the same work does eagerly, however often it is launched."""

import gc
import pathlib
import re

import pytest

import plugrad as torch
from plugrad import nn
from plugrad.nn import functional as F
from support.graphs import captured, warmed


def perceptron():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 4)), torch.randn(6, 8)


def convolutions():
    front = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25)
    return nn.Sequential(*front, nn.Flatten(), nn.Linear(36, 4)), torch.randn(6, 1, 8, 8)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.out = nn.Linear(16, 4)

    def forward(self, tokens):
        return self.out(self.layer(self.table(tokens)).mean(1))


def transformer():
    return Transformer(), torch.randint(0, 11, (6, 5))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layer, self.out = getattr(nn, kind)(8, 12, batch_first=True), nn.Linear(12, 4)

    def forward(self, x):
        return self.out(self.layer(x)[0][:, -1])


def lstm():
    return Recurrent("LSTM"), torch.randn(6, 5, 8)


def gru():
    return Recurrent("GRU"), torch.randn(6, 5, 8)


MODELS = [perceptron, convolutions, transformer, lstm, gru]
OPTIMIZERS = {
    "SGD": {"lr": 0.1}, "momentum": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    "Adam": {"capturable": True}, "AdamW": {"capturable": True, "weight_decay": 0.1},
    "amsgrad": {"capturable": True, "amsgrad": True}, "NAdam": {"capturable": True}, "Adamax": {"capturable": True},
    "RMSprop": {"capturable": True}, "Adadelta": {"capturable": True},
}  # fmt: skip
CLASSES = {"momentum": "SGD", "amsgrad": "Adam"}


def trained(make, optimizer, graphed, steps=4):
    """Return the losses of steps of training, and the parameters and buffers after each, eagerly or by launches."""
    torch.manual_seed(0)
    model, x = make()
    model, x, target = model.cuda(), x.cuda(), torch.randint(0, 4, (6,)).cuda()
    draw = torch.randn if x.is_floating_point() else lambda shape: torch.randint(0, 11, shape)
    batches = [draw(x.shape).cuda() for _ in range(steps)]
    descend = getattr(torch.optim, CLASSES.get(optimizer, optimizer))(model.parameters(), **OPTIMIZERS[optimizer])

    def step():
        descend.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        descend.step()
        return loss

    told = [loss.item() for loss in warmed(step)]
    graph, loss = captured(step) if graphed else (None, None)
    for batch in batches:
        x.copy_(batch)
        if graphed:
            graph.replay()
        else:
            loss = step()
        told.append(loss.item())
        told += [value.cpu().tolist() for value in model.state_dict().values()]
    told += [p.grad.cpu().tolist() for p in model.parameters()]
    told.append(torch.cuda.get_rng_state().tolist())
    return told


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("optimizer", ["momentum", "AdamW"])
def test_training_by_launches_is_eager_training(make, optimizer, alike):
    alike(trained(make, optimizer, True), trained(make, optimizer, False))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_of_optimizers_count_in_launches(optimizer, alike):
    alike(trained(perceptron, optimizer, True), trained(perceptron, optimizer, False))


@pytest.fixture
def alike(on_stand_in):
    """Compare bit by bit; on a card cuBLAS may sum in another order in a graph, where it has another workspace."""

    def compare(found, wanted):
        if on_stand_in:
            assert found == wanted
        else:
            torch.testing.assert_close([torch.tensor(one) for one in found], [torch.tensor(one) for one in wanted])

    return compare


def test_the_program_of_the_page():
    page = pathlib.Path(__file__).resolve().parents[2] / "docs" / "cuda.md"
    if not page.exists():
        pytest.skip("the documentation is not here")
    (program,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
    batches = [(torch.randn(64, 784), torch.randint(0, 10, (64,)))] * 3
    names = {"torch": torch, "F": F, "Model": lambda: nn.Linear(784, 10), "batches": batches}
    torch.manual_seed(0)
    exec(program, names)
    last = names["loss"].item()
    names["graph"].replay()
    assert names["loss"].item() < last and names["optimizer"].state_dict()["state"][0]["step"].item() == 7


def test_nothing_is_done_in_the_capture():
    x, total = torch.ones(3, device="cuda"), torch.zeros(3, device="cuda")
    warmed(lambda: x * 2)
    graph, y = captured(lambda: total.add_(x * 2))
    assert total.tolist() == [0, 0, 0]
    graph.replay()
    graph.replay()
    assert total.tolist() == [4, 4, 4]
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [14, 14, 14]


def test_a_launch_costs_one_call(stand_in):
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).cuda()
    x = torch.randn(5, 8, device="cuda")
    warmed(lambda: model(x).sum().backward())
    graph, _ = captured(lambda: model(x).sum().backward())
    before = stand_in.counts()
    graph.replay()
    after = stand_in.counts()
    assert {name: after[name] - before[name] for name in after} == {
        "launches": 0, "allocations": 0, "waits": 0, "copies_to_host": 0, "replays": 1,
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------------- random numbers


DRAWS = {
    "rand": lambda: torch.rand(3, 5, device="cuda"),
    "randn": lambda: torch.randn(7, device="cuda"),
    "double": lambda: torch.rand(4, device="cuda", dtype=torch.float64),
    "randint": lambda: torch.randint(0, 1000, (6,), device="cuda"),
    "dropout": lambda: F.dropout(torch.ones(40, device="cuda"), 0.5),
    "bernoulli": lambda: torch.bernoulli(torch.full((30,), 0.3, device="cuda")),
    "exponential": lambda: torch.empty(5, device="cuda").exponential_(),
    "two": lambda: torch.stack([torch.rand(4, device="cuda"), torch.randn(4, device="cuda")]),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_launches_draw_what_would_be_drawn_eagerly(draw):
    warmed(draw)
    graph, drawn = captured(draw)
    torch.cuda.manual_seed(3)
    wanted = [draw().tolist() for _ in range(3)]
    after = torch.cuda.get_rng_state().tolist()
    torch.cuda.manual_seed(3)
    found = []
    for _ in range(3):
        graph.replay()
        found.append(drawn.tolist())
    assert found == wanted and found[0] != found[1]
    assert torch.cuda.get_rng_state().tolist() == after


def test_a_capture_draws_nothing_and_eager_draws_come_between():
    torch.cuda.manual_seed(5)
    before = torch.cuda.get_rng_state()
    graph, drawn = captured(lambda: torch.rand(4, device="cuda"))
    assert torch.equal(torch.cuda.get_rng_state(), before)
    graph.replay()
    first, between = drawn.tolist(), torch.rand(4, device="cuda").tolist()
    graph.replay()
    third = drawn.tolist()
    torch.cuda.set_rng_state(before)
    assert [first, between, third] == [torch.rand(4, device="cuda").tolist() for _ in range(3)]


def test_other_generators_have_to_be_registered():
    generator = torch.Generator("cuda").manual_seed(1)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="register_generator_state"), torch.cuda.graph(graph):
        torch.rand(3, device="cuda", generator=generator)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        drawn = torch.rand(3, device="cuda", generator=generator)
    graph.replay()
    assert drawn.tolist() == torch.rand(3, device="cuda", generator=generator.manual_seed(1)).tolist()


# ---------------------------------------------------------------------------------------------------- memory


def test_memory_is_freed_with_the_graph():
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    x = torch.ones(1 << 20, device="cuda")
    graph, y = captured(lambda: (x * 2 + 1).sum())
    graph.replay()
    assert y.item() == 3 << 20
    assert torch.cuda.memory_reserved() >= before + 3 * (4 << 20)
    torch.cuda.empty_cache()
    graph.replay()
    assert y.item() == 3 << 20
    graph.reset()
    x = y = None
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= before


def test_what_is_computed_later_never_lies_in_a_graphs_memory():
    x = torch.ones(1000, device="cuda")
    graph, y = captured(lambda: ((x + 1) * 2 - 1).exp().log())
    others = [torch.full((1000,), float(value), device="cuda") for value in range(20)]
    graph.replay()
    assert [one[7].item() for one in others] == [*range(20)]
    torch.testing.assert_close(y.cpu(), torch.full((1000,), 3.0))


def test_two_graphs_share_memory():
    x = torch.ones(1 << 18, device="cuda")
    first, y = captured(lambda: (x + 1).sum())
    second, z = captured(lambda: (x * 3).sum() + y, pool=first.pool())
    assert second.pool() == first.pool()
    handle = torch.cuda.graph_pool_handle()
    third, _ = captured(lambda: x + 1, pool=handle)
    assert third.pool() == handle != first.pool()
    for _ in range(2):
        first.replay()
        second.replay()
        assert (y.item(), z.item()) == (2 << 18, 5 << 18)
    x.fill_(2)
    first.replay()
    second.replay()
    assert z.item() == 9 << 18


def test_graphs_are_shown(tmp_path):
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    graph.enable_debug_mode()
    with torch.cuda.graph(graph):
        torch.ones(3, device="cuda") + 1
    graph.debug_dump(str(tmp_path / "graph.dot"))
    assert (tmp_path / "graph.dot").read_text().startswith("digraph")
    assert graph.raw_cuda_graph() and graph.raw_cuda_graph_exec()


# ---------------------------------------------------------------------------------------------------- checks, products


def test_wrong_values_are_told_after_a_launch():
    table, at = torch.ones(4, 3, device="cuda"), torch.tensor([0, 3]).cuda()
    warmed(lambda: F.embedding(at, table))
    graph, y = captured(lambda: F.embedding(at, table))
    graph.replay()
    torch.cuda.synchronize()
    at.copy_(torch.tensor([0, 9]))
    graph.replay()
    with pytest.raises(torch.AcceleratorError, match="one is 9"):
        torch.cuda.synchronize()
    at.copy_(torch.tensor([1, 2]))
    graph.replay()
    assert y.tolist() == [[1] * 3] * 2


SHAPES = {
    "vectors": ((5,), (5,)), "matrix and vector": ((4, 5), (5,)), "vector and matrix": ((5,), (5, 3)),
    "matrices": ((4, 5), (5, 3)), "batches": ((2, 4, 5), (2, 5, 3)), "one for all": ((2, 4, 5), (5, 3)),
    "many": ((3, 1, 4, 5), (2, 5, 3)), "empty": ((0, 5), (5, 3)), "row": ((1, 5), (5, 1)),
}  # fmt: skip
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.int64]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_products_in_a_capture(shapes, dtype):
    a, b = [(torch.rand(shape) * 8).to(dtype) for shape in shapes]
    x, y = a.cuda(), b.cuda()
    turned = [one.mT.contiguous().mT if one.ndim > 1 else one for one in (x, y)]
    pairs = [(x, y), (turned[0], y), (x, turned[1]), tuple(turned)]
    graph, found = captured(lambda: [one @ other for one, other in pairs])
    graph.replay()
    for one in found:
        torch.testing.assert_close(one.cpu(), a @ b, rtol=1e-2 if dtype.itemsize == 2 else 1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["sort", "argsort", "cumsum", "max", "mean", "std", "logsumexp", "topk"])
def test_functions_in_a_capture(name):
    x = torch.randn(50, device="cuda")
    call = {
        "sort": lambda: x.sort()[0], "topk": lambda: x.topk(5)[0], "cumsum": lambda: x.cumsum(0),
        "logsumexp": lambda: x.logsumexp(0),
    }.get(name, lambda: getattr(x, name)())  # fmt: skip
    warmed(call)
    graph, y = captured(call)
    x.copy_(torch.randn(50))
    graph.replay()
    torch.testing.assert_close(y, call())


# ---------------------------------------------------------------------------------------------------- graphed callables


@pytest.mark.parametrize("make", [convolutions, lstm])
def test_graphed_modules_are_the_modules(make, alike):
    def run(graphed):
        torch.manual_seed(0)
        model, x = make()
        model, x = model.cuda(), x.cuda().requires_grad_()
        if graphed:
            state = {name: value.clone() for name, value in model.state_dict().items()}
            model = torch.cuda.make_graphed_callables(model, (torch.randn(x.shape, device="cuda").requires_grad_(),))
            model.load_state_dict(state)
        torch.cuda.manual_seed(1)
        descend, told = torch.optim.SGD(model.parameters(), lr=0.1), []
        for _ in range(3):
            descend.zero_grad()
            x.grad = None
            loss = (model(x * 2) ** 2).mean()
            loss.backward()
            descend.step()
            told += [loss.item(), x.grad.tolist(), *[p.tolist() for p in model.parameters()]]
        model.eval()
        return [*told, model(x).tolist()]

    alike(run(True), run(False))


def test_graphed_functions_share_memory_and_keep_structure():
    def first(x, y):
        return {"sum": x + y, "product": (x * y,)}

    weight = torch.randn(3, 3, device="cuda")

    def second(x):
        return x @ weight

    def sample():
        return torch.randn(4, 3, device="cuda", requires_grad=True)

    functions = torch.cuda.make_graphed_callables((first, second), ((sample(), sample()), (sample(),)))
    results = []
    for one, two in ((first, second), functions):
        torch.manual_seed(2)
        x, y = sample(), sample()
        out = one(x, y)
        (two(out["sum"]).sum() + out["product"][0].sum()).backward()
        results.append([out["sum"], out["product"][0], x.grad, y.grad])
    for eager, graphed in zip(*results):
        torch.testing.assert_close(graphed, eager)


def test_graphed_callables_refuse_what_they_cannot_do():
    model = nn.Linear(3, 3).cuda()
    model.register_forward_hook(lambda *args: None)
    with pytest.raises(AssertionError, match="hooks"):
        torch.cuda.make_graphed_callables(model, (torch.ones(2, 3, device="cuda"),))
    with pytest.raises(AssertionError, match="only Tensors"):
        torch.cuda.make_graphed_callables(lambda x: x, (3,))
    used = torch.ones(2, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="allow_unused"):
        torch.cuda.make_graphed_callables(lambda x, y: x * 2, (used, used.detach().requires_grad_()))
    graphed = torch.cuda.make_graphed_callables(
        lambda x, y: x * 2, (used, used.detach().clone().requires_grad_()), allow_unused_input=True
    )
    x, y = used.detach().clone().requires_grad_(), used.detach().clone().requires_grad_()
    graphed(x, y).sum().backward()
    assert x.grad.tolist() == [2, 2] and y.grad is None


@pytest.mark.parametrize("options", [{}, {"amsgrad": True}, {"maximize": True, "weight_decay": 0.1}], ids=str)
def test_a_capturable_step_is_one_launch_for_all_parameters(launched, options):
    found = []
    for device, capturable in (("cpu", False), ("cuda", True)):
        torch.manual_seed(0)
        params = [torch.randn(n, 3).to(device).requires_grad_() for n in (1, 5, 1000)]
        optimizer = torch.optim.AdamW(params, capturable=capturable, **options)
        for _ in range(3):
            for p in params:
                p.grad = torch.randn(*p.shape).to(device)
            launched.clear()
            optimizer.step()
        found.append([p.detach().cpu() for p in params])
    assert launched == ["adam_told"]
    for here, there in zip(*found):
        torch.testing.assert_close(there, here, rtol=1e-5, atol=1e-6)
