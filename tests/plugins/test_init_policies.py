"""Policies of initialisation: what "modern" draws, for which modules, and what the state dict says of it."""

import copy
import math
import pickle
import warnings

import pytest

import plugrad
from plugrad import nn
from plugrad.extend import register, unregister


def deep(depth=30, size=64):
    return nn.Sequential(*(part for _ in range(depth) for part in (nn.Linear(size, size), nn.ReLU())))


def spread(model, size=64):
    plugrad.manual_seed(0)
    return model(plugrad.randn(64, size)).std().item()


def test_a_deep_network_of_rectifiers_keeps_its_scale():
    plugrad.manual_seed(1)
    assert spread(deep()) < 0.05  # the dated default
    with nn.init.policy("modern"):
        made_inside = deep()
    assert 0.2 < spread(made_inside) < 5
    assert 0.2 < spread(nn.init.policy("modern").apply(deep())) < 5


class Custom(nn.Module):
    """Nobody can tell from its children what follows what."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(30))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


def test_a_network_with_a_forward_of_its_own_keeps_its_scale_too():
    with nn.init.policy("modern"):
        model = Custom()
    assert 0.2 < spread(model) < 5 and not model.layers[3].bias.any()


def test_what_follows_gives_the_gain():
    with nn.init.policy("modern"):
        rectified = nn.Sequential(nn.Sequential(nn.Conv2d(8, 64, 3), nn.BatchNorm2d(64)), nn.Sequential(nn.ReLU()))
        bent = nn.Sequential(nn.Linear(128, 128), nn.Tanh())
        last = nn.Sequential(nn.Linear(128, 128), nn.Dropout())
        leaky = nn.Sequential(nn.Linear(128, 128), nn.LeakyReLU(1.0))
    gains = [m[0].weight.std() * math.sqrt(n) for m, n in ((rectified[0], 72), (bent, 128), (last, 128), (leaky, 128))]
    assert [gain.item() for gain in gains] == pytest.approx([math.sqrt(2), 5 / 3, 1.0, 1.0], rel=0.05)
    assert bent[0].weight.abs().max() <= 2 * 5 / 3 / math.sqrt(128) / 0.8796 + 1e-5  # truncated


def test_embeddings_attention_and_recurrent_layers():
    with nn.init.policy("modern"):
        table = nn.Embedding(50, 64, padding_idx=3)
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128), 6, enable_nested_tensor=False)
        lstm = nn.LSTM(8, 8)
    assert table.weight.std().item() == pytest.approx(0.02, rel=0.15) and not table.weight[3].any()
    layer, shrunk = encoder.layers[5], 1 / math.sqrt(12)
    assert (layer.self_attn.in_proj_weight.std() * 8).item() == pytest.approx(1, rel=0.05)
    assert (layer.self_attn.out_proj.weight.std() * 8).item() == pytest.approx(shrunk, rel=0.1)
    assert (layer.linear2.weight.std() * math.sqrt(128)).item() == pytest.approx(shrunk, rel=0.1)
    assert (layer.linear1.weight.std() * 8).item() == pytest.approx(math.sqrt(2), rel=0.1)
    gate = lstm.weight_hh_l0[8:16].double()
    assert plugrad.allclose(gate @ gate.T, plugrad.eye(8, dtype=plugrad.float64), atol=1e-5)
    assert lstm.bias_ih_l0.tolist() == [0.0] * 8 + [1.0] * 8 + [0.0] * 16


def test_the_state_dict_says_by_which_policy():
    with nn.init.policy("modern"):
        model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    for one in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        metadata = one.state_dict()._metadata
        assert metadata["0"]["init_policy"] == "modern" and "init_policy" not in metadata["1"]
    nn.init.policy("default").apply(model)
    assert "init_policy" not in model.state_dict()._metadata["0"] and model[0].bias.any()


def test_only_what_is_made_in_the_block_is_initialised():
    older = nn.Linear(3, 3)
    kept = older.weight.detach().clone()
    with nn.init.policy("modern"):
        model = nn.Sequential(older, nn.Linear(3, 3))
        with nn.init.policy("default"):
            inner = nn.Linear(3, 3)
        model.append(inner)
    assert plugrad.equal(older.weight, kept) and inner.bias.any() and not model[1].bias.any()
    assert nn.Linear(3, 3).bias.any()
    with pytest.raises(KeyError), nn.init.policy("modern"):
        left = nn.Linear(3, 3)
        raise KeyError
    assert left.bias.any()


def test_tied_weights_are_initialised_where_they_come_first():
    with nn.init.policy("modern"):
        model = nn.Sequential(nn.Embedding(40, 64), nn.Linear(64, 40, bias=False))
        model[1].weight = model[0].weight
    assert model[1].weight.std().item() == pytest.approx(0.02, rel=0.15)


def test_a_third_party_brings_a_policy():
    def all_ones(module, place):
        for parameter in module.parameters(recurse=False):
            nn.init.ones_(parameter)
        return place.name != "1"

    register(init_policies=[all_ones])
    try:
        with nn.init.policy("all_ones"):
            model = nn.Sequential(nn.Linear(2, 2), nn.PReLU())
    finally:
        unregister(all_ones)
    assert model[0].weight.tolist() == [[1.0, 1.0]] * 2
    assert model.state_dict()._metadata["0"]["init_policy"] == "all_ones"
    assert "init_policy" not in model.state_dict()._metadata["1"]


def test_wrong_uses_say_what_to_write():
    with pytest.raises(ValueError, match="no policy of initialisation named 'modem'; known: 'default', 'modern'"):
        nn.init.policy("modem")
    with pytest.warns(UserWarning, match="write `with nn.init.policy"):
        nn.init.policy("modern")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with nn.init.policy("modern"):
            lazy = nn.LazyLinear(2)
    assert "nn.lazy.materialize" in str(caught[0].message) and caught[0].filename == __file__
    assert not nn.init.policy("modern").apply(nn.lazy.materialize(lazy, (1, 3))).bias.any()
