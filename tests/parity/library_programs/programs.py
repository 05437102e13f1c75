"""A program for each library: it returns plain values, and runs with PyTorch, or with plugrad under `plugrad run`."""

import copy
import io
import os
import re
import tempfile

import torch
from torch import nn


def fill(module, scale=0.3):
    """Give a module parameters that depend on nothing but their shapes."""
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.sin(torch.arange(p.numel()) * 1.3).reshape(p.shape) * scale)
    return module


def einops():
    from einops import einsum, pack, parse_shape, rearrange, reduce, repeat, unpack
    from einops.layers.torch import EinMix, Rearrange, Reduce

    x = torch.linspace(-1, 1, 144).reshape(2, 3, 4, 6).requires_grad_()
    y = rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3)
    z = reduce(x, "b c h w -> b c", "mean") + reduce(x, "b c h w -> b c", "max")
    r = repeat(z, "b c -> b c k", k=2)
    e = einsum(y, y, "b i j, b k j -> b i k")
    model = fill(nn.Sequential(Rearrange("b c h w -> b (c h w)"), nn.Linear(72, 4), Reduce("b k -> b", "sum")))
    mix = fill(EinMix("b c h w -> b h w d", weight_shape="c d", c=3, d=5))
    packed, shapes = pack([z, r], "b *")
    a, b = unpack(packed, shapes, "b *")
    loss = e.sin().sum() + r.sum() + model(x).sum() + mix(x).pow(2).sum() + (a.sum() * b).sum()
    loss.backward()
    return [y.tolist(), e.tolist(), loss.item(), x.grad.tolist(), parse_shape(x, "b _ h w"), repr(model), [*shapes[1]]]


def torchinfo():
    from torchinfo import summary

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
            self.rnn, self.out, self.unused = nn.LSTM(8, 5, batch_first=True), nn.Linear(5, 3), nn.Embedding(4, 2)

        def forward(self, x):
            return self.out(self.rnn(self.features(x).flatten(2).transpose(1, 2))[0][:, -1])

    columns = ("input_size", "output_size", "num_params", "kernel_size", "mult_adds", "trainable")
    shown = summary(Net(), (2, 1, 12, 12), verbose=0, col_names=columns, row_settings=("var_names", "depth"))
    return [str(shown), shown.total_params, shown.total_mult_adds, shown.total_output_bytes]


def torchmetrics():
    from torchmetrics import MeanSquaredError, Metric, MetricCollection, PearsonCorrCoef, R2Score
    from torchmetrics.classification import MulticlassAccuracy, MulticlassAUROC, MulticlassConfusionMatrix
    from torchmetrics.functional import accuracy
    from torchmetrics.image import StructuralSimilarityIndexMeasure

    class Mean(Metric):
        def __init__(self):
            super().__init__()
            self.add_state("total", default=torch.tensor(0.0), dist_reduce_fx="sum")
            self.add_state("seen", default=[], dist_reduce_fx="cat")

        def update(self, x):
            self.total += x.sum()
            self.seen.append(x)

        def compute(self):
            return self.total / torch.cat(self.seen).numel()

    logits, target = torch.sin(torch.arange(60.0) * 1.7).reshape(20, 3), torch.arange(20) % 3
    several = MetricCollection([MulticlassAccuracy(3), MulticlassAUROC(3), MulticlassConfusionMatrix(3)])
    first = several(logits[:10], target[:10])
    several.update(logits[10:], target[10:])
    results = [{name: value.tolist() for name, value in one.items()} for one in (first, several.compute())]
    p, t = torch.cos(torch.arange(16.0)), torch.sin(torch.arange(16.0) / 2)
    for metric in (MeanSquaredError(), R2Score(), PearsonCorrCoef(), MeanSquaredError() + R2Score()):
        metric.update(p[:8], t[:8])
        metric.update(p[8:], t[8:])
        results.append(metric.compute().item())
    mean = Mean()
    mean(p), mean(t)
    image = torch.linspace(0, 1, 256).reshape(1, 1, 16, 16)
    results += [mean.compute().item(), copy.deepcopy(mean).compute().item()]
    results.append(StructuralSimilarityIndexMeasure(data_range=1.0)(image, image * 0.9).item())
    return [*results, accuracy(logits, target, task="multiclass", num_classes=3, top_k=2).item(), repr(several)]


def torchviz():
    from torchviz import make_dot

    model, x = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)), torch.ones(1, 8)
    source = make_dot(model(x).exp().mean(), params=dict(model.named_parameters())).source
    return sorted(set(re.findall(r'label="?\s*([A-Za-z]\w+Backward0|[\w.]+\n \([\d, ]+\))', source)) - {"TBackward0"})


def skorch():
    import numpy
    from sklearn.datasets import make_classification
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from skorch import NeuralNetClassifier
    from skorch.callbacks import EarlyStopping, EpochScoring, LRScheduler

    class Net(nn.Module):
        def __init__(self, units=10):
            super().__init__()
            self.layers = fill(nn.Sequential(nn.Linear(8, units), nn.ReLU(), nn.Linear(units, 2), nn.Softmax(dim=-1)))

        def forward(self, x):
            return self.layers(x)

    x, y = make_classification(90, 8, n_informative=5, random_state=0)
    x, y = x.astype(numpy.float32), y.astype(numpy.int64)
    callbacks = [EpochScoring("accuracy", name="again"), LRScheduler("StepLR", step_size=2), EarlyStopping(patience=30)]
    net = NeuralNetClassifier(
        Net, max_epochs=3, iterator_train__shuffle=False, verbose=0, callbacks=callbacks, optimizer=torch.optim.Adam
    )
    grid = {"neuralnetclassifier__lr": [0.02, 0.2], "neuralnetclassifier__module__units": [4, 8]}
    search = GridSearchCV(make_pipeline(StandardScaler(), net), grid, cv=2, scoring="accuracy", error_score="raise")
    search.fit(x, y)
    best = search.best_estimator_[-1]
    file = io.BytesIO()
    best.save_params(f_params=file)
    file.seek(0)
    best.load_params(f_params=file)
    return [
        search.best_score_, search.best_params_, search.cv_results_["mean_test_score"].tolist(),
        search.predict_proba(x)[:5].tolist(), [row["train_loss"] for row in best.history],
    ]  # fmt: skip


def torchdiffeq():
    from torchdiffeq import odeint, odeint_adjoint, odeint_event

    class Spiral(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.tensor([[-0.1, 2.0], [-2.0, -0.1]], dtype=torch.float64))

        def forward(self, t, y):
            return y**3 @ self.a

    results, times = [], torch.linspace(0.0, 1.0, 5, dtype=torch.float64)
    start = torch.tensor([[2.0, 0.0]], dtype=torch.float64, requires_grad=True)
    for method in ("dopri5", "rk4", "midpoint", "dopri8", "explicit_adams"):
        for solve in (odeint, odeint_adjoint):
            model, start.grad = Spiral(), None
            y = solve(model, start, times, method=method)
            y.pow(2).mean().backward()
            results.append([y.tolist(), model.a.grad.tolist(), start.grad.tolist()])
    time, _ = odeint_event(Spiral(), start, times[0], event_fn=lambda t, y: y[0, 0] - 1)
    return [*results, time.item()]


def safetensors():
    from safetensors import safe_open
    from safetensors.torch import load, load_file, load_model, save, save_file, save_model

    tensors = {
        "a": torch.arange(6.0).reshape(2, 3), "long": torch.ones(3, dtype=torch.int64), "half": torch.ones(2).half(),
        "bfloat": torch.tensor([1.0, 2.0]).bfloat16(), "flag": torch.tensor([True, False]),
        "scalar": torch.tensor(2.5, dtype=torch.float64), "byte": torch.arange(3, dtype=torch.uint8),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "file.safetensors")
        save_file(tensors, path, metadata={"by": "a test"})
        back = {name: [str(t.dtype), t.tolist()] for name, t in load_file(path).items()}
        with safe_open(path, framework="pt", device="cpu") as file:
            opened = [sorted(file.keys()), file.metadata(), file.get_slice("a")[:, 1:].tolist()]
        equal = all(torch.equal(tensors[name], value) for name, value in load(save(tensors)).items())
        model, other = (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)) for _ in range(2))
        model.append(model[0])  # tied: it is saved once
        other.append(other[0])
        save_model(model, path)
        missing = load_model(other, path)
        same = all(torch.equal(p, q) for p, q in zip(model.state_dict().values(), other.state_dict().values()))
        try:
            save_file({"one": model[0].weight, "other": model[2].weight}, path)
        except RuntimeError as error:
            refused = "share memory" in str(error)
    return [back, opened, equal, same, [*map(list, missing)], refused]


def transformers():
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        GPT2Config,
        GPT2LMHeadModel,
        LlamaConfig,
        LlamaForCausalLM,
    )

    sizes = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes["intermediate_size"] = 24
    ids = torch.arange(3, 17).reshape(2, 7)
    names = {"vocab_size": 60, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
    names.update(bos_token_id=1, eos_token_id=2)
    models = [
        fill(GPT2LMHeadModel(GPT2Config(**names))).eval(),
        fill(LlamaForCausalLM(LlamaConfig(**sizes, num_key_value_heads=1))).eval(),
    ]
    found = []
    for model in models:
        out = model(input_ids=ids, labels=ids)
        out.loss.backward()
        found += [out.loss.item(), [p.grad.abs().sum().item() for p in model.parameters()]]
        found.append(model.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=0).tolist())
        found.append(model.generate(ids, max_new_tokens=4, num_beams=3, pad_token_id=0).tolist())
    torch.manual_seed(1)
    found.append(models[0].generate(ids, max_new_tokens=6, do_sample=True, top_k=5, pad_token_id=0).tolist())
    bert = fill(BertForSequenceClassification(BertConfig(**sizes, max_position_embeddings=16, num_labels=3))).eval()
    mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
    logits = bert(ids, attention_mask=mask).logits
    with tempfile.TemporaryDirectory() as folder:
        bert.save_pretrained(folder)
        again = BertForSequenceClassification.from_pretrained(folder).eval()
        same = torch.equal(again(ids, attention_mask=mask).logits, logits)
    return [*found, logits.tolist(), same]


PROGRAMS = {
    program.__name__: program
    for program in (einops, torchinfo, torchmetrics, torchviz, skorch, torchdiffeq, safetensors, transformers)
}
