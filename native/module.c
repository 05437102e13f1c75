/* The module `plugrad._native`: functions that call kernels in C with NumPy's arrays.

   Built against the limited API of CPython 3.11 and NumPy's C API, one file serves every Python and NumPy from there on.
   A function takes arrays and numbers in any order, describes the arrays to the kernel, allocates the result, and lets
   other threads of Python run while much is computed. For arguments that it does not serve it returns NotImplemented, or
   what the function does that it is joined with. */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <Python.h>
#include <float.h>
#include <numpy/arrayobject.h>
#include <stdlib.h>
#include <string.h>

#include "crc32.h"
#include "level.h"
#include "pool.h"

#define ARRAYS 16
#define NUMBERS 24
#define MUCH 16384 /* elements: below, giving the lock away costs more than it brings */
#define LARGE 65536 /* elements of one of many calls that is worth several threads */

typedef struct {
    pg_kernel kernel; /* NULL: `join`, which takes arrays in a list */
    int arrays;  /* how many it needs at least: what is a NumPy scalar in the place of an array is declined */
    int numbers;
    int like;    /* the array whose shape and type the result has; -1: no result, the kernel writes into arrays given */
    int strided; /* whether arrays may have any strides */
    PyObject *otherwise; /* what is called, with all arguments, for those that are not served; NULL: NotImplemented */
    int skipped; /* how many arguments before the kernel's own are for `otherwise` alone */
    int elements; /* whether each element of the result follows from those at its place alone, so it may take their memory; */
    int over;     /* whether it does so: the result is written over the first array */
} bound;

enum { LARGER = -2 }; /* `like`: the one of the first two arrays with more dimensions, or else more elements */

static const char NAME[] = "plugrad.native";

static int bfloat16; /* NumPy's number of it */

static int type_of(PyArrayObject *x) {
    const int type = PyArray_TYPE(x);
    if (type == NPY_LONGLONG) return NPY_LONG;
    if (type < NPY_USERDEF || PyArray_DESCR(x)->type != 'E' || PyArray_ITEMSIZE(x) != 2) return type;
    bfloat16 = type;
    return PG_BFLOAT16;
}

static int describe(pg_array *d, PyArrayObject *x, int strided) {
    if (!PyArray_ISBEHAVED_RO(x)) return 0; /* aligned, in the machine's order of bytes */
    int contiguous = PyArray_IS_C_CONTIGUOUS(x);
    if (!contiguous && !strided) return 0;
    d->data = PyArray_DATA(x);
    d->ndim = PyArray_NDIM(x);
    d->shape = (const int64_t *)PyArray_DIMS(x);
    d->strides = (const int64_t *)PyArray_STRIDES(x);
    d->size = PyArray_SIZE(x);
    d->type = type_of(x);
    d->flags = (contiguous ? PG_CONTIGUOUS : 0) | (PyArray_ISWRITEABLE(x) ? PG_WRITABLE : 0);
    return 1;
}

static PyObject *as_tuple(PyObject *const *args, Py_ssize_t n) {
    PyObject *all = PyTuple_New(n);
    for (Py_ssize_t i = 0; all && i < n; i++) {
        Py_INCREF(args[i]);
        PyTuple_SetItem(all, i, args[i]);
    }
    return all;
}

static PyObject *declined(const bound *b, PyObject *const *args, Py_ssize_t n) {
    if (!b->otherwise) Py_RETURN_NOTIMPLEMENTED;
    PyObject *all = as_tuple(args, n), *result = all ? PyObject_Call(b->otherwise, all, NULL) : NULL;
    Py_XDECREF(all);
    return result;
}

typedef struct { char *begin, *end; } span;

static int by_address(const void *a, const void *b) {
    const char *x = ((const span *)a)->begin, *y = ((const span *)b)->begin;
    return (x > y) - (x < y);
}

/* Whether no two of `n` spans, which this puts in order, have memory in common. */
static int are_apart(span *spans, Py_ssize_t n) {
    qsort(spans, n, sizeof *spans, by_address);
    for (Py_ssize_t i = 1; i < n; i++)
        if (spans[i - 1].end > spans[i].begin) return 0;
    return 1;
}

/* Calls of one kernel: their arrays, of `width` a call, and whether it refused each. `some`: the places of those to make. */
typedef struct {
    pg_kernel kernel;
    pg_array *arrays;
    const double *numbers;
    span *spans;
    Py_ssize_t width, *some;
    char *refused;
} calls;

static void call_at(void *context, int64_t part) {
    const calls *c = context;
    const Py_ssize_t at = c->some[part];
    c->refused[at] = c->kernel(c->arrays + at * c->width, c->numbers) != 0;
}

/* Make calls: large ones share their own work among threads, small ones are shared out, if each has memory of its own. */
static void make_calls(calls *c, Py_ssize_t n, Py_ssize_t spans) {
    Py_ssize_t few = 0;
    int64_t size = 0;
    for (Py_ssize_t i = 0; i < n; i++)
        if (c->arrays[i * c->width].size < LARGE && !c->refused[i]) size += c->arrays[i * c->width].size, few++;
    const int shared = size > MUCH && few > 1 && are_apart(c->spans, spans);
    few = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (c->refused[i]) continue;
        c->some[few] = i;
        if (shared && c->arrays[i * c->width].size < LARGE) few++;
        else call_at(c, few);
    }
    pg_parallel(few, call_at, c);
}

/* Describe the arrays of `lists` to `n` calls, and where they lie; returns how many elements there are. */
static int64_t describe_calls(calls *c, Py_ssize_t n, PyObject *const *lists, int strided, Py_ssize_t *spans) {
    int64_t size = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        pg_array *at = c->arrays + i * c->width;
        c->refused[i] = 0;
        for (int k = 0; k + 1 < c->width; k++) {
            PyObject *value = PyTuple_GetItem(lists[k], i);
            c->refused[i] = Py_TYPE(value) != &PyArray_Type || !describe(at + k, (PyArrayObject *)value, strided);
            if (c->refused[i]) break;
            size += at[k].size;
            char *data = at[k].data;
            /* Where the elements of others are is not looked at: such an array counts as lying everywhere. */
            c->spans[(*spans)++] = at[k].flags & PG_CONTIGUOUS ? (span){data, data + PyArray_NBYTES((PyArrayObject *)value)}
                                                               : (span){NULL, (char *)UINTPTR_MAX};
        }
        at[c->width - 1].data = NULL;
    }
    return size;
}

static PyObject *refused_places(const calls *c, Py_ssize_t n) {
    PyObject *places = PyList_New(0);
    for (Py_ssize_t i = 0; places && i < n; i++) {
        PyObject *place = c->refused[i] ? PyLong_FromSsize_t(i) : NULL;
        if (c->refused[i] && (!place || PyList_Append(places, place))) Py_CLEAR(places);
        Py_XDECREF(place);
    }
    return places;
}

/* Whether an argument is one of Python's numbers. NumPy's are others, and what else can be made a number, such as an array
   whose values are not known yet, must not be asked for it. */
static int is_number(PyObject *value) {
    return (PyFloat_Check(value) || PyLong_Check(value)) && !PyArray_CheckScalar(value);
}

/* Lists in the place of arrays: the kernel is called with the first of each, the second, and so on. Returns the places of
   those calls that were not served, and so have written nothing. */
static PyObject *call_each(const bound *b, PyObject *const *args, Py_ssize_t n) {
    PyObject *lists[ARRAYS], *places = NULL; /* lists as tuples, which do not change while other threads run */
    double numbers[NUMBERS];
    int na = 0, nn = 0, fits = b->like == -1;
    for (Py_ssize_t i = b->skipped; fits && i < n; i++) {
        if (PyList_Check(args[i])) {
            fits = na < ARRAYS && (lists[na] = PyList_AsTuple(args[i]));
            na += fits;
        } else {
            fits = nn < NUMBERS && is_number(args[i]);
            const double number = fits ? PyFloat_AsDouble(args[i]) : 0;
            if (number == -1.0 && PyErr_Occurred()) PyErr_Clear(), fits = 0;
            if (fits) numbers[nn++] = number;
        }
    }
    const Py_ssize_t count = na ? PyTuple_Size(lists[0]) : 0;
    for (int k = 0; k < na; k++) fits = fits && PyTuple_Size(lists[k]) == count;
    calls c = {b->kernel, NULL, numbers, NULL, na + 1, NULL, NULL};
    const size_t each = c.width * sizeof *c.arrays + na * sizeof *c.spans + sizeof *c.some + 1;
    void *memory = fits && na >= b->arrays && nn >= b->numbers ? malloc(count * each + 1) : NULL;
    if (memory) {
        c.arrays = memory, c.spans = (span *)(c.arrays + count * c.width);
        c.some = (Py_ssize_t *)(c.spans + count * na), c.refused = (char *)(c.some + count);
        Py_ssize_t spans = 0;
        const int64_t size = describe_calls(&c, count, lists, b->strided, &spans);
        PyThreadState *state = size > MUCH ? PyEval_SaveThread() : NULL;
        make_calls(&c, count, spans);
        if (state) PyEval_RestoreThread(state);
        places = refused_places(&c, count);
        free(memory);
    }
    for (int k = 0; k < na; k++) Py_DECREF(lists[k]);
    if (memory) return places;
    PyErr_Clear();
    return declined(b, args, n);
}

/* A copy of an array in which one element stands for many, as the gradient of a sum does; NULL for others. */
static PyObject *dense(PyArrayObject *x) {
    int repeats = 0;
    for (int d = 0; d < PyArray_NDIM(x); d++) repeats |= PyArray_STRIDES(x)[d] == 0 && PyArray_DIMS(x)[d] > 1;
    PyObject *copy = repeats && PyArray_SIZE(x) && PyArray_TYPE(x) != NPY_OBJECT ? PyArray_NewCopy(x, NPY_CORDER) : NULL;
    if (!copy) PyErr_Clear();
    return copy;
}

static int64_t bytes_of(const pg_array *x) {
    const int small = x->type == PG_BOOL || x->type == PG_INT8 || x->type == PG_UINT8;
    return x->size * (small ? 1 : x->type == PG_INT32 || x->type == PG_FLOAT32 ? 4 : 8); /* of halves at most */
}

/* Whether a result of the kind of `model` may be written over the first array: none of the others is a part of it. */
static int may_be_over(const pg_array *arrays, int n, const pg_array *model) {
    if (model != arrays || !(arrays->flags & PG_WRITABLE) || (arrays->type != PG_FLOAT32 && arrays->type != PG_FLOAT64)) return 0;
    for (const pg_array *one = arrays + 1; one < arrays + n; one++) {
        char *data = one->data, *first = arrays->data;
        const int same = data == first && one->size == arrays->size && one->type == arrays->type;
        if (!same && data < first + bytes_of(arrays) && first < data + bytes_of(one)) return 0;
    }
    return 1;
}

static PyObject *call(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    const bound *b = PyCapsule_GetPointer(self, NAME);
    if (n > b->skipped && PyList_Check(args[b->skipped])) return call_each(b, args, n);
    pg_array arrays[ARRAYS + 1];
    double numbers[NUMBERS];
    PyObject *copies[ARRAYS], *result = NULL;
    int na = 0, nn = 0, nc = 0, like = b->like, refused = 1, far = 0;
    int64_t size = 0;
    for (Py_ssize_t i = b->skipped; i < n; i++) {
        PyObject *value = args[i];
        if (Py_TYPE(value) == &PyArray_Type) {
            if (na == ARRAYS) goto end;
            if (!describe(arrays + na, (PyArrayObject *)value, b->strided)) {
                if (!(copies[nc] = dense((PyArrayObject *)value))) goto end;
                if (!describe(arrays + na, (PyArrayObject *)copies[nc++], 0)) goto end;
                arrays[na].flags &= ~PG_WRITABLE; /* what is written there nobody would see */
            }
            size += arrays[na++].size;
        } else {
            if (nn == NUMBERS || !is_number(value)) goto end;
            double number = PyFloat_AsDouble(value);
            if (number == -1.0 && PyErr_Occurred()) { /* too large a one: whoever computes it has the words */
                PyErr_Clear();
                goto end;
            }
            far |= (number > FLT_MAX && number <= DBL_MAX) || (number < -FLT_MAX && number >= -DBL_MAX);
            numbers[nn++] = number;
        }
    }
    if (na < b->arrays || nn < b->numbers || like >= na) goto end;
    if (far && arrays[0].type != NPY_DOUBLE) goto end; /* a float can't hold the number: some ops refuse it */
    if (like == LARGER)
        like = arrays[1].ndim != arrays[0].ndim ? arrays[1].ndim > arrays[0].ndim : arrays[1].size > arrays[0].size;
    if (like >= 0) {
        const pg_array *model = arrays + like;
        if (b->over) {
            if (!may_be_over(arrays, na, model)) goto end;
            for (Py_ssize_t i = b->skipped; !result; i++)
                if (Py_TYPE(args[i]) == &PyArray_Type) result = args[i];
            Py_INCREF(result);
            arrays[na] = *arrays;
            goto run;
        }
        const int type = model->type == PG_BFLOAT16 ? bfloat16 : model->type;
        result = PyArray_SimpleNew((int)model->ndim, (npy_intp *)model->shape, type);
        if (!result) goto end;
        describe(arrays + na, (PyArrayObject *)result, 0);
    } else arrays[na].data = NULL; /* so a kernel sees how many there are */
run:
    if (size > MUCH) {
        PyThreadState *state = PyEval_SaveThread();
        refused = b->kernel(arrays, numbers);
        PyEval_RestoreThread(state);
    } else refused = b->kernel(arrays, numbers);
end:
    while (nc) Py_DECREF(copies[--nc]);
    if (!refused && !result) Py_RETURN_NONE;
    if (!refused || PyErr_Occurred()) return result;
    Py_XDECREF(result);
    return declined(b, args, n);
}

static PyMethodDef call_method = {"kernel", (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL};

#include "joining.inc"

static PyMethodDef join_method = {"join", (PyCFunction)(void (*)(void))join, METH_FASTCALL, NULL};

static void release(PyObject *capsule) {
    bound *b = PyCapsule_GetPointer(capsule, NAME);
    Py_XDECREF(b->otherwise);
    free(b);
}

static PyObject *bind(bound given) {
    bound *b = malloc(sizeof *b);
    if (!b) return PyErr_NoMemory();
    *b = given;
    Py_XINCREF(b->otherwise);
    PyObject *capsule = PyCapsule_New(b, NAME, release);
    if (!capsule) {
        Py_XDECREF(b->otherwise);
        free(b);
        return NULL;
    }
    PyObject *function = PyCFunction_NewEx(b->kernel ? &call_method : &join_method, capsule, NULL);
    Py_DECREF(capsule);
    return function;
}

static PyObject *at_address(PyObject *module, PyObject *args) {
    unsigned long long address;
    int arrays, numbers, like, strided;
    if (!PyArg_ParseTuple(args, "Kiiip", &address, &arrays, &numbers, &like, &strided)) return NULL;
    return bind((bound){(pg_kernel)(uintptr_t)address, arrays, numbers, like, strided});
}

/* A function that `kernels` or `at_address` gave, with another one, or None, that gets what it does not serve. */
static PyObject *join_with(PyObject *args, int over) {
    PyObject *function, *otherwise;
    int skipped;
    if (!PyArg_ParseTuple(args, "OOi", &function, &otherwise, &skipped)) return NULL;
    PyObject *capsule = PyCFunction_Check(function) ? PyCFunction_GetSelf(function) : NULL;
    if (!capsule || !PyCapsule_IsValid(capsule, NAME)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "joined() and over() take a function of this module");
        return NULL;
    }
    bound given = *(const bound *)PyCapsule_GetPointer(capsule, NAME);
    if (over && !given.elements) Py_RETURN_NONE;
    given.otherwise = otherwise == Py_None ? NULL : otherwise, given.skipped = skipped, given.over = over;
    return bind(given);
}

static PyObject *joined(PyObject *module, PyObject *args) { return join_with(args, 0); }

/* The same, whose result is written over the first array; None where the kernel can't do that. */
static PyObject *over(PyObject *module, PyObject *args) { return join_with(args, 1); }

/* Whether a function of this module takes arrays in any order; else it copies those in which one element stands for many. */
static PyObject *strided(PyObject *module, PyObject *function) {
    PyObject *capsule = PyCFunction_Check(function) ? PyCFunction_GetSelf(function) : NULL;
    const int known = capsule && PyCapsule_IsValid(capsule, NAME);
    return PyBool_FromLong(known && ((const bound *)PyCapsule_GetPointer(capsule, NAME))->strided);
}

/* A new array with the sizes and the elements' type of another one; NumPy's `empty` takes three times as long. */
static PyObject *fresh(PyObject *module, PyObject *model) {
    if (!PyArray_Check(model)) return PyErr_Format(PyExc_TypeError, "fresh() takes an array");
    PyArray_Descr *type = PyArray_DESCR((PyArrayObject *)model);
    Py_INCREF((PyObject *)type); /* PyArray_Empty takes it */
    return PyArray_Empty(PyArray_NDIM((PyArrayObject *)model), PyArray_DIMS((PyArrayObject *)model), type, 0);
}

#include "orders.inc"
#include "tape.inc"
#include "guard.inc"
#include "serving.inc"
#include "memory.inc"

static PyObject *kernels(PyObject *module, PyObject *args) {
    const char *name = NULL;
    if (!PyArg_ParseTuple(args, "|s", &name)) return NULL;
    const pg_level *level = NULL;
    for (const pg_level *one = pg_levels; one->name; one++)
        if (one->runs() && (!name || !strcmp(name, one->name))) level = one;
    if (!level) return PyErr_Format(PyExc_ValueError, "this processor can't run kernels of level %s", name);
    PyObject *functions = PyDict_New();
    for (const pg_entry *entry = level->entries; functions && entry->name; entry++) {
        PyObject *function = bind((bound){entry->kernel, entry->arrays, entry->numbers, entry->like, entry->strided, NULL, 0, entry->elements});
        int failed = !function || PyDict_SetItemString(functions, entry->name, function);
        Py_XDECREF(function);
        if (failed) Py_CLEAR(functions);
    }
    PyObject *function = functions ? bind((bound){NULL}) : NULL;
    if (functions && (!function || PyDict_SetItemString(functions, "join", function))) Py_CLEAR(functions);
    Py_XDECREF(function);
    return functions ? Py_BuildValue("sN", level->name, functions) : NULL;
}

static PyObject *levels(PyObject *module, PyObject *nothing) {
    PyObject *names = PyList_New(0);
    for (const pg_level *one = pg_levels; names && one->name; one++) {
        if (!one->runs()) continue;
        PyObject *name = PyUnicode_FromString(one->name);
        int failed = !name || PyList_Append(names, name);
        Py_XDECREF(name);
        if (failed) Py_CLEAR(names);
    }
    return names;
}

static PyObject *parallel_address(PyObject *module, PyObject *nothing) {
    return PyLong_FromUnsignedLongLong((unsigned long long)(uintptr_t)pg_parallel);
}

static PyObject *get_num_threads(PyObject *module, PyObject *nothing) { return PyLong_FromLong(pg_threads()); }

static PyObject *set_num_threads(PyObject *module, PyObject *number) {
    long threads = PyLong_AsLong(number);
    if (threads == -1 && PyErr_Occurred()) return NULL;
    pg_set_threads((int)threads);
    Py_RETURN_NONE;
}

static PyObject *crc32(PyObject *module, PyObject *args) {
    Py_buffer data;
    unsigned int sum = 0;
    if (!PyArg_ParseTuple(args, "y*|I", &data, &sum)) return NULL;
    PyThreadState *state = PyEval_SaveThread();
    sum = pg_crc32(sum, data.buf, data.len);
    PyEval_RestoreThread(state);
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(sum);
}

/* Whether something is an int, or a tuple of ints: not of bools, tensors or other things that stand for one. */
static PyObject *is_ints(PyObject *module, PyObject *value) {
    if (PyLong_CheckExact(value)) Py_RETURN_TRUE;
    if (!PyTuple_Check(value)) Py_RETURN_FALSE;
    for (Py_ssize_t i = PyTuple_Size(value); i--;)
        if (!PyLong_CheckExact(PyTuple_GetItem(value, i))) Py_RETURN_FALSE;
    Py_RETURN_TRUE;
}

/* An int with its lowest 64 bits, nearly always itself: the numbers of staged programs are C's. */
static PyObject *wrapped(PyObject *module, PyObject *n) {
    int beyond;
    if (PyLong_AsLongLongAndOverflow(n, &beyond) == -1 && !beyond && PyErr_Occurred()) return NULL;
    if (!beyond) return Py_NewRef(n);
    return PyLong_FromLongLong((int64_t)PyLong_AsUnsignedLongLongMask(n));
}

static PyMethodDef methods[] = {
    {"kernels", kernels, METH_VARARGS, "Return (level, kernels by name) of a level, or of the best that runs here."},
    {"is_ints", is_ints, METH_O, "Whether something is an int, or a tuple of ints."},
    {"wrapped", wrapped, METH_O, "Return an int with its lowest 64 bits."},
    {"levels", levels, METH_NOARGS, "Return the names of the levels that run here; the best is the last."},
    {"at_address", at_address, METH_VARARGS, "Return a function that calls the kernel at an address."},
    {"joined", joined, METH_VARARGS, "Return a function of here with another one that gets what it does not serve."},
    {"over", over, METH_VARARGS, "Return the same for a result that is written over the first array, or None."},
    {"fresh", fresh, METH_O, "Return a new array of the sizes and type of another one."},
    {"ordered", (PyCFunction)(void (*)(void))ordered, METH_FASTCALL, "Return a result as an array of a tensor type, in the order that operands give it."},
    {"order_others", order_others, METH_VARARGS, "Have a function see to the order of arrays of another type than NumPy's."},
    {"strided", strided, METH_O, "Whether a function of here takes arrays in any order."},
    {"tape", make_tape, METH_VARARGS, "Return a function that carries out calls of functions of here, one after the other."},
    {"resize_tape", resize_tape, METH_VARARGS, "Let a tape compute with arrays of other sizes."},
    {"guard", make_guard, METH_VARARGS, "Return a function that says whether a program's arguments and surroundings are the same."},
    {"runner", make_runner, METH_VARARGS, "Return a function that runs a tape on arrays and returns new ones."},
    {"server", make_server, METH_VARARGS, "Return a function that runs a tape on the tensors of a call, where a guard holds."},
    {"align_memory", align_memory, METH_NOARGS, "Let NumPy's arrays begin with a line of the cache; return whether they do."},
    {"parallel_address", parallel_address, METH_NOARGS, "Return the address of pg_parallel."},
    {"get_num_threads", get_num_threads, METH_NOARGS, "Return how many threads a kernel may use."},
    {"set_num_threads", set_num_threads, METH_O, "Set how many threads a kernel may use."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef if_fast[] = {
    {"crc32", crc32, METH_VARARGS, "Return the CRC-32 of bytes that follow others of a checksum; zlib's is slower."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "plugrad._native", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) {
    import_array();
    PyObject *module = PyModule_Create(&definition);
    if (module && (PyModule_AddIntConstant(module, "ABI", PG_ABI) || PyModule_AddIntConstant(module, "ARRAYS", ARRAYS))) Py_CLEAR(module);
    if (module && pg_crc32_runs() && PyModule_AddFunctions(module, if_fast)) Py_CLEAR(module);
    return module;
}
