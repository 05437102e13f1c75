"""Checkpoints forged field by field: a writer of zip files that lies wherever it is told to, and what it is told.

It shares nothing with `save`, nor with Python's zipfile: every field of every header is written here.
"""

from __future__ import annotations

import itertools
import json
import struct
import zlib

import numpy

HEADER, DATA = "plugrad.json", "data/0.npy"
HUGE = (2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64, 10**30)
ODD = (None, True, -1, 1.0, 0.5, "3", "", [], {}, [0], {"$": "int", "value": "0x3"})


def npy(array) -> bytes:
    """Return an array as a .npy file of version 1.0."""
    text = f"{{'descr': '{array.dtype.str}', 'fortran_order': False, 'shape': ({array.size},), }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + array.tobytes()


def description(tensors, root) -> dict:
    """Return a right description."""
    return {"format": 1, "plugrad": "1.0", "plugins": {}, "byteorder": "little", "objects": [], "tensors": tensors,
            "root": root}  # fmt: skip


def entry(array, storage=0, **changes) -> dict:
    """Return the description of a tensor that is all of a storage."""
    right = {"kind": "Tensor", "dtype": str(array.dtype), "device": "cpu", "storage": storage, "offset": 0,
             "shape": list(array.shape), "strides": list(array.strides)}  # fmt: skip
    return {key: value for key, value in {**right, **changes}.items() if value is not ...}


def zipped(members, *, local=None, central=None, end=None, before=b"", between=b"", after=b"", comment=b"") -> bytes:
    """Return a zip file of {name: content}.

    `local` and `central` are {name: {field: value}} for the headers of members, `end` {field: value} for the last
    record; `before` stands in front of all, `between` in front of the table, `after` behind all.
    """
    out, table = bytearray(before), bytearray()
    for name, content in members.items():
        fields = {
            "needed": 20, "flags": 0, "method": 0, "time": 0, "date": 33, "crc": zlib.crc32(content),
            "packed": len(content), "size": len(content), "name": name.encode(), "extra": b"", "offset": len(out),
            "made": 20, "comment": b"", "disk": 0, "internal": 0, "external": 0, "signature": b"PK\1\2",
        }  # fmt: skip
        f = {**fields, "signature": b"PK\3\4", **(local or {}).get(name, {})}
        out += f["signature"] + struct.pack("<HHHHHIIIHH", f["needed"], f["flags"], f["method"], f["time"], f["date"],
                            f["crc"], f["packed"], f["size"], len(f["name"]), len(f["extra"]))  # fmt: skip
        out += f["name"] + f["extra"] + content
        f = {**fields, **(central or {}).get(name, {})}
        row = f["signature"] + struct.pack(
            "<HHHHHHIIIHHHHHII", f["made"], f["needed"], f["flags"], f["method"], f["time"], f["date"], f["crc"],
            f["packed"], f["size"], f.get("name length", len(f["name"])), f.get("extra length", len(f["extra"])),
            f.get("comment length", len(f["comment"])), f["disk"], f["internal"], f["external"], f["offset"],
        )  # fmt: skip
        table += (row + f["name"] + f["extra"] + f["comment"]) * f.get("times", 1)
    out += between
    f = {"disk": 0, "first": 0, "here": len(members), "all": len(members), "size": len(table), "offset": len(out),
         "comment": len(comment), **(end or {})}  # fmt: skip
    out += table
    out += b"PK\5\6" + struct.pack("<HHHHIIH", f["disk"], f["first"], f["here"], f["all"], f["size"], f["offset"],
                                   f["comment"]) + comment  # fmt: skip
    return bytes(out + after)


ROW = numpy.arange(6, dtype=numpy.float32)
RIGHT = {HEADER: json.dumps(description([entry(ROW)], {"$": "tensor", "number": 0})).encode(), DATA: npy(ROW)}


def archives() -> dict:
    """Return {name: file} of zip files that lie about themselves; each holds `ROW`, or must be refused."""
    files = {"right": zipped(RIGHT)}
    values = {
        "flags": (1, 1 << 3, 1 << 5, 1 << 6, 1 << 11, 1 << 13, 0xFFFF), "method": (1, 6, 8, 12, 14, 99, 0xFFFF),
        "needed": (0, 45, 63, 64, 255, 0xFFFF), "crc": (0, 1, 0xFFFFFFFF),
        "packed": (0, 1, 50, 2**31, 2**32 - 2, 2**32 - 1), "size": (0, 1, 50, 2**31, 2**32 - 2, 2**32 - 1),
        "name": (b"", b"x", b"data/0.npy\0", b"\xff\xfe", b"/etc/passwd", b"..\\x", b"data/1.npy", b"plugrad.json"),
        "extra": (b"\1", b"\1\0", b"\1\0\x10\0", b"\1\0\0\0", b"\xff\xff\xff\xff", b"\1\0\x08\0" + b"\xff" * 8,
                  b"\1\0\x10\0" + b"\xff" * 16, b"\1\0\x18\0" + bytes(24), b"up\5\0\1abcd", b"\0" * 60),
        "signature": (b"PK\1\2", b"PK\5\6", b"\0\0\0\0"), "time": (0xFFFF,), "date": (0, 0xFFFF),
    }  # fmt: skip
    only_central = {
        "offset": (1, 30, 2**16, 2**31, 2**32 - 2, 2**32 - 1), "disk": (1, 0xFFFF), "made": (0, 0xFFFF),
        "external": (0x10, 0xA1FF0000, 2**32 - 1), "comment": (b"PK\5\6" + bytes(18), b"x" * 1000),
        "name length": (0, 1, 0xFFFF), "extra length": (1, 0xFFFF), "comment length": (1, 0xFFFF), "times": (0, 2, 50),
        "signature": (b"PK\3\4", b"PK\5\6", b"\0\0\0\0"),
    }  # fmt: skip
    for member, where in itertools.product(RIGHT, ("local", "central")):
        for field, several in {**values, **(only_central if where == "central" else {})}.items():
            for value in several:
                changes = {where: {member: {field: value}}}
                files[f"{member}: {where} {field} {value!r:.30}"] = zipped(RIGHT, **changes)
    for field, several in {
        "disk": (1, 0xFFFF), "first": (1, 0xFFFF), "here": (0, 1, 3, 0xFFFF), "all": (0, 1, 3, 0xFFFF),
        "size": (0, 1, 46, 1000, 2**31, 2**32 - 1), "offset": (0, 1, 2**16, 2**31, 2**32 - 1), "comment": (1, 0xFFFF),
    }.items():  # fmt: skip
        for value in several:
            files[f"end {field} {value}"] = zipped(RIGHT, end={field: value})
    whole, tail = zipped(RIGHT), zipped({}, comment=b"")
    hostile = {**RIGHT, DATA: npy(ROW + 1)}
    locator = b"PK\6\7" + struct.pack("<IQI", 0, 2**63, 1)
    files |= {
        "before": zipped(RIGHT, before=b"#!/bin/sh\n"), "after": zipped(RIGHT, after=b"x" * 100),
        "two ends": whole + tail, "another file after": whole + zipped(hostile),
        "in a comment": zipped(RIGHT, comment=zipped(hostile)), "only an end": tail,
        "local header in the data": zipped({**RIGHT, DATA: npy(ROW) + zipped(hostile)}),
        "far locator": whole[:-22] + locator + whole[-22:], "locator of another disk": whole[:-22] + locator[:16]
        + b"\2\0\0\0" + whole[-22:], "NULs between": zipped(RIGHT, between=bytes(5000)),
        "a table in the table": zipped(RIGHT, between=whole),
        "header of the other": zipped(RIGHT, central={DATA: {"offset": 0}}),
        "header in the table": zipped(RIGHT, central={DATA: {"offset": len(whole) - 100}}),
        "no slash": zipped({HEADER: RIGHT[HEADER], "data\\0.npy": RIGHT[DATA]}),
        "many members": zipped({**RIGHT, **{f"{n}": b"" for n in range(300)}}),
        "unused members": zipped({**RIGHT, "other": b"x", "data/1.npy": b"y"}),
        "in itself": zipped({**RIGHT, "z": whole}),
    }  # fmt: skip
    return files


def descriptions() -> dict:
    """Return {name: file} of descriptions that lie about the content: refused, or nothing but what is in the file."""
    files = {}

    def add(name, tensors, root=None, members=None, text=None):
        root = [{"$": "tensor", "number": number} for number in range(len(tensors))] if root is None else root
        text = json.dumps(description(tensors, root)) if text is None else text
        files[name] = zipped({HEADER: text.encode("utf-8", "surrogatepass"), **(members or {DATA: RIGHT[DATA]})})

    for field in ("storage", "offset"):
        for value in (*HUGE, *(-v for v in HUGE), *ODD, 1, 3, 4, 8, 20, 24, 2**32 + 4):
            add(f"{field} {value!r}", [entry(ROW, **{field: value})])
    for field in ("shape", "strides"):
        for value in (*HUGE, *(-v for v in HUGE), *ODD, 0, 1, 4, -4, 24, 5, 7):
            add(f"{field} [{value!r}]", [entry(ROW, **{field: [value]})])
            add(f"{field} {value!r}", [entry(ROW, **{field: value})])
    for shape, strides, offset in (
        ([2, 3], [12, 4], 0), ([3, 2], [4, 12], 0), ([6], [-4], 20), ([6], [-4], 16), ([6], [-4], 24), ([5], [4], 4),
        ([6], [4], 4), ([7], [4], 0), ([2**40], [0], 0), ([2**31, 2**31], [0, 0], 20), ([2**31, 2**32], [0, 0], 0),
        ([0, 2**62], [4, 4], 0), ([0] * 64, [4] * 64, 0), ([1] * 64, [2**40] * 64, 0), ([1] * 65, [4] * 65, 0),
        ([2, 2], [2**62, -(2**62)], 0), ([2, 2], [2**63 - 4, 4], 4), ([3, 3], [-(2**62), 2**62], 12), ([6], [8], 0),
        ([3], [8], 0), ([3], [8], 4), ([3], [8], 8), ([2, 2, 2], [4, 4, 4], 8), ([1], [-(2**62)], 0), ([], [], 20),
        ([], [], 24), ([], [4], 0), ([6], [], 0), ([0], [4], 24), ([0], [4], 28), ([0], [4], 2**40),
        ([1, 0], [0, 0], -4),
        ([6], [2], 0), ([3], [2], 1), ([2**62, 4], [4, 0], 0), ([2**61], [4], 0), ([4294967297], [4], 0),
    ):  # fmt: skip
        add(f"{shape} {strides} {offset}", [entry(ROW, shape=shape, strides=strides, offset=offset)])
    for name in (
        "bool", "uint8", "int8", "int16", "int64", "float16", "bfloat16", "float64", "complex64", "complex128",
        "complex32", "O", "object", "V4", "<f4", "|b1", "S4", "float32,", "[('a', 'O')]", "torch.float32", "qint8",
        "datetime64[ns]", "", "float\u0033\u0032", "FLOAT32", "uint64", "\0", "float32" * 1000,
    ):  # fmt: skip
        size = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2}.get(name, 8)
        for kind in ("Tensor", "ndarray", "Parameter"):
            add(f"{kind} of {name:.20}", [entry(ROW, kind=kind, dtype=name)])
        add(f"a view of {name:.20}", [entry(ROW), entry(ROW, dtype=name, shape=[24 // size], strides=[size])])
    for name in ("<f8", ">f4", "<i8", "|u1", "|b1", "<c8", "<m8", "|O", "<U1", "|V24", "<f4 ", "<f2"):
        add(f"member of {name}", [entry(ROW)], members={DATA: npy(ROW).replace(b"'<f4'", repr(name).encode())})
    for kind in (*ODD, "tensor", "Module", "builtins.eval", "__main__.x", "\x1b[31m", "Tensor\0"):
        add(f"kind {kind!r}", [entry(ROW, kind=kind)])
    for place in (*ODD, "cpu:0", "cpu:5", "cpu:99999999", "meta", "meta:1", "cuda", "cuda:0", "mps", "hpu", "os.system",
                  "cpu\n", "../x", "CPU", " cpu", "cpu:", "cpu:-1", "cpu:0x1", "cpu:\u0661", "session"):  # fmt: skip
        add(f"device {place!r}", [entry(ROW, device=place)])
    for names in (
        {"sum": 1}, {"__class__": 1}, {"_raw": 1}, {"": 1}, {"a b": 1}, {"data": 1}, {"grad": 1}, 3, [], None,
        {"x": {"$": "tensor", "number": 0}}, {"x": {"$": "tensor", "number": 1}}, {"x": [[[{"$": "tensor"}]]]},
        {"$": "dict", "items": [[1, 2]]}, {"$": "OrderedDict", "items": []},
    ):  # fmt: skip
        add(f"attributes {names}", [entry(ROW, attributes=names)])
    leads = [{"x": {"$": "tensor", "number": number}} for number in range(1501)]
    add("attributes in a circle", [entry(ROW, attributes=leads[1]), entry(ROW, attributes=leads[0])])
    chain = [entry(ROW, attributes=leads[number + 1]) for number in range(1500)]
    add("a chain of attributes", [*chain, entry(ROW)], {"$": "tensor", "number": 0})
    add("overlapping tensors", [entry(ROW, shape=[3], offset=4 * n) for n in range(4)])
    add("one tensor often", [entry(ROW)], [{"$": "tensor", "number": 0}] * 50)
    add("many tensors of one storage", [entry(ROW) for _ in range(300)])
    for number in (*HUGE, *ODD, -1, 1):
        add(f"number {number!r}", [entry(ROW)], {"$": "tensor", "number": number})
        add(f"scalar {number!r}", [entry(ROW)], {"$": "scalar", "number": number})
        add(f"object {number!r}", [entry(ROW)], {"$": "object", "number": number})
    for tag, value in itertools.product(
        ("float", "int", "complex", "bytes", "Size", "dtype", "device", "slice", "eval", "__import__", "tuple", "set"),
        (*ODD, "1" * 5000, "nan", "0x", "0x" + "f" * 10_000, "-0x8", "1e999", "\ud800", [1, 2], ["1", "x"], [None] * 3),
    ):
        add(f"{tag} {value!r:.30}", [entry(ROW)], [{"$": tag, "value": value, "items": value}])
    right = json.dumps(description([entry(ROW)], {"$": "tensor", "number": 0}))
    for name, old, new in (
        ("NaN size", '"shape": [6]', '"shape": [NaN]'), ("infinite size", '"shape": [6]', '"shape": [Infinity]'),
        ("large float", '"shape": [6]', '"shape": [1e999]'), ("negative zero", '"offset": 0', '"offset": -0'),
        ("float offset", '"offset": 0', '"offset": 0.0'), ("exponent", '"shape": [6]', '"shape": [6e0]'),
        ("two shapes", '"shape": [6]', '"shape": [6], "shape": [600]'), ("two roots", '"root"', '"root": 3, "root"'),
        ("escaped twice", '"shape": [6]', '"shape": [6], "sh\\u0061pe": [7]'), ("octal", '"offset": 0', '"offset": 00'),
        ("long number", '"shape": [6]', '"shape": [' + "9" * 5000 + "]"), ("hex", '"offset": 0', '"offset": 0x0'),
        ("comment", "{", "/* */{"), ("cut", "}", ""), ("BOM", "{", "\ufeff{"), ("surrogate", '"cpu"', '"\\ud800"'),
        ("NUL", '"cpu"', '"cpu\\u0000"'), ("control", '"cpu"', '"cpu\x01"'), ("quotes", '"', "'"),
        ("deep root", '{"$": "tensor", "number": 0}', "[" * 3000 + "]" * 3000),
        ("deep tag", '{"$": "tensor", "number": 0}', '{"$": "tuple", "items": [' * 900 + "]}" * 900),
        ("deep keys", '{"$": "tensor", "number": 0}', '{"a": ' * 3000 + "1" + "}" * 3000),
        ("NaN keys", '{"$": "tensor", "number": 0}',
         '{"$": "dict", "items": [[{"$": "float", "value": "nan"}, 1], [{"$": "float", "value": "nan"}, 2]]}'),
        ("equal keys", '{"$": "tensor", "number": 0}', '{"$": "dict", "items": [[1, 1], [true, 2]]}'),
        ("tensor as key", '{"$": "tensor", "number": 0}',
         '{"$": "dict", "items": [[{"$": "tensor", "number": 0}, 1]]}'),
        ("array in a set", '{"$": "tensor", "number": 0}', '{"$": "set", "items": [[1]]}'),
        ("twice in a set", '{"$": "tensor", "number": 0}', '{"$": "set", "items": [1, 1]}'),
        ("tag by escape", '{"$": "tensor"', '{"\\u0024": "tensor"'),
        ("objects", '"objects": []', '"objects": ["os.system"]'),
        ("format", '"format": 1', '"format": true'), ("format 2", '"format": 1', '"format": 2'),
        ("big endian", '"little"', '"big"'), ("order", '"little"', "null"),
        ("plugins", '"plugins": {}', '"plugins": {"a": 1}'),
    ):  # fmt: skip
        add(name, [], text=right.replace(old, new, 1) if name != "quotes" else right.replace(old, new))
    return files


def flipped(data: bytes):
    """Yield (what, file): each byte of a file with one bit changed, another for each byte, and with all of them."""
    for place in range(len(data)):
        for mask in 1 << place % 8, 0xFF:
            damaged = bytearray(data)
            damaged[place] ^= mask
            yield f"byte {place} by {mask}", bytes(damaged)
