"""docs/authors.md: its programs run as they stand, and what they declare is right."""

import inspect
import re

import pytest

from plugrad import extend
from plugrad.cli import reference, reference_words
from support.distribution_builder import ROOT, command, output

PAGE = ROOT / "docs" / "authors.md"


def programs():
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


def test_the_programs_run():
    assert len(programs()) == PAGE.read_text().count("```") / 2 >= 6
    output("\n".join(programs()))


def test_what_they_declare_is_right(tmp_path):
    """Without the lines that use it, the page is a file that `plugrad check` takes."""
    declared = re.sub(r"^register\(.*\n(?:.+\n)*", "", "\n".join(programs()), flags=re.M)
    (tmp_path / "page.py").write_text(declared)
    said = command("check", "page.py", "-k", "gradient or descent or rates or samples", cwd=tmp_path).stdout
    assert re.search(r"\d\d checks: \d\d passed", said) and "failed" not in said


def test_the_reference_is_that_of_the_code():
    """Written anew by `python -m plugrad.cli.reference > docs/reference.md`."""
    assert (ROOT / "docs" / "reference.md").read_text() == reference.page()


def test_every_option_of_every_family_has_its_line():
    refused = set()
    for family in reference_words.FAMILIES:
        with pytest.raises(TypeError) as error:
            getattr(extend, family)(no_such_option=1)(lambda xp, input, other: input)
        known = re.findall(r"\w+", str(error.value).partition(" has ")[2].partition(", no option")[0])
        assert set(known) == set(reference.options(family)), family
        refused |= set(known)
    assert refused == set(reference_words.OPTIONS)


def test_what_formulas_may_ask_for_is_what_is_listed():
    record = extend.op(lambda xp, weight: (weight, weight), name="twice_over")
    for name in reference_words.FORMULAS:
        if name not in ("F", "g"):
            asked = name.replace("NAME", "weight")
            extend.op(lambda xp, weight: weight, name="once_over").vjp(eval(f"lambda F, g, {asked}: g"))
    with pytest.raises(TypeError, match="write `y` .the output, `y1`: one of several., `needs`, or a parameter"):
        record.vjp(lambda F, g, other: g)


@pytest.mark.parametrize("name", ["kernel_for", "loss", "layer", "register", "LRScheduler", "Generator", "Parameter"])
def test_every_argument_is_described(name):
    value = getattr(extend, name)
    described = inspect.getdoc(value) + "".join(inspect.getdoc(one) or "" for one in (value.__init__,))
    for parameter in inspect.signature(value).parameters:
        assert re.search(rf"\b{parameter}\b", described), parameter


def test_every_name_of_the_public_module_is_in_the_reference():
    page = (ROOT / "docs" / "reference.md").read_text()
    for name in extend.__all__:
        assert f"### `{name}" in page or f"| `@{name}` |" in page, name
    for name in ("slots", "advance", "scratch", "update"):
        assert f"#### `Optimizer.{name}(" in page
    told = ("- `elementwise`: ", "at most 80 columns", "graph.example_kwargs", "F.sum_to_size", "`needs` |", "NumPy's")
    assert [what for what in told if what not in page] == []
