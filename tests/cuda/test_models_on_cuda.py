"""Layers, optimizers, files, loaders and whole programs on CUDA against the CPU."""

from __future__ import annotations

import copy
import importlib.util
import pathlib

import numpy
import pytest

import plugrad as torch
from support.layer_cases import LAYERS, build, draw

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def close(found, expected, rtol=1e-4, atol=1e-5):
    assert found.is_cuda and found.dtype is expected.dtype
    numpy.testing.assert_allclose(found.detach().cpu().numpy(), expected.detach().numpy(), rtol=rtol, atol=atol)


def flat(result):
    if isinstance(result, (tuple, list)):
        return [tensor for item in result for tensor in flat(item)]
    return [] if result is None else [result]


def run(layer, arrays, device):
    """Return outputs, and the gradients of inputs and parameters, of a weighted sum of the outputs."""
    inputs = [torch.from_numpy(numpy.array(array)).to(device) for array in arrays]
    leaves = [x.requires_grad_() for x in inputs if x.is_floating_point()]
    outputs = flat(layer(*inputs))
    rng, total = numpy.random.default_rng(1), 0
    for output in outputs:
        if output.is_floating_point() and output.requires_grad:
            weights = rng.normal(size=tuple(output.shape)).astype("float32")
            total = total + (output * torch.from_numpy(weights).to(device)).sum()
    if not isinstance(total, int):
        total.backward()
    return outputs, [leaf.grad for leaf in [*leaves, *layer.parameters()] if leaf.grad is not None]


CASES = [case for case in LAYERS if case[1] and "DataParallel" not in case[0]]


@pytest.mark.parametrize("text, shapes", CASES)
def test_layer(text, shapes, everything):
    if not everything and CASES.index((text, shapes)) % 4:
        pytest.skip("a quarter of them, where a part is wanted")
    torch.manual_seed(0)
    here = build(text, torch)
    if any(word in text for word in ("Dropout", "RReLU", "Fractional")):
        here.eval()
    there = copy.deepcopy(here).to("cuda")
    rng = numpy.random.default_rng(2)
    arrays = [draw(shape, rng) for shape in shapes]
    for found, expected in zip(run(there, arrays, "cuda"), run(here, arrays, "cpu"), strict=True):
        for one, other in zip(found, expected, strict=True):
            close(one, other, 2e-4, 2e-5)
    for one, other in zip(there.buffers(), here.buffers(), strict=True):
        close(one, other)


# ---------------------------------------------------------------------------------------------------- optimizers

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, "Adam": {"amsgrad": True, "lr": 0.1},
    "AdamW": {"weight_decay": 0.1}, "RMSprop": {"centered": True, "momentum": 0.5}, "Adagrad": {"lr_decay": 0.1},
    "Adadelta": {}, "Adamax": {}, "NAdam": {}, "RAdam": {"lr": 0.1}, "ASGD": {"t0": 2}, "Rprop": {}, "Adafactor": {},
    "Muon": {"lr": 0.1}, "LBFGS": {"max_iter": 3, "line_search_fn": "strong_wolfe"},
}  # fmt: skip


def test_all_optimizers_are_here():
    classes = {
        name
        for name, value in vars(torch.optim).items()
        if isinstance(value, type) and issubclass(value, torch.optim.Optimizer) and value is not torch.optim.Optimizer
    }
    assert classes - {"SparseAdam"} <= set(OPTIMIZERS)
    with pytest.raises(NotImplementedError, match="sparse tensors are on the CPU only"):
        torch.ones(2, 3, device="cuda").to_sparse()


def trained(name, device):
    """Return the parameters after four steps, with the state saved and loaded in between."""
    shapes = [(6, 5), (3, 4), (4, 2)] if name == "Muon" else [(6, 5), (7,), (), (1,), (90, 100)]
    shapes += [(0, 3)] if name not in ("Muon", "Adafactor") else []
    rng = numpy.random.default_rng(0)
    params = [torch.from_numpy(numpy.asarray(rng.standard_normal(s), "float32")).to(device) for s in shapes]
    params = [p.requires_grad_() for p in params]
    optimizer = getattr(torch.optim, name)(params, **OPTIMIZERS[name])
    for step in range(4):
        if step == 2:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = getattr(torch.optim, name)(params, **OPTIMIZERS[name])
            optimizer.load_state_dict(state)

        def closure(optimizer=optimizer):
            optimizer.zero_grad()
            loss = sum([((p - 0.3 * place) ** 2).sum() for place, p in enumerate(params)])
            loss.backward()
            return loss

        optimizer.step(closure)
    return params, [v for s in optimizer.state_dict()["state"].values() for v in s.values() if torch.is_tensor(v)]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name):
    (params, state), (right, right_state) = trained(name, "cuda"), trained(name, "cpu")
    for one, other in zip(params, right, strict=True):
        close(one, other, 2e-2 if name == "Muon" else 1e-4, 1e-2 if name == "Muon" else 1e-5)
    for one, other in zip(state, right_state, strict=True):
        assert one.device.type == ("cpu" if one.ndim == 0 and not one.is_cuda else "cuda")
        numpy.testing.assert_allclose(one.cpu().numpy(), other.numpy(), rtol=2e-2, atol=1e-3)


# ---------------------------------------------------------------------------------------------------- programs


def test_a_step_of_training_does_not_wait_for_the_device(stand_in):
    """No copy to the host and no synchronisation between the first op and the last."""
    model = torch.nn.Sequential(
        torch.nn.Embedding(9, 8), torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Dropout(0.1),
        torch.nn.Linear(8, 5),
    ).to("cuda")  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = (torch.randint(0, n, (6,), device="cuda") for n in (9, 5))

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    step()
    torch.cuda.synchronize()
    before = stand_in.counts()
    step()
    after = stand_in.counts()
    assert [after[name] - before[name] for name in ("waits", "copies_to_host")] == [0, 0]
    assert after["launches"] - before["launches"] <= 24


def test_a_transformer_learns_to_reverse(everything):
    def losses(device, steps):
        torch.manual_seed(0)
        table, model = torch.nn.Embedding(6, 16), torch.nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
        place, head = torch.nn.Parameter(torch.randn(4, 16) * 0.1), torch.nn.Linear(16, 6)
        for module in (table, model, head):
            module.to(device)
        place = torch.nn.Parameter(place.detach().to(device))
        parameters = [*table.parameters(), *model.parameters(), *head.parameters(), place]
        optimizer, rng, seen = torch.optim.Adam(parameters, 1e-2), numpy.random.default_rng(0), []
        for _ in range(steps):
            x = torch.from_numpy(rng.integers(0, 6, (8, 4))).to(device)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(head(model(table(x) + place)).transpose(1, 2), x.flip(1))
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
        return seen

    steps = 40 if everything else 8
    found, expected = losses("cuda", steps), losses("cpu", steps)
    assert found[:8] == pytest.approx(expected[:8], rel=1e-3)
    assert not everything or found[-1] < 0.8 * found[0]


def test_the_digits_example_learns(monkeypatch, everything):
    """Its network, on a part of its data, from a loader to the device."""
    pytest.importorskip("sklearn")
    pytest.importorskip("tqdm")
    spec = importlib.util.spec_from_file_location("digits", EXAMPLES / "digits.py")
    digits = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(digits)
    x, y, _, _ = digits.data(0)
    count = 256 if everything else 64
    data = torch.utils.data.TensorDataset(x[:count], y[:count])

    def losses(device):
        torch.manual_seed(1)
        model = digits.network()
        model.to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
        loader = torch.utils.data.DataLoader(data, batch_size=32, pin_memory=device == "cuda")
        seen = []
        for _ in range(3):
            for images, labels in loader:
                assert images.is_pinned() == (device == "cuda")
                optimizer.zero_grad()
                out = model(images.to(device, non_blocking=True))
                loss = torch.nn.functional.cross_entropy(out, labels.to(device, non_blocking=True))
                loss.backward()
                optimizer.step()
                seen.append(loss.item())
        return seen

    found = losses("cuda")
    assert found == pytest.approx(losses("cpu"), rel=2e-2) and found[-1] < found[0]


def test_gradcheck_and_anomaly_on_cuda():
    x = torch.rand(3, 4, dtype=torch.float64, device="cuda", requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: torch.softmax(t, 1).log(), (x,))
    with torch.autograd.set_detect_anomaly(True), pytest.warns(UserWarning, match="SqrtBackward0"):
        with pytest.raises(RuntimeError, match="returned nan"):
            (x - x).sqrt().mul(0).sum().backward()


def test_autocast_and_scaler_on_cuda():
    model, scaler = torch.nn.Linear(4, 3).to("cuda"), torch.amp.GradScaler("cuda", init_scale=8.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("cuda", dtype):
            out = model(torch.ones(2, 4, device="cuda"))
            assert out.dtype is dtype
            loss = torch.nn.functional.mse_loss(out.float(), torch.zeros(2, 3, device="cuda"))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert model.weight.grad.dtype is torch.float32
        optimizer.zero_grad()


def test_printing_and_numbers():
    x = torch.tensor([[1.5, float("nan")], [2, -float("inf")]], device="cuda")
    assert repr(x) == "tensor([[1.5000,    nan],\n        [2.0000,   -inf]], device='cuda:0')"
    assert x[0, 0].item() == 1.5 and bool(x[0, 0] > 1) and int(x[1, 0]) == 2 and x.cpu().device.type == "cpu"
    assert len(x) == 2 and [row.tolist() for row in x][1][0] == 2 and 2.0 in x
    with pytest.raises(TypeError, match="can't convert cuda"):
        x.numpy()
