/* The module `plugrad._native`: functions that call kernels in C with NumPy's arrays.

   Built against the limited API of CPython 3.11 and NumPy's C API, one file serves every Python and NumPy from there on.
   A function takes arrays and numbers in any order, describes the arrays to the kernel, allocates the result, and lets
   other threads of Python run while much is computed. It returns NotImplemented for arguments that it does not serve. */
#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stdlib.h>
#include <string.h>

#include "level.h"
#include "pool.h"

#define ARRAYS 16
#define NUMBERS 24
#define MUCH 16384 /* elements: below, giving the lock away costs more than it brings */

typedef struct {
    pg_kernel kernel;
    int arrays;  /* how many it needs at least: what is a NumPy scalar in the place of an array is declined */
    int numbers;
    int like;    /* the array whose shape and type the result has; -1: no result, the kernel writes into arrays given */
    int strided; /* whether arrays may have any strides */
} bound;

static const char NAME[] = "plugrad.native";

static int describe(pg_array *d, PyArrayObject *x, int strided) {
    if (!PyArray_ISBEHAVED_RO(x)) return 0; /* aligned, in the machine's order of bytes */
    int contiguous = PyArray_IS_C_CONTIGUOUS(x);
    if (!contiguous && !strided) return 0;
    d->data = PyArray_DATA(x);
    d->ndim = PyArray_NDIM(x);
    d->shape = (const int64_t *)PyArray_DIMS(x);
    d->strides = (const int64_t *)PyArray_STRIDES(x);
    d->size = PyArray_SIZE(x);
    d->type = PyArray_TYPE(x) == NPY_LONGLONG ? NPY_LONG : PyArray_TYPE(x);
    d->flags = (contiguous ? PG_CONTIGUOUS : 0) | (PyArray_ISWRITEABLE(x) ? PG_WRITABLE : 0);
    return 1;
}

static PyObject *call(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    const bound *b = PyCapsule_GetPointer(self, NAME);
    pg_array arrays[ARRAYS + 1];
    double numbers[NUMBERS];
    int na = 0, nn = 0;
    int64_t size = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *value = args[i];
        if (Py_TYPE(value) == &PyArray_Type) {
            if (na == ARRAYS || !describe(arrays + na, (PyArrayObject *)value, b->strided)) Py_RETURN_NOTIMPLEMENTED;
            size += arrays[na++].size;
        } else {
            if (PyArray_CheckScalar(value) || PyArray_Check(value)) Py_RETURN_NOTIMPLEMENTED;
            double number = PyFloat_AsDouble(value);
            if (number == -1.0 && PyErr_Occurred()) return NULL;
            if (nn == NUMBERS) Py_RETURN_NOTIMPLEMENTED;
            numbers[nn++] = number;
        }
    }
    if (na < b->arrays || nn < b->numbers) Py_RETURN_NOTIMPLEMENTED;
    PyObject *result = NULL;
    if (b->like >= 0) {
        if (b->like >= na) Py_RETURN_NOTIMPLEMENTED;
        const pg_array *like = arrays + b->like;
        result = PyArray_SimpleNew((int)like->ndim, (npy_intp *)like->shape, like->type);
        if (!result) return NULL;
        describe(arrays + na, (PyArrayObject *)result, 0);
    } else arrays[na].data = NULL; /* so a kernel sees how many there are */
    int refused;
    if (size > MUCH) {
        PyThreadState *state = PyEval_SaveThread();
        refused = b->kernel(arrays, numbers);
        PyEval_RestoreThread(state);
    } else refused = b->kernel(arrays, numbers);
    if (refused) {
        Py_XDECREF(result);
        Py_RETURN_NOTIMPLEMENTED;
    }
    if (result) return result;
    Py_RETURN_NONE;
}

static PyMethodDef call_method = {"kernel", (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL};

static void release(PyObject *capsule) { free(PyCapsule_GetPointer(capsule, NAME)); }

static PyObject *bind(pg_kernel kernel, int arrays, int numbers, int like, int strided) {
    bound *b = malloc(sizeof *b);
    if (!b) return PyErr_NoMemory();
    *b = (bound){kernel, arrays, numbers, like, strided};
    PyObject *capsule = PyCapsule_New(b, NAME, release);
    if (!capsule) {
        free(b);
        return NULL;
    }
    PyObject *function = PyCFunction_NewEx(&call_method, capsule, NULL);
    Py_DECREF(capsule);
    return function;
}

static PyObject *at_address(PyObject *module, PyObject *args) {
    unsigned long long address;
    int arrays, numbers, like, strided;
    if (!PyArg_ParseTuple(args, "Kiiip", &address, &arrays, &numbers, &like, &strided)) return NULL;
    return bind((pg_kernel)(uintptr_t)address, arrays, numbers, like, strided);
}

static PyObject *kernels(PyObject *module, PyObject *args) {
    const char *name = NULL;
    if (!PyArg_ParseTuple(args, "|s", &name)) return NULL;
    const pg_level *level = NULL;
    for (const pg_level *one = pg_levels; one->name; one++)
        if (one->runs() && (!name || !strcmp(name, one->name))) level = one;
    if (!level) return PyErr_Format(PyExc_ValueError, "this processor can't run kernels of level %s", name);
    PyObject *functions = PyDict_New();
    for (const pg_entry *entry = level->entries; functions && entry->name; entry++) {
        PyObject *function = bind(entry->kernel, entry->arrays, entry->numbers, entry->like, entry->strided);
        int failed = !function || PyDict_SetItemString(functions, entry->name, function);
        Py_XDECREF(function);
        if (failed) Py_CLEAR(functions);
    }
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

static PyMethodDef methods[] = {
    {"kernels", kernels, METH_VARARGS, "Return (level, kernels by name) of a level, or of the best that runs here."},
    {"levels", levels, METH_NOARGS, "Return the names of the levels that run here; the best is the last."},
    {"at_address", at_address, METH_VARARGS, "Return a function that calls the kernel at an address."},
    {"parallel_address", parallel_address, METH_NOARGS, "Return the address of pg_parallel."},
    {"get_num_threads", get_num_threads, METH_NOARGS, "Return how many threads a kernel may use."},
    {"set_num_threads", set_num_threads, METH_O, "Set how many threads a kernel may use."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "plugrad._native", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) {
    import_array();
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddIntConstant(module, "ABI", PG_ABI)) Py_CLEAR(module);
    return module;
}
