"""The programs in README.md and on the pages of docs/ run as they stand, and do what the pages say."""

import re
import textwrap

import pytest

from support.distribution_builder import ROOT, output

REGISTER = "import plugrad\nfrom plugrad.extend import register"
# What stands on a page in words: (page, number of the program) -> source before it, source after it.
AROUND = {
    ("README.md", 0): ("", "assert torch.load('model.pt').keys() == model.state_dict().keys()"),
    ("README.md", 1): (REGISTER, "register(*plugrad_ops())\nassert torch.tensor([8.0]).cbrt().item() == 2"),
    ("architecture.md", 0): (REGISTER, "register(*plugrad_ops())\nassert plugrad.tensor([8.0]).cbrt_().item() == 2"),
    ("check.md", 1): (
        "from plugrad.nn import Module",
        """
        from plugrad.testing.samples import Maker
        (first, _), (second, _) = Scale.samples(Maker("page"))
        assert first == 4 and second.args == (4,) and second.kwargs == {"bias": False}
        """,
    ),
    ("checkpoints.md", 0): (
        "",
        """
        state = Scale().state_dict()
        state["gamma"] = state.pop("weight") * 2
        state._metadata[""]["version"] = 1
        assert Scale().load_state_dict(state, plan=True).fits
        """,
    ),
    ("formats.md", 0): (
        "import plugrad",
        """
        from plugrad.extend import register
        import pathlib, tempfile
        register(*plugrad_formats())
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.lines"
            path.write_text("#lines\\n1.5\\n2\\n")
            assert plugrad.load(path).tolist() == [1.5, 2.0]
        """,
    ),
    ("random_numbers.md", 0): ("", "torch.manual_seed(0); assert abs(torch.rand(2)[0].item() - 0.4963) < 1e-4"),
    ("mixed_precision.md", 0): ("", "assert scaler.get_scale() in (2.0**15, 2.0**16) and loss.dtype is torch.float32"),
    ("native.md", 0): ("", "assert abs(torch.softcap(torch.ones(1), 1.0).item() - 0.7616) < 1e-4"),
    ("pictures.md", 1): ("", "assert 'cross' in picture.dot().lower() or 'nll' in picture.dot().lower()"),
    ("programs.md", 0): ("", "assert torch is plugrad and 'plugrad' in torch.__version__"),
    ("plugins.md", 0): ("", "assert plugrad.backends.fallbacks() == {}"),
    ("tensors.md", 0): (
        "from plugrad import install_as_torch; install_as_torch()",
        "assert x.grad.is_nested and y.shape == x.shape",
    ),
    ("tensors.md", 1): (
        "warnings.filterwarnings('ignore', 'The PyTorch API of')",
        "assert mean.to_tensor(0).tolist() == [1, 4] and x.grad.to_tensor(0).sum().item() == 18",
    ),
    ("safety.md", 0): ("", "assert x.grad.tolist() == [0.0, 0.5]"),
    ("safety.md", 2): (
        """
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.encoder = torch.nn.Linear(2, 3)
                self.head = torch.nn.Linear(1, 1)

            def forward(self, x):
                return self.head(self.encoder(x).argmax(1, keepdim=True).float())

        import warnings
        model, criterion = Model(), torch.nn.MSELoss()
        x, y = torch.randn(5, 2), torch.randn(5, 1)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
        """,
        """
        assert "2 parameter(s) receive no gradient from this backward:" in str(seen[0].message)
        assert "encoder.weight: its path to the loss ends in argmax at" in str(seen[0].message)
        """,
    ),
}  # fmt: skip
# Programs that end with an error, as the page says.
FAILING = {
    ("check.md", 0): (LookupError, "there is nothing named 'plugrad-foo' to check"),  # it is installed nowhere
    ("safety.md", 1): (RuntimeError, "saved by ExpBackward0"),
}
PAGES = (
    "README.md", "architecture.md", "check.md", "checkpoints.md", "compile.md", "formats.md", "interception.md",
    "interop.md", "mixed_precision.md",
    "native.md", "pictures.md", "plugins.md", "programs.md", "random_numbers.md", "safety.md",
    "staged.md", "tensors.md",
)  # fmt: skip


def programs(page):
    file = ROOT / page if page == "README.md" else ROOT / "docs" / page
    return re.findall(r"^```python\n(.*?)^```$", file.read_text(), re.M | re.S)


def script(page):
    """Return all programs of a page as one, with what stands there in words."""
    parts = ["import warnings; warnings.simplefilter('error')"]
    for number, program in enumerate(programs(page)):
        before, after = [textwrap.dedent(text) for text in AROUND.get((page, number), ("", ""))]
        inside = before.rstrip().rpartition("\n")[2].startswith(" ")  # in a block that `before` begins
        if (page, number) in FAILING:
            error, text = FAILING[page, number]
            program = f"try:\n{textwrap.indent(program, '    ')}except {error.__name__} as error:\n"
            program += f"    assert {text!r} in str(error)\nelse:\n    raise AssertionError('no error')\n"
        parts += [before, textwrap.indent(program, "    ") if inside else program, after]
    return "\n".join(parts)


@pytest.mark.parametrize("page", PAGES)
def test_programs_run(page, tmp_path):
    (tmp_path / "page.py").write_text(script(page))  # a file: staged programs are read from their source
    output(None, cwd=tmp_path, arguments=("page.py",))


def test_all_pages_with_programs_are_tested():
    own = {"authors.md", "first_package.md", "cuda.md"}  # followed by tests of their own
    assert {file.name for file in (ROOT / "docs").glob("*.md") if programs(file.name)} <= {*PAGES, *own}
