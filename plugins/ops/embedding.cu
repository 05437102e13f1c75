// The gradients of rows that were looked up, added up in a table of zeros; see plugrad_cuda.h. The indices are sorted, equal
// ones in the order in which they were given, so sums are made in that order, without atomics, and a step repeats bit for
// bit. A block adds up a window of WINDOW neighbours, however often one index occurs: the first window of a run of equal
// indices writes to the table, later ones keep theirs apart, and a second kernel adds these. Each thread has one column,
// `wide` threads a window; where rows are short a block has several windows.

#define WINDOW 32

// Sorts a few indices by one launch: a warp for each counts those that come before it, which is its place.
template <typename T>
__global__ void order_few(long long size, const T *indices, long long *ordered, long long *places) {
    const long long own = ((long long)blockIdx.x * PG_THREADS + threadIdx.x) / 32;
    if (own >= size) return;
    const long long index = indices[own];
    long long before = 0;
    for (long long i = threadIdx.x % 32; i < size; i += 32)
        before += indices[i] < index || indices[i] == index && i < own;
    for (int lane = 16; lane; lane /= 2) before += __shfl_xor_sync(0xffffffffu, before, lane);
    if (threadIdx.x % 32 == 0) ordered[before] = index, places[before] = own;
}

struct index_window {
    long long number, from, end, column;
    bool inside;

    __device__ index_window(long long count, long long width, int wide) {
        number = (long long)blockIdx.x * (PG_THREADS / wide) + threadIdx.x / wide;
        column = (long long)blockIdx.y * wide + threadIdx.x % wide;
        from = number * WINDOW, end = from + WINDOW < count ? from + WINDOW : count;
        inside = from < count && column < width;
    }
    // Whether the run of equal indices that an index belongs to began before this window.
    __device__ bool is_later_part(const long long *indices, long long index) const {
        return from > 0 && indices[from] == index && indices[from - 1] == index;
    }
};

__device__ bool takes_gradient(long long index, double rows, double padding) {
    return index >= 0 && index < (long long)rows && index != (long long)padding;
}

template <typename T>
__global__ void add_windows(long long size, const T *g, const long long *indices, const long long *places, T *table,
                            T *apart, double count, double width, double wide, double rows, double padding) {
    const index_window window((long long)count, (long long)width, (int)wide);
    if (!window.inside) return;
    const long long columns = (long long)width;
    T sum = 0;
    for (long long k = window.from; k < window.end; k++) {
        const long long index = indices[k];
        sum += g[places[k] * columns + window.column];
        if (k + 1 < window.end && indices[k + 1] == index) continue;
        if (window.is_later_part(indices, index)) apart[window.number * columns + window.column] = sum;
        else if (takes_gradient(index, rows, padding)) table[index * columns + window.column] = sum;
        sum = 0;
    }
}

template <typename T>
__global__ void join_windows(long long size, T *table, const long long *indices, const T *apart, double count, double width,
                             double wide, double rows, double padding) {
    const index_window window((long long)count, (long long)width, (int)wide);
    if (!window.inside || window.end == (long long)count) return;
    const long long columns = (long long)width, index = indices[window.end - 1];
    if (indices[window.end] != index || window.is_later_part(indices, index) || !takes_gradient(index, rows, padding)) return;
    T sum = table[index * columns + window.column];
    for (long long next = window.number + 1; next * WINDOW < (long long)count && indices[next * WINDOW] == index; next++)
        sum += apart[next * columns + window.column];
    table[index * columns + window.column] = sum;
}
