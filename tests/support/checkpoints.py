"""Checkpoints that were damaged, or made by somebody hostile, and how to tell whether what was loaded is right."""

from __future__ import annotations

import copy
import functools
import io
import json
import operator
import os
import pickle
import random
import subprocess
import warnings
import zipfile
from collections import OrderedDict

import numpy

import plugrad
from plugrad.nn import Parameter

HEADER, OBJECTS, DATA = "plugrad.json", "objects.pkl", "data/0.npy"
ran: list = []  # what hostile pickles called, if one was unpickled


def call(*args, **kwargs):
    """Stand for whatever a hostile pickle might call."""
    ran.append((args, kwargs))
    return {}


# ------------------------------------------------------------------------------------------------ good files


def contents() -> dict:
    """Return objects by name that `save` writes as data, with every construct of the format."""
    base = plugrad.arange(24.0).reshape(4, 6)
    base.note = {"of": base}
    integers = numpy.arange(6, dtype=numpy.int32)
    mixed = [plugrad.from_numpy(integers.view(name)) for name in ("i4", "f4", "u1")]
    state = OrderedDict(weight=Parameter(base.clone()), bias=plugrad.ones(6, dtype=plugrad.float64))
    state._metadata = OrderedDict({"": {"version": 1}})
    return {
        "tensor": plugrad.full((100,), 3.0),
        "views": [base, base[1], base[:, ::2], base.T, base[2:2], plugrad.ones(()).expand(5, 7)],
        "mixed": mixed,
        "state": {"model": state, "epoch": 3, "loss": 0.25, "name": "a net", "lr": 1e-3, "done": False, "none": None},
        "dtypes": {name: plugrad.tensor([0, 1, 1]).to(getattr(plugrad, name))
                   for name in ("bool", "uint8", "int64", "float16", "bfloat16", "complex64")},
        "arrays": [numpy.arange(6).reshape(2, 3)[:, ::-1], numpy.arange(3, dtype=">i2"), numpy.float32(1.5)],
        "values": [(1, (2,)), {3, 4}, {1: "x", (2, 3): "y"}, slice(1, None, 2), 1 + 2j, b"\x00ab", 10**400,
                   float("inf"),
                   plugrad.float16, plugrad.device("cpu"), plugrad.Size([2, 3]), {"$": "tensor"}, "\ud800é"],
        "meta": [plugrad.ones(2, 3, device="meta"), plugrad.ones(3, requires_grad=True)],
    }  # fmt: skip


def written(obj) -> bytes:
    """Return the bytes that `save` writes."""
    file = io.BytesIO()
    plugrad.save(obj, file)
    return file.getvalue()


def same(one, other) -> bool:
    """Whether two objects are alike in type, in every bit and, of tensors, in layout."""
    if type(one) is not type(other):
        return False
    if isinstance(one, plugrad.Tensor):
        fields = ("dtype", "shape", "device", "requires_grad")
        if any(getattr(one, name) != getattr(other, name) for name in fields) or one.stride() != other.stride():
            return False
        if [*vars(one)] != [*vars(other)]:
            return False
        return one.is_meta or same(one.detach()._raw.copy(), other.detach()._raw.copy())
    if isinstance(one, (numpy.ndarray, numpy.generic)):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        pairs = zip(one.items(), other.items(), strict=True) if len(one) == len(other) else [(0, 1)]
        return all(same(a, b) for a, b in pairs) and same(getattr(one, "__dict__", 0), getattr(other, "__dict__", 0))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other and repr(one) == repr(other)


# ---------------------------------------------------------------------------------------------- made by hand


def members(data: bytes) -> dict:
    """Return the members of a zip file by name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(parts, **options) -> bytes:
    """Return a zip file of (name, content) pairs, or a dict of them; names may come twice."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as archive:
        for name, content in parts.items() if isinstance(parts, dict) else parts:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Duplicate name")
                archive.writestr(name, content)
    return file.getvalue()


def changed(obj, change) -> bytes:
    """Return a checkpoint of an object whose description was changed, by a function or to a text."""
    parts = members(written(obj))
    if callable(change):
        header = json.loads(parts[HEADER])
        replaced = change(header)
        change = json.dumps(header if replaced is None else replaced)
    parts[HEADER] = change.encode() if isinstance(change, str) else change
    return zipped(parts)


def npy(description: bytes, content: bytes = bytes(12), version=b"\x01\x00") -> bytes:
    """Return a .npy file with a header of one's own."""
    length = len(description).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + length + description + content


# ------------------------------------------------------------------------------------------- hostile pickles


class Reduced:
    """Pickles as a call: what `__reduce__` returns."""

    def __init__(self, *reduced):
        self.reduced = reduced

    def __reduce_ex__(self, protocol):
        return self.reduced

    def __call__(self):
        raise TypeError("only what this is pickled as can be called")  # pickle asks whether what it calls is callable


def pickles() -> dict:
    """Return pickles by name that call something when they are read by an ordinary unpickler."""
    partial = functools.partial(call, 1)
    objects = {
        "function": Reduced(call, ()),
        "system": Reduced(os.system, ("true",)),
        "eval": Reduced(eval, ("__import__('support.checkpoints').checkpoints.call()",)),
        "exec": Reduced(exec, ("import support.checkpoints; support.checkpoints.call()",)),
        "Popen": Reduced(subprocess.Popen, (["true"],)),
        "getattr": Reduced(Reduced(getattr, (partial, "func")), ()),
        "attrgetter": Reduced(Reduced(operator.attrgetter("func"), (partial,)), ()),
        "methodcaller": Reduced(operator.methodcaller("__call__"), (partial,)),
        "partial": Reduced(partial, ()),
        "map": Reduced(list, (Reduced(map, (call, [1, 2])),)),
        "state": Reduced(OrderedDict, (), {"keys": Reduced(call, ())}),
        "setter": Reduced(OrderedDict, (), {"a": 1}, None, None, call),
        "items": Reduced(OrderedDict, (), None, None, iter([(Reduced(call, ()), 1)])),
    }
    made = {name: pickle.dumps(value, 4) for name, value in objects.items()}
    made["global"] = b"csupport.checkpoints\ncall\n(tR."
    made["inst"] = b"(isupport.checkpoints\ncall\n."
    made["obj"] = b"(csupport.checkpoints\ncall\no."
    made["build"] = b"ccollections\nOrderedDict\n(tR}(S'a'\ncsupport.checkpoints\ncall\n(tRsb."
    made["stack_global"] = b"\x80\x04\x8c\x13support.checkpoints\x8c\x04call\x93)R."
    made["nested"] = pickle.dumps([made["global"]]) + made["global"]
    return made


def hostile() -> dict:
    """Return checkpoints by name that hold pickles, openly or hidden."""
    plain = members(written([plugrad.ones(3)]))
    header = json.loads(plain[HEADER])
    files = {}
    for name, content in pickles().items():
        root = {"$": "object", "number": 0}
        for disguise, claimed, tree in (
            ("open", ["a.B"], root),
            ("hidden", [], root),
            ("nested", [], [{"$": "dict", "items": [[1, root]]}]),
            ("unused", [], 3),
            ("said", ["a.B"], 3),
        ):
            described = {**header, "objects": claimed, "root": tree}
            files[f"{name}, {disguise}"] = zipped({**plain, HEADER: json.dumps(described), OBJECTS: content})
        for place in (HEADER, DATA):
            files[f"{name}, as {place}"] = zipped({**plain, place: content})
        files[f"{name}, alone"] = content
    for pattern in ("|O", "O", "|O8", "<O8", "V8", "<M8[ns]", "S4", "<U4", "<f4, O", "(2,)<f4"):
        described = copy.deepcopy(header)
        described["tensors"][0].update(kind="ndarray", dtype=pattern)
        files[f"array of {pattern}"] = zipped({**plain, HEADER: json.dumps(described)})
        described["tensors"][0].update(kind="Tensor")
        files[f"tensor of {pattern}"] = zipped({**plain, HEADER: json.dumps(described)})
    for pattern in (b"'|O'", b"'O'", b"[('a', '|O')]", b"[('a', [('b', 'O')])]", b"{'names': ['a'], 'formats': ['O']}",
                    b"'<f4,O'", b"'<f0'", b"'<f3'", b"'<i4' * 3", b"'<f4', 'descr': '|O'"):  # fmt: skip
        for shape in (b"(3,)", b"(1,)", b"()"):
            text = b"{'descr': %s, 'fortran_order': False, 'shape': %s, }\n" % (pattern, shape)
            files[f"member of {pattern} {shape}"] = zipped({**plain, DATA: npy(text)})
    return files


# ------------------------------------------------------------------------------------------- damaged descriptions

WRONG = [None, True, -1, 1, 9, 10**30, -(2**63), 0.5, 1e300, "", "0", "../0", "/etc/passwd", "a\x1b[31m", [], [[]], {}]
FIELDS = ("kind", "dtype", "device", "requires_grad", "storage", "offset", "shape", "strides")
# What can't be of a tensor: fields of its entry.
WRONG_TENSORS = {
    "far": {"shape": [1000]}, "offset": {"offset": 4}, "odd offset": {"offset": 1}, "before": {"offset": -4},
    "backwards": {"strides": [-4]}, "odd strides": {"strides": [3], "shape": [2]}, "short strides": {"strides": []},
    "wrapped": {"shape": [2**32 + 1], "strides": [2**32]},
    "wrapped 2": {"shape": [2**31, 2**31], "strides": [0, 0]},
    "wrapped 3": {"shape": [2**62], "strides": [0]}, "wrapped 4": {"shape": [3], "strides": [2**62]},
    "negative": {"shape": [-1]}, "many": {"shape": [1] * 65, "strides": [0] * 65}, "truth": {"shape": [True]},
    "fraction": {"shape": [3.0]}, "text": {"shape": ["3"]}, "huge": {"shape": [10**40]}, "none": {"shape": None},
    "empty, far": {"shape": [0], "offset": 10**9}, "empty, wide": {"shape": [0], "strides": [2**64]},
    "wide": {"dtype": "complex128"}, "grad of integers": {"dtype": "int32"}, "no dtype": {"dtype": "complex32"},
    "object": {"dtype": "object"}, "numpy": {"kind": "ndarray"}, "numpy's": {"kind": "ndarray", "dtype": "<f5"},
    "other storage": {"storage": 1}, "path": {"storage": "0/../0"}, "fractional storage": {"storage": 0.0},
    "meta": {"device": "meta", "shape": [2**62]}, "place": {"device": "nowhere"}, "number": {"device": "cpu:99999"},
    "place with path": {"device": "../cpu"}, "digit": {"device": "cpu:²"},
    "attributes": {"attributes": 3}, "hooks": {"attributes": {"_hooks": 1}},
    "class": {"attributes": {"__class__": 1}},
    "itself": {"attributes": {"$": "tensor", "number": 0}}, "of an array": {"kind": "ndarray", "attributes": {}},
}  # fmt: skip
# What can't be in the tree of objects.
WRONG_TREES = [
    {"$": "tensor"}, {"$": "tensor", "number": -1}, {"$": "tensor", "number": 1}, {"$": "tensor", "number": True},
    {"$": "tensor", "number": 0.0}, {"$": "tensor", "number": "0"}, {"$": "tensor", "number": []},
    {"$": "scalar", "number": 0}, {"$": "object", "number": 0}, {"$": "object"}, {"$": None}, {"$": []},
    {"$": "dict"}, {"$": "dict", "items": {}}, {"$": "dict", "items": [[1]]}, {"$": "dict", "items": [1]},
    {"$": "dict", "items": [[[], 1]]}, {"$": "dict", "items": [[1, 2], [1, 3]]}, {"$": "set", "items": [[]]},
    {"$": "dict", "items": [], "attributes": {"a": 1}},
    {"$": "OrderedDict", "items": [], "attributes": {"keys": 1}},
    {"$": "OrderedDict", "items": [], "attributes": {"__class__": 1}},
    {"$": "OrderedDict", "items": [], "attributes": []},
    {"$": "tuple"}, {"$": "tuple", "items": "ab"}, {"$": "set", "items": 3}, {"$": "unheard of"}, {"$": "__init__"},
    {"$": "float"}, {"$": "float", "value": 3}, {"$": "float", "value": "x"}, {"$": "complex", "value": ["1"]},
    {"$": "complex", "value": ["1", 2]}, {"$": "complex", "value": "12"}, {"$": "bytes", "value": "0"},
    {"$": "int", "value": "x"},
    {"$": "bytes", "value": 3}, {"$": "Size", "value": [0.5]}, {"$": "Size", "value": "ab"},
    {"$": "Size", "value": [True]},
    {"$": "dtype", "value": "f4"}, {"$": "dtype", "value": []}, {"$": "device", "value": 0},
    {"$": "device", "value": "x"},
    {"$": "slice", "value": []}, {"$": "slice", "value": [1, 2, "3"]}, {"$": "slice", "value": 3},
]  # fmt: skip
# What is no description.
WRONG_TEXTS = {
    "empty": "", "null": "null", "cut": '{"format":1', "NaN": '{"format":NaN}', "infinite": '{"format":Infinity}',
    "twice": '{"format":1,"format":1}', "bytes": b"\xff\xfe\x00", "long number": '{"format":' + "1" * 5000 + "}",
    "deep": "[" * 100_000, "deep and whole": "[" * 100_000 + "]" * 100_000, "two": "{}{}", "NUL": "\0" * 100,
    "large float": '{"format":1e999}',
}  # fmt: skip


def descriptions() -> dict:
    """Return checkpoints by name whose description says what can't be: none of them may be loaded."""
    files, tensor = {}, plugrad.ones(3, requires_grad=True)

    def add(name, change, obj=tensor):
        files[name] = changed(obj, change)

    for field in FIELDS:
        if field != "requires_grad":
            add(f"no {field}", lambda h, f=field: h["tensors"][0].pop(f) and None)
        for value in WRONG:
            if (field, value) not in (("requires_grad", True),):
                add(f"{field} {value!r}", lambda h, f=field, v=value: h["tensors"][0].update({f: v}))
    for field in ("format", "plugrad", "plugins", "objects", "tensors", "root"):
        add(f"no {field}", lambda h, f=field: h.pop(f) and None)
    for field in ("format", "plugrad", "plugins", "objects", "tensors"):
        for value in (None, 0.5, [[]], {"a": 1}, -1, 10**30, ["a b"], {"a": "\x1b"}, [3]):
            add(f"{field} is {value!r}", lambda h, f=field, v=value: h.update({f: v}))
    for name, entry in WRONG_TENSORS.items():
        add(name, lambda h, e=entry: h["tensors"][0].update(e))
    for tree in WRONG_TREES:
        add(f"root {tree}", lambda h, t=tree: h.update(root=t))
        add(f"in root {tree}", lambda h, t=tree: h.update(root={"a": [1, t]}))
    add("byte order", lambda h: h.update(byteorder="big"))
    add("a list", lambda h: [h])
    for name, text in WRONG_TEXTS.items():
        add(f"description {name}", text)
    whole = json.dumps(json.loads(members(written(tensor))[HEADER]) | {"root": 0})
    add("deepest root", whole.replace('"root": 0', '"root": ' + "[" * 20_000 + "]" * 20_000))
    add("deep dicts", whole.replace('"root": 0', '"root": ' + '{"a":' * 5_000 + "1" + "}" * 5_000))
    return files


def archives() -> dict:
    """Return files by name that are not zip files, or not such as `save` writes."""
    good = written(plugrad.ones(3))
    parts = members(good)
    pairs = list(parts.items())
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%s,), }\n"
    data = {
        "no magic": b"hello", "version 2": npy(header % b"3", version=b"\x02\x00"), "empty": b"", "short": b"\x93NUMPY",
        "huge": npy(header % b"999999999999999999"), "longer": npy(header % b"4"), "shorter": npy(header % b"2"),
        "negative": npy(header % b"-3"), "fraction": npy(header % b"3.0"), "tuple": npy(header % b"3, 1"),
        "expression": npy(header % b"1 + 2"), "code": npy(header % b"__import__('os').system('true')"),
        "long header": npy(header % b"3" + b" " * 60_000), "no header": npy(b""), "more": npy(header % b"3") + bytes(9),
        "fortran": npy(header.replace(b"False", b"True") % b"3"), "parentheses": npy(b"(" * 60_000),
    }  # fmt: skip
    files = {f"member {name}": zipped({**parts, DATA: content}) for name, content in data.items()}
    del files["member long header"]  # which is odd, and right
    files |= {
        "nothing": b"", "text": b"hello", "only the end": good[-22:], "NULs": bytes(1000), "PK": b"PK\x03\x04" * 100,
        "no members": zipped({}), "no description": zipped({DATA: parts[DATA]}),
        "no data": zipped({HEADER: parts[HEADER]}),
        "two descriptions": zipped([*pairs, (HEADER, parts[HEADER])]),
        "two storages": zipped([*pairs, (DATA, npy(b""))]),
        "compressed": zipped(parts, compression=zipfile.ZIP_DEFLATED),
        "bomb": zipped({**parts, DATA: npy(header % b"9000000", bytes(36_000_000))}, compression=zipfile.ZIP_DEFLATED),
        "bzip2": zipped(parts, compression=zipfile.ZIP_BZIP2), "other names": zipped({"x/" + k: v for k, v in pairs}),
        "as a folder": zipped({HEADER: parts[HEADER], DATA + "/": b""}),
        "upper case": zipped({k.upper(): v for k, v in pairs}),
    }  # fmt: skip
    files |= _patched_zips(good)
    return files


def _patched_zips(good: bytes) -> dict:
    """Return zip files whose tables were changed."""
    central, end = good.index(b"PK\x01\x02"), good.index(b"PK\x05\x06")
    places = {"version": (6, 2), "flags": (8, 2), "method": (10, 2), "checksum": (16, 4), "packed size": (20, 4),
              "size": (24, 4), "name length": (28, 2), "extra length": (30, 2), "offset": (42, 4)}  # fmt: skip
    files = {}
    for name, (start, size) in places.items():
        most = 2 ** (8 * size) - 1
        values = {"version": [255], "flags": [1], "checksum": [0, 1]}.get(name, [7, most, most - 1])
        for value in values:
            place = central + start
            files[f"zip {name} {value}"] = good[:place] + value.to_bytes(size, "little") + good[place + size :]
    for name, (start, size) in {"table size": (12, 4), "table offset": (16, 4)}.items():
        for value in (2**15, 2 ** (8 * size) - 1, 2 ** (8 * size) - 2):
            place = end + start
            files[f"zip {name} {value}"] = good[:place] + value.to_bytes(size, "little") + good[place + size :]
    return files


def overlapping(copies: int) -> bytes:
    """Return a zip file whose table lists one large member under many names."""
    good = written([plugrad.zeros(5000)])
    central, end = good.index(b"PK\x01\x02"), good.index(b"PK\x05\x06")
    table = good[central:end]
    second = table.index(b"PK\x01\x02", 4)
    entries = [table[second:].replace(DATA.encode(), b"data/%s.npy" % chr(65 + n).encode()) for n in range(copies)]
    new = table + b"".join(entries)
    tail = bytearray(good[end:])
    tail[8:12] = (2 + copies).to_bytes(2, "little") * 2
    tail[12:16] = len(new).to_bytes(4, "little")
    return good[:central] + new + bytes(tail)


# ------------------------------------------------------------------------------------------------ random damage


def damages(data: bytes, count: int, seed: int):
    """Yield (what was done, damaged file), `count` of them, always the same for a seed."""
    rng = random.Random(seed)
    for _ in range(count):
        damaged = bytearray(data)
        kind = rng.choice(("bit", "bit", "byte", "byte", "bytes", "cut", "drop", "insert", "zeros", "copy"))
        place, length = rng.randrange(len(data)), rng.choice((1, 2, 4, 8, 64, 512))
        if kind == "bit":
            damaged[place] ^= 1 << rng.randrange(8)
        elif kind == "byte":
            damaged[place] = rng.randrange(256)
        elif kind == "bytes":
            for _ in range(rng.randrange(2, 9)):
                damaged[rng.randrange(len(data))] = rng.randrange(256)
        elif kind == "cut":
            del damaged[place:]
        elif kind == "drop":
            del damaged[place : place + length]
        elif kind == "insert":
            damaged[place:place] = rng.randbytes(length)
        elif kind == "zeros":
            damaged[place : place + length] = bytes(len(damaged[place : place + length]))
        else:
            other = rng.randrange(len(data))
            damaged[place : place + length] = damaged[other : other + length]
        yield f"{kind} at {place}, {length}", bytes(damaged)
