"""Rows of checks as a JUnit report, which CI systems read."""

from __future__ import annotations

import re
from xml.etree import ElementTree


def write_junit(path, rows) -> None:
    """Write rows as a JUnit report: one test case for each check."""
    suite = ElementTree.Element(
        "testsuite", name="plugrad check", tests=str(len(rows)), errors="0",
        failures=str(sum(row["status"] == "failed" for row in rows)),
        skipped=str(sum(row["status"] == "skipped" for row in rows)),
        time=f"{sum(row['seconds'] for row in rows):.3f}",
    )  # fmt: skip
    for row in rows:
        place = f"{row['distribution'] or 'records'}.{row['kind']}"
        case = ElementTree.SubElement(suite, "testcase", classname=place, name=row["id"], time=f"{row['seconds']:.3f}")
        if row["status"] == "failed":
            ElementTree.SubElement(
                case, "failure", message=_printable(row["message"].splitlines()[0])
            ).text = _printable(row["message"])
        elif row["status"] == "skipped":
            ElementTree.SubElement(case, "skipped", message=_printable(row["message"]))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.ElementTree(root).write(path, encoding="unicode", xml_declaration=True)


def _printable(text) -> str:
    """Return text without the control characters that XML does not have."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x1b]", "?", text)
