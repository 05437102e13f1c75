"""nn.Module as users know it: registration, state_dict, modes, traversal, printing."""
import copy

import numpy as np

from .common import outcome, parameters_from


def program_state_dict_round_trip(torch):
    random = np.random.RandomState(7)
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU())
            self.heads = nn.ModuleDict({"mean": nn.Linear(3, 2), "scale": nn.Linear(3, 2, bias=False)})
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
            self.register_buffer("scratch", torch.ones(1), persistent=False)
            self.temperature = nn.Parameter(torch.ones(1))

        def forward(self, x):
            self.steps += 1
            hidden = self.body(x)
            return self.heads["mean"](hidden), (self.heads["scale"](hidden) / self.temperature).exp()

    first, second = parameters_from(random, Net()), parameters_from(random, Net())
    x = torch.tensor(random.standard_normal((6, 4)).astype("float32"))
    first(x)
    report = second.load_state_dict(first.state_dict())
    first.eval(), second.eval()
    same = [torch.equal(a, b) for a, b in zip(first(x), second(x), strict=True)]
    state = first.state_dict()
    wrong = {**state, "extra": torch.ones(1)}
    del wrong["temperature"]
    loose = second.load_state_dict(wrong, strict=False)
    return [list(state), list(state.values()), repr(report), same, loose.missing_keys, loose.unexpected_keys,
            outcome(lambda: second.load_state_dict(wrong), 40), first(x), first.training, repr(first)]


def program_traversal(torch):
    nn = torch.nn
    shared = nn.Linear(2, 2)
    tail = nn.Sequential(nn.Dropout(0.1), nn.Identity())
    model = nn.Sequential(shared, nn.ModuleList([nn.ReLU(), shared]), tail)
    names = [[name for name, _ in model.named_modules()], [name for name, _ in model.named_parameters()],
             [name for name, _ in model.named_children()], len(list(model.parameters())), len(model)]
    model.train(False)
    flags = [module.training for module in model.modules()]
    clone = copy.deepcopy(model)
    model.requires_grad_(False)
    model.double()
    kinds = [str(p.dtype).split(".")[-1] for p in model.parameters()]
    visited = []
    model.apply(lambda module: visited.append(type(module).__name__))
    return [names, flags, kinds, visited, [p.requires_grad for p in clone.parameters()],
            model.get_submodule("2.0").p, clone[0] is clone[1][1], repr(model),
            outcome(lambda: model.missing, 6)]


def program_registration(torch):
    nn = torch.nn
    module = nn.Module()
    module.weight = nn.Parameter(torch.ones(2))
    module.child = nn.Linear(2, 1)
    module.register_parameter("bias", None)
    module.plain = torch.zeros(3)
    before = [sorted(module.state_dict()), module.bias is None, len(list(module.buffers()))]
    del module.child
    module.weight = None
    return [before, sorted(module.state_dict()), list(module._parameters),
            isinstance(nn.Parameter(torch.ones(1)), torch.Tensor),
            outcome(lambda: setattr(module, "bias", torch.ones(1)), 6),
            outcome(lambda: module.register_buffer("a.b", torch.ones(1)), 3),
            outcome(lambda: module(torch.ones(1)), 2), repr(nn.Parameter(torch.ones(2)))]


def program_layers(torch):
    """One call of many layers with fixed parameters."""
    random = np.random.RandomState(8)
    nn = torch.nn
    image = torch.tensor(random.standard_normal((2, 3, 6, 6)).astype("float32"), requires_grad=True)
    sequence = torch.tensor(random.standard_normal((2, 5, 4)).astype("float32"), requires_grad=True)
    on_images = [nn.Conv2d(3, 4, 3, padding=1, stride=2), nn.BatchNorm2d(3), nn.MaxPool2d(2), nn.AvgPool2d(2),
                 nn.AdaptiveAvgPool2d(1), nn.GroupNorm(3, 3), nn.Flatten(), nn.LeakyReLU(0.2),
                 nn.ZeroPad2d(1), nn.ConvTranspose2d(3, 2, 2, stride=2), nn.Upsample(scale_factor=2),
                 nn.Softmax(dim=1)]
    on_sequences = [nn.LayerNorm(4), nn.Linear(4, 2), nn.GELU(), nn.SiLU(), nn.Softplus(), nn.ELU(),
                    nn.Hardtanh()]
    results = []
    for source, layers in ((image, on_images), (sequence, on_sequences)):
        for layer in layers:
            output = parameters_from(random, layer)(source)
            (output ** 2).sum().backward()
            results.append([output, *(p.grad for p in layer.parameters())])
    embedding = parameters_from(random, nn.Embedding(5, 3, padding_idx=0))
    embedding(torch.tensor([[0, 1], [4, 1]])).sum().backward()
    return [*results, image.grad, sequence.grad, embedding.weight.grad]
