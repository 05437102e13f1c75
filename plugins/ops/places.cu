// Elements that an index takes from an array, or adds to it, a thread for each; see plugrad_cuda.h. Arrays are (before, n,
// after), what is taken or added (before, m, after). Each element has an index of its own, or each of m slices one, which if
// `slices` is 2 counts from the end where it is negative. Of an index that is out of range nothing is read or written: it is
// told by `fault`, see backends/_faults.py.

// Where element i of what is taken is in the array, -1 for an index out of range.
template <typename I>
__device__ long long place(long long i, const long long *index, long long *fault, double of_n, double of_m, double of_after,
                           double slices, double number) {
    const I m = (I)of_m, after = (I)of_after, slice = (I)i / after, k = (I)i % after, before = slice / m;
    const long long n = (long long)of_n, given = index[slices ? (long long)(slice % m) : i];
    const long long at = given < 0 && slices > 1 ? given + n : given;
    if (at < 0 || at >= n) {
        fault[1] = given, fault[0] = (long long)number;
        return -1;
    }
    return ((long long)before * n + at) * (long long)after + (long long)k;
}

#define PLACE                                                                                                   \
    (size <= 0xffffffffll ? place<unsigned>(i, index, fault, n, m, after, slices, number)                       \
                          : place<unsigned long long>(i, index, fault, n, m, after, slices, number))

template <typename T>
__global__ void take(long long size, T *out, const T *x, const long long *index, long long *fault, double n, double m,
                     double after, double slices, double number) {
    const long long i = PG_ELEMENT;
    if (i >= size) return;
    const long long from = PLACE;
    out[i] = from < 0 ? T(0) : x[from];
}

template <typename T>
__global__ void put_sums(long long size, const T *x, T *out, const long long *index, long long *fault, double n, double m,
                         double after, double slices, double number, double alpha) {
    const long long i = PG_ELEMENT;
    if (i >= size) return;
    const long long to = PLACE;
    if (to >= 0) atomicAdd(out + to, T(alpha) * x[i]);
}

template <typename T> __global__ void duplicate(long long size, const T *x, T *y) {
    pg_map(size, x, y, [](T v) { return v; });
}
