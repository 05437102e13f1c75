"""Tables of layers and drawn graphs: what they say agrees with the model, and boxes do not overlap."""

import re
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest

import plugrad as torch
from plugrad import nn
from plugrad.pictures.layout import Placed
from plugrad.pictures.tape import record


def cnn():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 3))


def test_the_table_counts_parameters_and_products():
    model = cnn()
    table = torch.summary(model, torch.randn(2, 1, 8, 8))
    assert [row.name for row in table.rows] == ["", "0", "1", "2", "3", "4"]
    assert table.parameters == sum(p.numel() for p in model.parameters()) == table.rows[0].parameters
    conv, linear = 2 * 4 * 6 * 6 * 9, 2 * 3 * 144
    assert [row.multiply_adds for row in table.rows] == [conv + linear, conv, 0, 0, 0, linear]
    assert table.rows[1].input_shape == "2 x 1 x 8 x 8" and table.rows[1].output_shape == "2 x 4 x 6 x 6"
    assert all(row.seconds > 0 for row in table.rows)
    assert "multiply-adds: 3,456" in str(table) and "Conv2d" in str(table)
    assert "Conv2d" not in str(torch.summary(model, torch.ones(2, 1, 8, 8), depth=0))


def test_what_is_kept_for_backward_is_counted_once():
    x = torch.randn(5, 7)
    chain = nn.Sequential(nn.Linear(7, 7), nn.Tanh(), nn.Linear(7, 7))
    kept = [row.saved_bytes for row in torch.summary(chain, x).rows]
    assert kept == [2 * 5 * 7 * 4, 5 * 7 * 4, 5 * 7 * 4, 0]  # the input, and tanh's result, which the last layer shares
    with torch.no_grad():
        assert torch.summary(chain, x).saved_bytes == 0


def test_a_summary_leaves_no_trace():
    model = cnn().append(nn.Dropout())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    torch.summary(model, torch.zeros(2, 1, 8, 8))
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    with pytest.raises(RuntimeError):
        torch.summary(model, torch.zeros(2, 3, 8, 8))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_a_layer_that_is_called_again_brings_no_new_parameters():
    shared = nn.Linear(3, 3)
    table = torch.summary(nn.Sequential(shared, nn.ReLU(), shared), torch.ones(2, 3))
    assert table.parameters == 12 and [row.again for row in table.rows] == [False, False, False, True]
    assert table.multiply_adds == 2 * 2 * 9


def test_a_summary_takes_keywords_lazy_layers_and_dicts():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.LazyLinear(2)

        def forward(self, x, *, scale):
            return {"y": self.inner(x) * scale}

    table = torch.summary(Two(), torch.ones(4, 3), scale=2.0)
    assert table.rows[0].output_shape == "4 x 2" and table.parameters == 8
    with pytest.raises(TypeError, match="takes a Module"):
        torch.summary(torch.relu, torch.ones(2))


def leaf():
    return torch.ones(3, requires_grad=True)


def chunks():
    a, b = torch.ones(4, requires_grad=True).chunk(2)
    return (a * b).sum()


def diamond():
    x = leaf()
    return (x.sin() + x.cos() * x).sum()


def encoder():
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(torch.randn(2, 3, 8)).sum()


def several():
    outputs, (h, c) = nn.LSTM(2, 3, 2)(torch.randn(4, 2, 2))
    return [outputs, h, c]


def long_edges():
    x = y = leaf()
    for _ in range(60):
        y = y * 1.5 + x
    return y


@pytest.mark.parametrize("make", [leaf, chunks, diamond, encoder, several, long_edges])
def test_every_arrow_leads_down_and_no_boxes_overlap(make):
    result = make()
    results = result if isinstance(result, list) else [result]
    placed = Placed(record(results, {}, 400))
    corners = sorted(placed.corners.values())
    for i, (x, y, width, height) in enumerate(corners):
        assert x >= 0 and y >= 0 and x + width <= placed.width and y + height <= placed.height
        for other_x, other_y, _, other_height in corners[i + 1 :]:
            assert other_x >= x + width or other_y >= y + height or y >= other_y + other_height
    for points in placed.paths():
        assert all(a[1] <= b[1] for a, b in zip(points, points[1:]))
    svg = xml.fromstring(torch.draw(result).svg())
    shown = [part for part in svg.iter("{http://www.w3.org/2000/svg}g")]
    assert len(shown) == len(placed.boxes)


def test_a_picture_names_parameters_shapes_and_memory(tmp_path):
    model = cnn()
    loss = model(torch.randn(2, 1, 8, 8)).sum()
    picture = torch.draw(loss, model)
    text = picture.dot()
    for name, parameter in model.named_parameters():
        assert f'label="{name}\\n{" x ".join(map(str, parameter.shape))}"' in text
    assert text.count("->") == len(re.findall(r"n\d+ -> n\d+", text)) and "keeps" in text and picture.saved_bytes > 0
    loss.backward()
    assert "freed" in torch.draw(loss, model).dot() and torch.draw(loss).saved_bytes == 0
    for suffix in ("svg", "dot"):
        picture.save(tmp_path / f"graph.{suffix}")
        assert (tmp_path / f"graph.{suffix}").read_text() == getattr(picture, suffix)()
    with pytest.raises(ValueError, match="written as .svg or .dot"):
        picture.save(tmp_path / "graph.png")


def test_labels_are_escaped():
    x = torch.ones(2, requires_grad=True)
    picture = torch.draw(x * 2, {'a<b>&"c"\\': x})
    xml.fromstring(picture.svg())
    assert 'a<b>&\\"c\\"\\\\' in picture.dot()


def test_a_weight_in_a_loop_is_drawn_again_where_it_is_used():
    layer, h = nn.Linear(3, 3), torch.zeros(2, 3)
    for _ in range(100):
        h = layer(h).tanh()
    picture = torch.draw(h, layer)
    placed = Placed(picture._tape)
    assert placed.width < 600 and len({box.key for box in picture._tape.boxes}) == 203
    again = [box for box in placed.boxes.values() if box.again]
    assert {box.lines[0] for box in again} == {"weight", "bias"}
    assert picture.svg().count("stroke-dasharray") == len(again) > 20 and picture.dot().count('label="weight') == 1


def test_a_long_graph_shows_its_end():
    y = torch.ones(2, requires_grad=True)
    for _ in range(50):
        y = y * 2
    assert "40 earlier functions are left out" in torch.draw(y, most=10).svg()


def test_what_has_no_graph_is_refused():
    with pytest.raises(ValueError, match="does not require grad"):
        torch.draw(torch.ones(2))
    with pytest.raises(TypeError, match="takes a tensor"):
        torch.draw([3.0])


def test_the_command_draws_what_a_program_recorded_last(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys, torch\nw = torch.ones(2, requires_grad=True)\nloss = (w * len(sys.argv)).sum()\n")

    def run(*words):
        command = [sys.executable, "-m", "plugrad.cli", "graph", str(program), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    drawn = run("-o", str(tmp_path / "g.svg"), "--", "--more")
    assert drawn.returncode == 0, drawn.stderr
    assert "2 functions" in drawn.stdout and "loss" in (tmp_path / "g.svg").read_text()
    refused = run("--result", "nothing")
    assert refused.returncode == 2 and "loss" in refused.stderr
