"""What distributions need in which versions, by their metadata: enough of PEP 440 and PEP 508 to compare."""

from __future__ import annotations

import operator
import re

_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[[^\]]*\])?\s*\(?((?:(?:~=|===?|!=|<=?|>=?)\s*[\w.*+!-]+\s*,?\s*)*)\)?")
_VERSION = re.compile(
    r"v?(?:(\d+)!)?([\d.]+)"  # epoch, release
    r"[-_.]?(?:(a|alpha|b|beta|c|rc|pre|preview)[-_.]?(\d*))?"
    r"(?:[-_.]?(post|rev|r)[-_.]?(\d*)|-(\d+))?"
    r"(?:[-_.]?(dev)[-_.]?(\d*))?(?:\+.*)?"
)
_COMPARE = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt}


def needs(metadata: str):
    """Yield (name, versions) of what a distribution needs always, by the text of its METADATA.

    What is needed under a condition only (an extra, a version of Python) is left out: pip decided on that.
    """
    header = metadata.replace("\r\n", "\n").partition("\n\n")[0]
    for line in re.findall(r"^Requires-Dist:(.*)$", header, re.M):
        if ";" not in line and (parts := _REQUIREMENT.fullmatch(line.strip())):
            yield parts[1], parts[2].strip()


def fits(version: str, wanted: str) -> bool:
    """Whether a version is among the wanted ones, as in ">=2.1,<3"; what can't be read counts as fitting.

    >>> from plugrad.catalog.requirements import fits
    >>> fits("2.1.0", ">=2.1"), fits("2.1.0rc1", ">=2.1"), fits("2.10", "~=2.2"), fits("3.0", "~=2.2")
    (True, False, True, False)
    """
    return all(_fits(version, *bound) for bound in re.findall(r"(~=|===?|!=|<=?|>=?)\s*([\w.*+!-]+)", wanted))


def _fits(version, sign, bound) -> bool:
    if sign in ("==", "!=") and bound.endswith(".*"):
        return _starts_with(version, bound[:-2]) is (sign == "==")
    have, limit = _key(version), _key(bound)
    if have is None or limit is None or sign == "===":
        return sign != "===" or version == bound
    if sign == "~=":
        return have >= limit and _starts_with(version, bound.rpartition(".")[0])
    if sign in ("==", "!="):
        return (have == limit) is (sign == "==")
    # `<2.0` means none of 2.0's own pre-releases, and `>2.0` none of its post-releases.
    same = have[:2] == limit[:2]
    if sign == "<" and same and _is_early(have) and not _is_early(limit):
        return False
    return _COMPARE[sign](have, limit) and not (sign == ">" and same and have[3] > 0 and not limit[3])


def _is_early(key) -> bool:
    return key[2] != ("z", 0) or (not key[3] and key[4][0] == 0)


def _starts_with(version, start) -> bool:
    (epoch, version), (wanted_epoch, start) = (text.rpartition("!")[::2] for text in (version, start))
    if (epoch or "0") != (wanted_epoch or "0"):
        return False
    numbers, wanted = (re.findall(r"\d+", re.match(r"[\d.]*", text)[0]) for text in (version, start))
    numbers += ["0"] * (len(wanted) - len(numbers))
    return list(map(int, numbers[: len(wanted)])) == list(map(int, wanted))


def _key(version: str) -> tuple | None:
    """Return what versions are ordered by; None for one that PEP 440 does not know."""
    parts = _VERSION.fullmatch(version.strip().lower())
    if parts is None or not re.search(r"\d", parts[2]):
        return None
    release = [int(number) for number in parts[2].strip(".").split(".") if number]
    while release and not release[-1]:
        release.pop()
    before = (parts[3][0] if parts[3][0] in "ab" else "c", int(parts[4] or 0)) if parts[3] else ("z", 0)
    after = int(parts[6] or parts[7] or 0) + 1 if parts[5] or parts[7] else 0
    develops = (0, int(parts[9] or 0)) if parts[8] else (1, 0)
    if parts[8] and not parts[3] and not after:
        before = ("", 0)  # 1.0.dev1 is older than 1.0a1
    return int(parts[1] or 0), release, before, after, develops
