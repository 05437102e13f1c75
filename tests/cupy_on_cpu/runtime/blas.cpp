// The products of hipBLAS that CuPy calls, in plain loops over matrices in Fortran's order.
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>
#include "capture.h"
#include "counts.h"
#include "devices.h"

namespace {

typedef std::complex<float> ComplexFloat;
typedef std::complex<double> ComplexDouble;
typedef _Float16 Half;

struct Brain {
    uint16_t bits;
    Brain() = default;
    Brain(float v) {
        uint32_t whole;
        memcpy(&whole, &v, 4);
        bits = v != v ? 0x7fc0 : (whole + 0x7fff + ((whole >> 16) & 1)) >> 16;
    }
    operator float() const {
        uint32_t whole = (uint32_t)bits << 16;
        float v;
        memcpy(&v, &whole, 4);
        return v;
    }
};

enum Transpose { PLAIN = 111, TRANSPOSED = 112, CONJUGATED = 113 };
enum Status { SUCCESS = 0, INVALID_VALUE = 3, EXECUTION_FAILED = 6, NOT_SUPPORTED = 7 };

template <class T> T conjugate(T v) { return v; }
ComplexFloat conjugate(ComplexFloat v) { return std::conj(v); }
ComplexDouble conjugate(ComplexDouble v) { return std::conj(v); }

template <class T>
T element(const T* matrix, int rows, int how, int i, int j) {
    if (how == PLAIN) return matrix[i + (long)j * rows];
    T v = matrix[j + (long)i * rows];
    return how == CONJUGATED ? conjugate(v) : v;
}

// c = alpha a b + beta c, added up in `A`; beta 0 does not read c.
template <class T, class A>
int gemm(int how_a, int how_b, int m, int n, int k, A alpha, const T* a, int lda, const T* b, int ldb, A beta, T* c, int ldc) {
    for (int j = 0; j < n; ++j) for (int i = 0; i < m; ++i) {
        A sum = A(0);
        for (int l = 0; l < k; ++l) sum += A(element(a, lda, how_a, i, l)) * A(element(b, ldb, how_b, l, j));
        T& out = c[i + (long)j * ldc];
        out = T(beta == A(0) ? alpha * sum : alpha * sum + beta * A(out));
    }
    return SUCCESS;
}

template <class T>
int gemv(int how, int m, int n, T alpha, const T* a, int lda, const T* x, int by_x, T beta, T* y, int by_y) {
    int rows = how == PLAIN ? m : n, columns = how == PLAIN ? n : m;
    for (int i = 0; i < rows; ++i) {
        T sum = 0, &out = y[i * by_y];
        for (int j = 0; j < columns; ++j) sum += element(a, lda, how, i, j) * x[j * by_x];
        out = beta == T(0) ? alpha * sum : alpha * sum + beta * out;
    }
    return SUCCESS;
}

template <class T>
int geam(int how_a, int how_b, int m, int n, T alpha, const T* a, int lda, T beta, const T* b, int ldb, T* c, int ldc) {
    for (int j = 0; j < n; ++j) for (int i = 0; i < m; ++i) {
        T sum = 0;
        if (alpha != T(0)) sum += alpha * element(a, lda, how_a, i, j);
        if (beta != T(0)) sum += beta * element(b, ldb, how_b, i, j);
        c[i + (long)j * ldc] = sum;
    }
    return SUCCESS;
}

template <class T, class F>
int dot(int n, const T* x, int by_x, const T* y, int by_y, T* result, F first) {
    T sum = 0;
    for (int i = 0; i < n; ++i) sum += first(x[i * by_x]) * y[i * by_y];
    *result = sum;
    return SUCCESS;
}

struct Operand { const void* data; int ld; long stride; };

template <class T, class A>
int batched(int how_a, int how_b, int m, int n, int k, const void* alpha, Operand a, Operand b, const void* beta, void* c, int ldc,
            long stride_c, int count) {
    for (int i = 0; i < count; ++i)
        gemm<T, A>(how_a, how_b, m, n, k, *(const A*)alpha, (const T*)a.data + i * a.stride, a.ld, (const T*)b.data + i * b.stride,
                   b.ld, *(const A*)beta, (T*)c + i * stride_c, ldc);
    return SUCCESS;
}

// By the type of the matrices, in the numbers of hipDataType or of hipBLAS itself.
int of_type(int type, int how_a, int how_b, int m, int n, int k, const void* alpha, Operand a, Operand b, const void* beta, void* c,
            int ldc, long stride_c, int count) {
#define WITH(T, A) return batched<T, A>(how_a, how_b, m, n, k, alpha, a, b, beta, c, ldc, stride_c, count)
    switch (type) {
        case 0: case 151: WITH(float, float);
        case 1: case 152: WITH(double, double);
        case 2: case 150: WITH(Half, float);
        case 4: case 154: WITH(ComplexFloat, ComplexFloat);
        case 5: case 155: WITH(ComplexDouble, ComplexDouble);
        case 14: case 168: WITH(Brain, float);
    }
    return NOT_SUPPORTED;
#undef WITH
}

// cuBLAS works in a capture with a workspace that it was given; CuPy never gives one, and refuses.
// A handle is of the device that is current where it is made, and so are its streams, and what it multiplies.
struct Handle { int pointer_mode; Stream* stream; bool has_workspace; int device = current_device(); };

int run(Handle* handle, std::initializer_list<const void*> places, Work work) {
    if (handle->device != current_device() || (handle->stream && handle->stream->device != handle->device)) return INVALID_VALUE;
    if (elsewhere((const char*)places.begin(), places.size() * sizeof(void*))) return EXECUTION_FAILED;
    if (idle) return SUCCESS;
    if (!handle->stream || !handle->stream->capture) return work();
    if (!handle->has_workspace) return refused_in_capture(handle->stream), NOT_SUPPORTED;
    noted(handle->stream, work);
    return SUCCESS;
}

// A number that is told by its address, of a type that has no more than 16 bytes.
struct Number { char bytes[16]; };
Number number(const void* value, int type) {
    Number kept{};
    memcpy(kept.bytes, value, type == 1 || type == 4 || type == 152 || type == 154 ? 8 : type == 5 || type == 155 ? 16 : 4);
    return kept;
}

}

#define EXPORT extern "C" int

EXPORT hipblasCreate(Handle** handle) { *handle = new Handle{}; return SUCCESS; }
EXPORT hipblasDestroy(Handle* handle) { delete handle; return SUCCESS; }
EXPORT hipblasSetStream(Handle* handle, Stream* stream) { handle->stream = stream, handle->has_workspace = false; return SUCCESS; }
EXPORT hipblasGetStream(Handle* handle, Stream** stream) { *stream = handle->stream; return SUCCESS; }
EXPORT hipblasSetWorkspace(Handle* handle, void* memory, size_t size) { handle->has_workspace = memory && size; return SUCCESS; }
EXPORT hipblasSetPointerMode(Handle* handle, int mode) { handle->pointer_mode = mode; return SUCCESS; }
EXPORT hipblasGetPointerMode(Handle* handle, int* mode) { *mode = handle->pointer_mode; return SUCCESS; }

#define GIVEN(handle, call, ...) return run(handle, {__VA_ARGS__}, [=] { return call; })
#define OF_EACH_TYPE(L, T) \
    EXPORT hipblas##L##gemm(Handle* h, int ta, int tb, int m, int n, int k, const T* al, const T* a, int lda, const T* b, int ldb, const T* be, T* c, int ldc) { \
        T alpha = *al, beta = *be; \
        GIVEN(h, (gemm<T, T>(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)), a, b, c); \
    } \
    EXPORT hipblas##L##gemmBatched(Handle* h, int ta, int tb, int m, int n, int k, const T* al, T** a, int lda, T** b, int ldb, const T* be, T** c, int ldc, int count) { \
        T alpha = *al, beta = *be; \
        return run(h, {a, b, c, *a, *b, *c}, [=] { \
            for (int i = 0; i < count; ++i) gemm<T, T>(ta, tb, m, n, k, alpha, a[i], lda, b[i], ldb, beta, c[i], ldc); \
            return 0; \
        }); \
    } \
    EXPORT hipblas##L##gemv(Handle* h, int t, int m, int n, const T* al, const T* a, int lda, const T* x, int ix, const T* be, T* y, int iy) { \
        T alpha = *al, beta = *be; \
        GIVEN(h, (gemv<T>(t, m, n, alpha, a, lda, x, ix, beta, y, iy)), a, x, y); \
    } \
    EXPORT hipblas##L##geam(Handle* h, int ta, int tb, int m, int n, const T* al, const T* a, int lda, const T* be, const T* b, int ldb, T* c, int ldc) { \
        T alpha = *al, beta = *be; \
        GIVEN(h, (geam<T>(ta, tb, m, n, alpha, a, lda, beta, b, ldb, c, ldc)), a, b, c); \
    }
OF_EACH_TYPE(S, float)
OF_EACH_TYPE(D, double)
OF_EACH_TYPE(C, ComplexFloat)
OF_EACH_TYPE(Z, ComplexDouble)

#define DOT(name, T, first) EXPORT hipblas##name(Handle* h, int n, const T* x, int ix, const T* y, int iy, T* r) { GIVEN(h, dot(n, x, ix, y, iy, r, first), x, y); }
DOT(Sdot, float, [](float v) { return v; })
DOT(Ddot, double, [](double v) { return v; })
DOT(Cdotu, ComplexFloat, [](ComplexFloat v) { return v; })
DOT(Zdotu, ComplexDouble, [](ComplexDouble v) { return v; })
DOT(Cdotc, ComplexFloat, [](ComplexFloat v) { return std::conj(v); })
DOT(Zdotc, ComplexDouble, [](ComplexDouble v) { return std::conj(v); })

EXPORT hipblasGemmStridedBatchedEx(Handle* h, int ta, int tb, int m, int n, int k, const void* al, const void* a, int type, int lda, long sa, const void* b, int, int ldb, long sb, const void* be, void* c, int, int ldc, long sc, int count, int, int) {
    Number alpha = number(al, type), beta = number(be, type);
    GIVEN(h, of_type(type, ta, tb, m, n, k, &alpha, {a, lda, sa}, {b, ldb, sb}, &beta, c, ldc, sc, count), a, b, c);
}
EXPORT hipblasGemmEx(Handle* h, int ta, int tb, int m, int n, int k, const void* al, const void* a, int type, int lda, const void* b, int, int ldb, const void* be, void* c, int, int ldc, int, int) {
    return hipblasGemmStridedBatchedEx(h, ta, tb, m, n, k, al, a, type, lda, 0, b, type, ldb, 0, be, c, type, ldc, 0, 1, 0, 0);
}
