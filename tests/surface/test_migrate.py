"""Older programs, rewritten: the text that results, and that it computes and differentiates as before."""

import textwrap
import warnings

import pytest

import plugrad as torch
from plugrad.migrate import migrated
from plugrad.testing import gradcheck
from support.distribution_builder import command, refusal

LINES = {
    "x = Variable(a)": "x = a",
    "x = Variable(a + b).sum()": "x = (a + b).sum()",
    "x = Variable(a, requires_grad=True)": "x = a.detach().requires_grad_()",
    "x = Variable(torch.randn(2), requires_grad=flag)": "x = torch.randn(2).requires_grad_(flag)",
    "x = torch.autograd.Variable(a, requires_grad=False)": "x = a",
    "x = Variable(data=a, volatile=True)": "x = a.detach()",
    "x = Variable(Variable(a).data[0] * b)": "x = (a.item() * b)",
    "total += loss.data[0]": "total += loss.item()",
    "print('%f é' % loss.data[0], (a - b).data[0])": "print('%f é' % loss.item(), (a - b).item())",
    "row = net.weight.data[0]": "row = net.weight.data[0]",
    "x.data[0] = 3": "x.data[0] = 3",
    "first = x.data[0][1]": "first = x.data[0][1]",
    "nn.init.xavier_normal(w)": "nn.init.xavier_normal_(w)",
    "torch.nn.utils.clip_grad_norm(p, 1)": "torch.nn.utils.clip_grad_norm_(p, 1)",
    "F.mse_loss(x, y, size_average=False)": 'F.mse_loss(x, y, reduction="sum")',
    "F.mse_loss(x, y, size_average=True, reduce=True)": 'F.mse_loss(x, y, reduction="mean")',
    "nn.BCELoss(reduce=False)": 'nn.BCELoss(reduction="none")',
    "from torch.autograd import Variable, Function\nFunction": "from torch.autograd import Function\nFunction",
    "from torch.autograd import Variable\nx = 1": "x = 1",
}


@pytest.mark.parametrize("line", LINES)
def test_lines(line):
    result = migrated(line)
    assert result.text == LINES[line]
    assert migrated(result.text).text == result.text


@pytest.mark.parametrize("line, said", [
    ("x = Variable(a, volatile=True)", "with torch.no_grad()"),
    ("x = Variable(*pair)", "unpacked"),
    ("y = net.weight.data[0]", r".item()"),
])  # fmt: skip
def test_what_no_rule_decides_is_told_with_its_line(line, said):
    ((number, note),) = migrated(f"\n{line}").notes
    assert number == 2 and said in note


OLD = '''
import torch
from torch.autograd import Function, Variable


class Scale(Function):
    """Multiply and shift."""

    def __init__(self, factor, shift=0.5):
        super(Scale, self).__init__()
        self.factor, self.shift = factor, shift

    def forward(self, input):
        """Keep the input."""
        self.save_for_backward(input)
        if self.shift > 0:
            return input * input * self.factor + self.shift
        return input * input * self.factor

    def backward(self, grad_output):
        input, = self.saved_tensors  # a comment stays
        return grad_output * 2 * input * self.factor


class Linear(Function):

    # bias is an optional argument
    def forward(self, input, weight, bias=None):
        self.save_for_backward(input, weight, bias)
        output = input.mm(weight.t())
        return output if bias is None else output + bias

    def backward(self, grad_output):
        input, weight, bias = self.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if self.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if self.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and self.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias


class Product(Function):
    def __init__(me, power):
        me.power = power

    def forward(me, x, y):
        me.save_for_backward(x, y)
        return x ** me.power * y

    def backward(me, g):
        (x, y) = me.saved_variables
        return (g * me.power * x ** (me.power - 1) * y,
                g * x ** me.power)


def model(input, weight, bias):
    hidden = Scale(2.0)(Linear()(input, weight, bias))
    return Product(power=3)(hidden, Scale(shift=-1.0, factor=3.0)(bias).expand_as(hidden))
'''


def run(text):
    names = {}
    exec(text.replace("import torch\n", "import plugrad as torch\n").replace("from torch", "from plugrad"), names)
    return names["model"]


def test_functions_compute_and_differentiate_as_before():
    result = migrated(OLD)
    assert result.notes == [] and "self" not in result.text and "Variable" not in result.text
    assert "saved_variables" not in result.text
    assert "# a comment stays" in result.text and "# bias is an optional argument" in result.text
    assert result.text.count("@staticmethod") == 6 and "Linear.apply(input, weight, bias)" in result.text
    make = torch.testing.samples.Maker("model")
    inputs = make(2, 3), make(4, 3), make(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        before = run(OLD)(*inputs)
    model = run(result.text)
    assert torch.equal(model(*inputs), before)
    assert gradcheck(model, inputs)


@pytest.mark.parametrize("body, why", [
    ("def forward(self, x): return self.helper(x)\ndef helper(self, x): return x", "other methods"),
    ("def __init__(self, *sizes): pass\ndef forward(self, x): return x", r"\*args"),
    ("def __init__(self, k): pass\ndef forward(self, *x): return x", r"\*inputs"),
])  # fmt: skip
def test_functions_that_are_left_say_why(body, why):
    text = f"class F(Function):\n{textwrap.indent(body, '    ')}\n"
    result = migrated(text)
    assert result.text == text
    ((line, note),) = result.notes
    assert line == 1 and note.startswith("class F is left as it is: ")


def test_functions_of_today_are_left_alone():
    text = "class F(Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x\n"
    assert migrated(text) == type(migrated(text))(text, [])


def test_old_forms_run_and_say_what_to_write():
    class Twice(torch.autograd.Function):
        def forward(self, x):
            return 2 * x

        def backward(self, g):
            return 2 * g

    with pytest.warns(DeprecationWarning, match=r"x.requires_grad_\(\); `plugrad migrate FILE`"):
        x = torch.autograd.Variable(torch.ones(2), requires_grad=True)
    with pytest.warns(DeprecationWarning, match=r"Twice\.apply\(\.\.\.\); `plugrad migrate FILE` rewrites it"):
        Twice()(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_the_command(tmp_path):
    file = tmp_path / "old.py"
    file.write_text("x = Variable(torch.ones(2))\n")
    shown = command("migrate", str(file)).stdout
    assert "-x = Variable(torch.ones(2))\n+x = torch.ones(2)\n" in shown
    assert shown.endswith("1 file to rewrite: --write does it\n") and "Variable" in file.read_text()
    assert command("migrate", str(file), "--write").stdout.endswith("1 file rewritten\n")
    assert file.read_text() == "x = torch.ones(2)\n"
    assert command("migrate", str(file)).stdout == "nothing to rewrite\n"
    file.write_text("print 'Python 2'\n")
    assert "is no program of Python 3: line 1" in refusal("migrate", str(file))
