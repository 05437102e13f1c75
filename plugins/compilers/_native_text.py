"""The C text of groups: each is a kernel of the interface of native/, whose sizes and strides come with the call."""

from __future__ import annotations

import functools
import importlib.resources
import math
import re

import numpy as np

from plugrad import kernels
from plugrad.compiler.graph import Value, varies
from plugrad.plugins.compilers._native_forms import HALVES, TYPES, Varying

FLAGS = {"avx512": ("-march=x86-64-v4", "-mprefer-vector-width=512"), "avx2": ("-march=x86-64-v3",)}
EXACT = ("-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-w")  # the bits of NumPy: products are rounded

PRELUDE = r"""
#include <stdlib.h>
#include <string.h>
#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define ONCE __attribute__((noinline, noclone)) /* not anew for each loop: it takes longer to compile */
#define VECTORIZED _Pragma("omp simd")
#define HIGHEST(name)
#define LANES ((int)(64 / sizeof(T)))
#define BLOCK 512 /* elements that are converted together */
#define MOST 24 /* arrays of which rows are joined */
#define AS(T_, x) _Generic((T_)0, float: x##f32, default: x##f64)
#define ABSOLUTE(x) _Generic((x), float: fabsf, double: fabs, default: absolute)(x)
#define SQUARE_ROOT(x) _Generic((x), float: sqrtf, default: sqrt)(x)
#define EXPONENTIAL(x) _Generic((x), float: exp_of_f32, default: exp_of_f64)(x)
#define TANH(x) tanh_f32(x)
#define OURS(name, kind, x, z, ...) OURS_##kind(name, x, z, __VA_ARGS__)
#define OURS_F(name, x, z, ...) name##_at_f32(x, z, (const double[]){__VA_ARGS__})
#define OURS_D(name, x, z, ...) name##_at_f64(x, z, (const double[]){__VA_ARGS__})
static ALWAYS_INLINE int64_t absolute(int64_t x) { return x < 0 ? -x : x; }

typedef void (*group)(const pg_array *a, const double *s, int64_t row, int64_t last, int64_t begin, int64_t end);
typedef struct { const pg_array *a; const double *s; group f; int64_t rows, columns, step; int by_row; } work;

/* Where in memory a row of the loop begins: all dimensions but the last are rows. */
static ALWAYS_INLINE void *start(const pg_array *a, int64_t row) {
    char *data = a->data;
    if (a->ndim == 2) return data + row * a->strides[0];
    for (int64_t d = a->ndim - 2; d >= 0; d--) {
        data += row % a->shape[d] * a->strides[d];
        row /= a->shape[d];
    }
    return data;
}

static ONCE void share(void *context, int64_t part) {
    const work *w = context;
    const int64_t begin = part * w->step, end = MIN(begin + w->step, w->by_row ? w->rows : w->columns);
    if (w->by_row) w->f(w->a, w->s, begin, end, 0, w->columns);
    else w->f(w->a, w->s, 0, w->rows, begin, end);
}

/* In parts of which there are as many as follow from the sizes; `cost` is an element's, in nanoseconds or less. */
static ONCE void share_out(const pg_array *a, const double *s, int64_t cost, group f) {
    const int64_t columns = a->shape[a->ndim - 1], rows = a->size / columns;
    if (a->size * cost < 65536) {
        f(a, s, 0, rows, 0, columns);
        return;
    }
    work w = {a, s, f, rows, columns, 0, rows > 4};
    w.step = MAX(1, 32768 / (cost * (w.by_row ? columns : rows)));
    if (!w.by_row) w.step = (w.step + 63) / 64 * 64;
    pg_parallel(((w.by_row ? rows : columns) + w.step - 1) / w.step, share, &w);
}

/* Where rows are short or no whole number of vectors, and all arrays have them one behind the other or are one row,
   some rows together are a row of `to`; what is one row is repeated in `memory`. Returns how many, 1 for none. */
static ONCE int64_t join_rows(const pg_array *a, int64_t count, pg_array *to, int64_t (*layouts)[4], char **memory) {
    const int64_t rows = a->shape[0], columns = a->shape[a->ndim - 1], low = columns & -columns;
    const int64_t least = 16 / MIN(low, 16), joined = MAX(1, 256 / (columns * least)) * least;
    int64_t bytes = 1;
    if (a->ndim != 2 || joined == 1 || columns > 512 || rows < 8 * joined || count > MOST) return 1;
    for (int64_t k = 0; k < count; k++) {
        const int64_t *by = a[k].strides, type = a[k].type;
        if (by[0] == by[1] * columns) continue;
        if (by[0] || by[1] != (type == PG_FLOAT32 ? 4 : type == PG_FLOAT64 ? 8 : 0)) return 1;
        bytes += joined * columns * by[1];
    }
    char *at = *memory = malloc(bytes);
    for (int64_t k = 0; at && k < count; k++) {
        const int64_t *by = a[k].strides;
        const int64_t layout[] = {rows / joined, joined * columns, joined * by[0], by[1]};
        memcpy(layouts[k], layout, sizeof layout);
        to[k] = a[k], to[k].shape = layouts[k], to[k].strides = layouts[k] + 2, to[k].size = layout[0] * layout[1];
        if (by[0] == by[1] * columns) continue;
        to[k].data = at;
        for (int64_t r = 0; r < joined; r++, at += columns * by[1]) memcpy(at, a[k].data, columns * by[1]);
    }
    return at ? joined : 1;
}

static ONCE int carry_out(const pg_array *a, int64_t count, const double *s, int64_t cost, group f) {
    pg_array to[MOST];
    int64_t layouts[MOST][4];
    char *memory = NULL;
    const int64_t joined = join_rows(a, count, to, layouts, &memory);
    if (joined > 1) {
        f(a, s, a->shape[0] / joined * joined, a->shape[0], 0, a->shape[1]);
        a = to;
    }
    share_out(a, s, cost, f);
    free(memory);
    return 0;
}
"""
# In the functions themselves products are not rounded, as in eager programs: it is a third of their time.
CONTRACTED = (
    (r"\b([pq]) = \1 \* (\w+) ([+-]) ([^;]+);", r"\1 = FMA(\1, \2, \3\4);"),
    (r"= (\w) - k \* ([^;]+);", r"= FMA(-k, \2, \1);"),
    (r"= x \* (\S+) \+ magic", r"= FMA(x, \1, magic)"),
    (r"p \* \(r \* r\) \+ r\b", "FMA(p, r * r, r)"),
    (r"power \* rest \+ (\([^)]*\))", r"FMA(power, rest, \1)"),
    (r"\? p \* x \+ x\b", "? FMA(p, x, x)"),
)
OURS_AS_FUNCTIONS = r"""
#undef MAP
#undef MAP_BY
#undef FMA
#if defined(__FMA__) && IS_SINGLE
#define FMA(a, b, c) __builtin_fmaf(a, b, c)
#elif defined(__FMA__)
#define FMA(a, b, c) __builtin_fma(a, b, c)
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif
#define MAP(name, arrays, weight, expression) MAP_BY(name, arrays, weight, , expression)
#define MAP_BY(name, arrays, weight, first, expression)                                  \
    static ALWAYS_INLINE T FN(name##_at)(T x_, T z_, const double *s_) {                   \
        const struct { const double *s; } c_ = {s_}, *const c = &c_;                       \
        const T x[1] = {x_}, z[1] = {z_};                                                \
        enum { i = 0 };                                                                  \
        first;                                                                           \
        return expression;                                                               \
    }                                                                                    \
    static inline int FN(name)(const pg_array *a, const double *s) { return 1; }
"""


@functools.cache
def prelude() -> str:
    """Return what stands before all groups: the functions of native/, once for each type of elements."""
    folder = importlib.resources.files("plugrad.kernels.templates")
    math, ours = ((folder / name).read_text() for name in ("math.inc", "elementwise.inc"))
    for pattern, contracted in CONTRACTED:
        math = re.sub(pattern, contracted, math)
    math, ours = (re.sub(r"\bstatic inline (?=float|double|T )", "static ALWAYS_INLINE ", one) for one in (math, ours))
    text = [PRELUDE]
    for name, kind, single in (("float", "f32", 1), ("double", "f64", 0)):
        text += [f"#define T {name}\n#define FN(name) JOIN(name, {kind})\n#define IS_SINGLE {single}\n"]
        text += [OURS_AS_FUNCTIONS, math, ours, "#undef T\n#undef FN\n#undef IS_SINGLE\n"]
    return "".join(text)


@functools.cache
def prelude_of_halves() -> str:
    """Return what stands before groups with halves, too."""
    numbers = importlib.resources.files("plugrad.kernels.templates").joinpath("half_numbers.inc").read_text()
    numbers = numbers.replace("static inline void", "static ONCE void").replace("static inline", "static ALWAYS_INLINE")
    return f"#define IS_SINGLE 1\n{numbers}#undef IS_SINGLE\n"


class Text:
    """A group's C function with `NAME` for its name, its `arrays` as (value, shape, strides), and its `numbers`.

    `reused` has keys of accesses that are written to the memory of others, which are read: {key written: key read}.
    """

    def __init__(self, group, kept, reused):
        self.reused = reused
        self.group, self.numbers, self.arrays = group, [], []
        self.variables: dict = {}  # key of an access -> what stands for the element
        self.loop, self.rows, self.top = [], [], []
        self.before, self.after = [], []  # a block of elements: halves become floats, and floats become halves
        stored = [key for _, _, key in group.elements if group.accesses[key].value.buffer in kept]
        stored = dict.fromkeys(stored)  # in order: the cache knows a source by its text
        written = {group.accesses[reused.get(key, key)].value.buffer for key in stored}
        self.sizes, self.strides = self._dimensions(stored)
        sizes_of = {key: access.value.dtype.itemsize for key, access in group.accesses.items()}
        self.in_blocks = all(by[-1] in (0, sizes_of[key]) for key, by in self.strides.items())
        self.inner = {key for _, reads, _ in group.elements for key in reads}
        self.places: dict = {}
        self.narrowed: set = set()  # keys whose variables are floats that become halves behind the block
        self.literals: dict = {}
        cost = 1
        for element, reads, target in group.elements:
            self._element(element, reads, target)
            cost += element.cost
        self.may_repeat = written.isdisjoint(group.accesses[key].value.buffer for key in self.places)
        for key in stored:
            access, at = group.accesses[key], reused.get(key, key)
            place = self._pointer(at)
            if key in self.narrowed:
                self._narrow(key, at, place)
                continue
            self.loop.append(f"{self._at(at, place)} = {self._cast(self.variables[key], access.value.dtype)};")
        self.source = self._function(max(1, cost // 2))

    def _dimensions(self, stored):
        """Return the sizes of the loop, last those whose elements are neighbours, and strides by access."""
        accesses, sizes = self.group.accesses, self.group.sizes() or [1]
        strides = {key: access.cut(sizes) for key, access in accesses.items()}
        first = next((key for key in accesses if key in stored), next(iter(accesses)))
        order = sorted(range(len(sizes)), key=lambda d: -abs(strides[first][d]))
        merged: list = []
        for d in order:
            if merged and all(s[merged[-1][-1]] == s[d] * sizes[d] for s in strides.values()):
                merged[-1].append(d)
            else:
                merged.append([d])
        shape = [math.prod([sizes[d] for d in dims]) for dims in merged]
        return shape, {key: [s[dims[-1]] for dims in merged] for key, s in strides.items()}

    def _pointer(self, key):
        place = self.places.get(key)
        if place is None:
            value = self.group.accesses[key].value
            place = self.places[key] = len(self.arrays)
            self.arrays.append((value, tuple(self.sizes), tuple(self.strides[key])))
            kind = TYPES[value.dtype.char]
            constness = "" if value.buffer in self.group.writes or key in self.reused.values() else "const "
            self.rows.append(f"{constness}{kind} *restrict p{place} = start(a + {place}, row);")
        return place

    def _at(self, key, place):
        stride, dtype = self.strides[key][-1], self.group.accesses[key].value.dtype
        if stride == dtype.itemsize or self.sizes[-1] == 1:
            return f"p{place}[i]"
        if stride == 0:
            return f"p{place}[0]"
        step = f"d{place}"
        line = f"const int64_t {step} = a[{place}].strides[a->ndim - 1] / {dtype.itemsize};"
        if line not in self.top:
            self.top.append(line)
        return f"p{place}[i * {step}]"

    def _element(self, element, reads, target):
        keys, terms = iter(reads), []
        if self._widened(element, reads, target):
            return
        is_last = target not in self.inner and self.strides[target][-1]
        if self.in_blocks and is_last and element.form in _NARROWING:
            self.narrowed.add(target)
            self.variables[target] = (self._cast(self._read(next(keys)), element.types[0]), element.types[0])
            return
        for operand, dtype in zip(element.operands, element.types):
            if isinstance(operand, Value):
                terms.append(self._cast(self._read(next(keys)), dtype))
            else:
                terms.append(self._literal(operand, dtype))
        kind, name = TYPES[element.result.char], f"v{len(self.loop)}"
        expression = element.form.format(*terms)
        value = self.group.accesses[target].value
        if element.result.char == "?":
            expression = f"({expression}) != 0"
        self.loop.append(f"const {kind} {name} = {expression};")
        self.variables[target] = (name, element.result)
        if value.dtype != element.result:  # what others read is what the memory would hold
            other = f"v{len(self.loop)}"
            self.loop.append(
                f"const {TYPES[value.dtype.char]} {other} = {self._cast((name, element.result), value.dtype)};"
            )
            self.variables[target] = (other, value.dtype)

    def _widened(self, element, reads, target) -> bool:
        """Whether an element makes a float of a half in memory, which a block does for all of its elements."""
        if not self.in_blocks or element.form not in _WIDENING or not isinstance(element.operands[0], Value):
            return False
        (key,) = reads
        value = self.group.accesses[target].value
        if key in self.variables or not self.strides[key][-1] or value.dtype != element.result:
            return False
        place, name = self._pointer(key), f"v{len(self.loop)}"
        line = f"float h{place}[BLOCK]; widen(p{place} + at, h{place}, count, {int(element.form != 'of_half({0})')});"
        self.before += [line] if line not in self.before else []
        self.loop.append(f"const float {name} = h{place}[i - at];")
        self.variables[target] = (name, element.result)
        return True

    def _narrow(self, key, at, place):
        """Write a block's floats as halves."""
        brain = int(self.group.accesses[key].value.dtype.char != "e")
        self.before.append(f"float w{place}[BLOCK];")
        self.loop.append(f"w{place}[i - at] = {self.variables[key][0]};")
        self.after.append(f"narrow(w{place}, p{place} + at, count, {brain});")

    def _read(self, key):
        known = self.variables.get(key)
        if known is None:
            place = self._pointer(key)
            value = self.group.accesses[key].value
            name = f"v{len(self.loop)}"
            line = f"const {TYPES[value.dtype.char]} {name} = {self._at(key, place)};"
            self.loop.append(line)
            known = self.variables[key] = (name, value.dtype)
        return known

    def _cast(self, variable, dtype):
        name, source = variable
        if source == dtype:
            return name
        return f"(uint8_t)({name} != 0)" if dtype.char == "?" else f"({TYPES[dtype.char]}){name}"

    def _literal(self, number, dtype):
        kind = TYPES[dtype.char]
        number = number.number if isinstance(number, Varying) else number
        if dtype.char in HALVES:
            return f"({kind}){int(dtype.type(number).view(np.uint16))}u"
        if dtype.kind != "f":
            return f"({kind}){int(number)}{'u' if dtype.kind == 'u' else ''}{'ll' if dtype.itemsize == 8 else ''}"
        key = (number if varies(number) else repr(number)), kind
        known = self.literals.get(key)
        if known is None:
            place = len(self.numbers)
            known = self.literals[key] = f"n{place}"
            self.numbers.append(number if varies(number) else float(number))
            self.top.append(f"const {kind} {known} = ({kind})s[{place}];")
        return known

    def _in_blocks(self, cost):
        """Return the function of blocks of elements, for which processors convert halves in one instruction."""
        block = [*self.before, "VECTORIZED for (int64_t i = at; i < at + count; i++) {"]
        block += [*(f"    {line}" for line in self.loop), "}", *self.after]
        return self._around(cost, [
            "for (int64_t at = begin; at < end; at += BLOCK) {",
            "    const int64_t count = MIN(BLOCK, end - at);",
            *(f"    {line}" for line in block),
            "}",
        ])  # fmt: skip

    def _is_copy(self) -> bool:
        """Whether all that is done is to copy rows: the C library does not read the memory that it writes to."""
        if len(self.group.elements) > 1 or len(self.arrays) != 2 or self.top:
            return False
        (element, *_), ((source, _, one), (to, _, other)) = self.group.elements[0], self.arrays
        size = source.dtype.itemsize
        return element.form == "{0}" and source.dtype == element.result == to.dtype and one[-1] == size == other[-1]

    def _function(self, cost):
        """Return the function: where nothing that it reads is written, a row that is no whole number of vectors ends
        with one that begins among the elements that are done, since what is left costs a vector for each element."""
        if self.before:
            return self._in_blocks(cost)
        if self._is_copy():
            return self._around(cost, ["memcpy(p1 + begin, p0 + begin, (end - begin) * sizeof *p0);"])
        count = "end - begin < 16 ? end - begin : (end - begin) / 16 * 16" if self.may_repeat else "end - begin"
        return self._around(cost, [
            f"int64_t at = begin, count = {count};",
            "for (; at < end; at = at + count < end ? end - 16 : end, count = 16) {",
            "    VECTORIZED for (int64_t i = at; i < at + count; i++) {",
            *(f"        {line}" for line in self.loop),
            "    }",
            "}",
        ])  # fmt: skip

    def _around(self, cost, row):
        """Return the function that goes over rows."""
        call = f"carry_out(a, {len(self.arrays)}, s, {cost}, NAME_loop)"
        lines = [
            "static void NAME_loop(const pg_array *a, const double *s, int64_t row, int64_t last,",
            "                      int64_t begin, int64_t end) {",
            *(f"    {line}" for line in self.top),
            "    for (; row < last; row++) {",
            *(f"        {line}" for line in (*self.rows, *row)),
            "    }",
            "}",
            f"int NAME(const pg_array *a, const double *s) {{ return {call}; }}",
        ]
        return "\n".join(lines) + "\n"


_WIDENING = [f"{name}({{0}})" for name, _ in HALVES.values()]
_NARROWING = [f"{name}({{0}})" for _, name in HALVES.values()]
_OF_HALVES = ("widen", "narrow", *[name for both in HALVES.values() for name in both])


def build(sources) -> list:
    """Return the functions of these sources, in which NAME is the function's name; equal ones are one."""
    names: dict = {}
    for source in sources:
        names.setdefault(source, f"g{len(names)}")
    if not names:
        return []
    text = "".join(re.sub(r"\bNAME", name, source) for source, name in names.items())
    text = prelude() + prelude_of_halves() * any(f"{name}(" in text for name in _OF_HALVES) + text
    path = kernels.build_library(text, "compiled", (*EXACT, *FLAGS.get(kernels.level(), ())))
    functions = {name: kernels.load_library(path, name, arrays=1, strided=True) for name in names.values()}
    return [functions[names[source]] for source in sources]
