"""docs/authors.md: its programs run as they stand, and what they declare is right."""

import re

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


def test_every_option_of_every_family_is_listed():
    from plugrad.extend import binary, elementwise, op, reduction, unary

    listed = set(re.findall(r"(\w+)=", PAGE.read_text()))
    internal = {"node", "same", "numbers"}
    for family in (binary, elementwise, op, reduction, unary):
        try:
            family(no_such_option=1)(lambda xp, input, other: input)
        except TypeError as error:
            options = set(re.findall(r"\w+", str(error).partition(" has ")[2].partition(", no option")[0]))
        assert options - internal <= listed, options - internal - listed
