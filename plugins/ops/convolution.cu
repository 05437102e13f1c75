// Convolutions as products of matrices whose factors are not laid out: the elements of windows are looked up where a tile
// of them is needed. An image has groups * inner channels, and what windows give groups * outer; a weight is
// (groups * outer, inner, *kernel). Both may lie in memory in any order. `convolve` goes from images to windows' results,
// `convolve_back`, its adjoint, gathers what every element of an image gave to them, and `convolve_weight` correlates both.
// Sums are made in one order: results repeat bit for bit.

#ifndef PG_ROWS  // of a tile
#define PG_ROWS 64
#endif
#define COLUMNS 64
#define DEPTH 16
#define PER_ROW (PG_ROWS / 16)

struct conv_plan {
    int image[3], small[3], kernel[3], stride[3], low[3], dilation[3];
    int batch, groups, inner, outer, taps, parts;
    long long x_n, x_c, x_at[3], y_n, y_c, y_at[3];  // steps in memory

    __device__ int count() const { return small[0] * small[1] * small[2]; }
    __device__ int pixels() const { return image[0] * image[1] * image[2]; }
    __device__ long long x_place(int d, int h, int w) const { return d * x_at[0] + h * x_at[1] + w * x_at[2]; }
    __device__ long long y_place(int d, int h, int w) const { return d * y_at[0] + h * y_at[1] + w * y_at[2]; }
};

// Coordinates along three axes, and where in memory they belong to.
struct conv_entry {
    long long place;
    int at[3];
};

__device__ inline void conv_split(long long number, const int *lengths, int *at, long long *rest) {
    for (int k = 2; k >= 0; k--) number = pg_divide(number, lengths[k], at + k);
    *rest = number;
}

// Tap number `tap` of a kernel, as distances.
__device__ inline void conv_tap(int tap, const conv_plan &plan, int *at) {
    for (int k = 2; k >= 0; k--) at[k] = tap % plan.kernel[k] * plan.dilation[k], tap /= plan.kernel[k];
}

// One tile of a product: rows of the first factor, (row, k), by columns of the second, (k, column). `describe(place, k)`
// writes down what is to be known of k, once for the tile, before the factors are asked for it. While one part of the
// factors is multiplied the next is on its way, and lies in other memory.
template <bool DEEP, typename W, typename Describe, typename Left, typename Right>
__device__ void conv_tile(long long from, long long end, Describe describe, Left left, Right right, W sums[][4]) {
    __shared__ W a[2][DEPTH][PG_ROWS + 4], b[2][DEPTH][COLUMNS + 4];
    const int t = threadIdx.x, deep = t % DEPTH, across = t / DEPTH, column = t % COLUMNS, level = t / COLUMNS;
    const int row = t / 16 * PER_ROW, place = t % 16 * 4;
    W next_a[PER_ROW], next_b[4];
    const auto load = [&](long long k, int odd) {
        for (int i = 0; i < PER_ROW; i++) next_a[i] = k + deep < end ? left(across + 16 * i, k, odd + deep) : W(0);
        for (int i = 0; i < 4; i++) {
            const int down = DEEP ? deep : level + 4 * i;
            next_b[i] = k + down < end ? right(odd + down, DEEP ? across + 16 * i : column) : W(0);
        }
    };
    for (int i = 0; i < PER_ROW; i++)
        for (int j = 0; j < 4; j++) sums[i][j] = 0;
    if (t < DEPTH) describe(t, from + t);
    __syncthreads();
    load(from, 0);
    int odd = 0;
    for (long long k = from; k < end; k += DEPTH, odd = 1 - odd) {
        for (int i = 0; i < PER_ROW; i++) a[odd][deep][across + 16 * i] = next_a[i];
        for (int i = 0; i < 4; i++) b[odd][DEEP ? deep : level + 4 * i][DEEP ? across + 16 * i : column] = next_b[i];
        if (t < DEPTH) describe((1 - odd) * DEPTH + t, k + DEPTH + t);
        __syncthreads();  // whoever writes here again has met all others since they read
        if (k + DEPTH < end) load(k + DEPTH, (1 - odd) * DEPTH);
#pragma unroll
        for (int step = 0; step < DEPTH; step++) {
            W x[PER_ROW], y[4];
            for (int i = 0; i < PER_ROW; i++) x[i] = a[odd][step][row + i];
            for (int j = 0; j < 4; j++) y[j] = b[odd][step][place + j];
            for (int i = 0; i < PER_ROW; i++)
                for (int j = 0; j < 4; j++) sums[i][j] += x[i] * y[j];
        }
    }
}

// blockIdx.x: tile of (image of the batch, window); blockIdx.y: group and tile of outer channels.
template <typename T>
__global__ void convolve(long long size, const T *x, const T *weight, T *y, const T *bias, conv_plan plan, double biased) {
    typedef pg_real<T> W;
    __shared__ conv_entry steps[2 * DEPTH], places[COLUMNS];
    __shared__ long long results[COLUMNS];
    const int tiles = (plan.outer + PG_ROWS - 1) / PG_ROWS, group = blockIdx.y / tiles;
    const int first = blockIdx.y % tiles * PG_ROWS, deep = plan.inner * plan.taps;
    const long long columns = (long long)plan.batch * plan.count(), start = (long long)blockIdx.x * COLUMNS;
    if (threadIdx.x < COLUMNS) {
        conv_entry &one = places[threadIdx.x];
        long long image;
        int at[3];
        conv_split(start + threadIdx.x, plan.small, at, &image);
        for (int k = 0; k < 3; k++) one.at[k] = at[k] * plan.stride[k] - plan.low[k];
        one.place = start + threadIdx.x < columns ? image * plan.x_n + (long long)group * plan.inner * plan.x_c : -1;
        results[threadIdx.x] = image * plan.y_n + (long long)group * plan.outer * plan.y_c + plan.y_place(at[0], at[1], at[2]);
    }
    const T *rows = weight + ((long long)group * plan.outer + first) * deep;
    const int last = plan.outer - first;
    W sums[PER_ROW][4];
    conv_tile<false>(
        0, deep,
        [&](int t, long long k) {
            conv_tap((int)k % plan.taps, plan, steps[t].at);
            steps[t].place = (int)k / plan.taps * plan.x_c;
        },
        [&](int row, long long k, int t) {
            return row < last ? W(rows[(long long)row * deep + k + t % DEPTH]) : W(0);
        },
        [&](int t, int column) {
            const conv_entry &place = places[column], &step = steps[t];
            const int d = place.at[0] + step.at[0], h = place.at[1] + step.at[1], w = place.at[2] + step.at[2];
            const bool inside = place.place >= 0 && (unsigned)d < (unsigned)plan.image[0] &&
                                (unsigned)h < (unsigned)plan.image[1] && (unsigned)w < (unsigned)plan.image[2];
            return inside ? W(x[place.place + step.place + plan.x_place(d, h, w)]) : W(0);
        },
        sums);
    const int row = threadIdx.x / 16 * PER_ROW, column = threadIdx.x % 16 * 4;
    for (int i = 0; i < PER_ROW; i++) {
        if (row + i >= last) break;
        const W more = biased ? W(bias[group * plan.outer + first + row + i]) : W(0);
        for (int j = 0; j < 4; j++)
            if (start + column + j < columns) y[results[column + j] + (first + row + i) * plan.y_c] = T(sums[i][j] + more);
    }
}

// blockIdx.x: tile of (image of the batch, element); blockIdx.y: group and tile of inner channels.
template <typename T>
__global__ void convolve_back(long long size, const T *y, const T *weight, T *x, const T *bias, conv_plan plan, double biased) {
    typedef pg_real<T> W;
    __shared__ conv_entry steps[2 * DEPTH], places[COLUMNS];
    __shared__ long long results[COLUMNS];
    const int tiles = (plan.inner + PG_ROWS - 1) / PG_ROWS, group = blockIdx.y / tiles;
    const int first = blockIdx.y % tiles * PG_ROWS, deep = plan.outer * plan.taps;
    const long long columns = (long long)plan.batch * plan.pixels(), start = (long long)blockIdx.x * COLUMNS;
    if (threadIdx.x < COLUMNS) {
        conv_entry &one = places[threadIdx.x];
        long long image;
        int at[3];
        conv_split(start + threadIdx.x, plan.image, at, &image);
        for (int k = 0; k < 3; k++) one.at[k] = at[k] + plan.low[k];
        one.place = start + threadIdx.x < columns ? image * plan.y_n + (long long)group * plan.outer * plan.y_c : -1;
        results[threadIdx.x] = image * plan.x_n + (long long)group * plan.inner * plan.x_c + plan.x_place(at[0], at[1], at[2]);
    }
    const T *rows = weight + ((long long)group * plan.outer * plan.inner + first) * plan.taps;
    const int last = plan.inner - first;
    W sums[PER_ROW][4];
    conv_tile<false>(
        0, deep,
        [&](int t, long long k) {
            conv_tap((int)k % plan.taps, plan, steps[t].at);
            steps[t].place = (int)k / plan.taps;
        },
        [&](int row, long long k, int t) {
            const long long tap = k + t % DEPTH - steps[t].place * plan.taps;
            return row < last ? W(rows[(steps[t].place * plan.inner + row) * plan.taps + tap]) : W(0);
        },
        [&](int t, int column) {
            const conv_entry &place = places[column], &step = steps[t];
            int at[3];
            for (int k = 0; k < 3; k++) {
                at[k] = place.at[k] - step.at[k];
                if (plan.stride[k] > 1) {
                    const int window = at[k] / plan.stride[k];
                    at[k] = at[k] == window * plan.stride[k] ? window : -1;
                }
            }
            const bool inside = place.place >= 0 && (unsigned)at[0] < (unsigned)plan.small[0] &&
                                (unsigned)at[1] < (unsigned)plan.small[1] && (unsigned)at[2] < (unsigned)plan.small[2];
            return inside ? W(y[place.place + step.place * plan.y_c + plan.y_place(at[0], at[1], at[2])]) : W(0);
        },
        sums);
    const int row = threadIdx.x / 16 * PER_ROW, column = threadIdx.x % 16 * 4;
    for (int i = 0; i < PER_ROW; i++) {
        if (row + i >= last) break;
        const W more = biased ? W(bias[group * plan.inner + first + row + i]) : W(0);
        for (int j = 0; j < 4; j++)
            if (start + column + j < columns) x[results[column + j] + (first + row + i) * plan.x_c] = T(sums[i][j] + more);
    }
}

// blockIdx.x: tile of (inner channel, tap); blockIdx.y: group and tile of outer channels; blockIdx.z: part of the batch's
// windows. Sums of one part go to the weight, of several to `joined`.
template <typename T>
__global__ void convolve_weight(long long size, const T *y, const T *x, T *weight, pg_real<T> *joined, conv_plan plan) {
    typedef pg_real<T> W;
    __shared__ conv_entry steps[2 * DEPTH], places[COLUMNS];
    __shared__ long long small[2 * DEPTH];
    const int tiles = (plan.outer + PG_ROWS - 1) / PG_ROWS, group = blockIdx.y / tiles;
    const int first = blockIdx.y % tiles * PG_ROWS, columns = plan.inner * plan.taps, start = blockIdx.x * COLUMNS;
    const long long all = (long long)plan.batch * plan.count();
    const long long each = ((all + plan.parts - 1) / plan.parts + DEPTH - 1) / DEPTH * DEPTH, from = blockIdx.z * each;
    if (threadIdx.x < COLUMNS) {
        const int column = start + threadIdx.x, channel = group * plan.inner + column / plan.taps;
        conv_tap(column % plan.taps, plan, places[threadIdx.x].at);
        places[threadIdx.x].place = column < columns ? channel * plan.x_c : -1;
    }
    const int last = plan.outer - first;
    const T *rows = y + ((long long)group * plan.outer + first) * plan.y_c;
    W sums[PER_ROW][4];
    conv_tile<true>(
        from, from + each < all ? from + each : all,
        [&](int t, long long k) {
            long long image;
            int at[3];
            conv_split(k, plan.small, at, &image);
            small[t] = image * plan.y_n + plan.y_place(at[0], at[1], at[2]);
            for (int k = 0; k < 3; k++) steps[t].at[k] = at[k] * plan.stride[k] - plan.low[k];
            steps[t].place = image * plan.x_n;
        },
        [&](int row, long long, int t) { return row < last ? W(rows[row * plan.y_c + small[t]]) : W(0); },
        [&](int t, int column) {
            const conv_entry &place = places[column], &step = steps[t];
            const int d = place.at[0] + step.at[0], h = place.at[1] + step.at[1], w = place.at[2] + step.at[2];
            const bool inside = place.place >= 0 && (unsigned)d < (unsigned)plan.image[0] &&
                                (unsigned)h < (unsigned)plan.image[1] && (unsigned)w < (unsigned)plan.image[2];
            return inside ? W(x[place.place + step.place + plan.x_place(d, h, w)]) : W(0);
        },
        sums);
    const int row = threadIdx.x / 16 * PER_ROW, column = start + threadIdx.x % 16 * 4;
    const long long whole = (long long)plan.groups * plan.outer * columns;
    W *parts = joined + blockIdx.z * whole;
    for (int i = 0; i < PER_ROW && row + i < last; i++)
        for (int j = 0; j < 4 && column + j < columns; j++) {
            const long long place = ((long long)group * plan.outer + first + row + i) * columns + column + j;
            if (plan.parts > 1) parts[place] = sums[i][j];
            else weight[place] = T(sums[i][j]);
        }
}

// The sum of parts of a weight, a thread for each element of it.
template <typename T> __global__ void convolve_join(long long size, T *weight, const pg_real<T> *joined, double parts) {
    typedef pg_real<T> W;
    if (PG_ELEMENT >= size) return;
    const W *x = joined + PG_ELEMENT;
    W sum = 0;
    for (int k = 0; k < (int)parts; k++) sum += x[k * size];
    weight[PG_ELEMENT] = T(sum);
}

// The sum over images and elements of each channel of (N, C, L), or (N, L, C). blockIdx.x: channel; blockIdx.y: part of
// them, whose sums go to `joined`.
template <typename T>
__global__ void channel_totals(
    long long size, const T *x, T *y, pg_real<T> *joined, double batch, double step_n, double step_c, double length, double step
) {
    typedef pg_real<T> W;
    const T *mine = x + blockIdx.x * (long long)step_c;
    const long long all = (long long)batch * (long long)length, each = (all + gridDim.y - 1) / gridDim.y;
    const long long from = blockIdx.y * each, end = from + each < all ? from + each : all;
    W sum = 0;
#pragma unroll 4
    for (long long k = from + threadIdx.x; k < end; k += PG_THREADS) {
        int at;
        const long long image = pg_divide(k, (int)length, &at);
        sum += W(mine[image * (long long)step_n + at * (long long)step]);
    }
    sum = pg_sum(sum);
    if (threadIdx.x) return;
    if (gridDim.y > 1) joined[(long long)blockIdx.y * gridDim.x + blockIdx.x] = sum;
    else y[blockIdx.x] = T(sum);
}

// Where a group has one channel of the image nothing is a product: a thread for each result. The number of a thread goes
// through memory in its order: `innermost` says whether channels are.
struct conv_own {
    long long image;
    int channel, at[3];

    __device__ conv_own(long long number, bool innermost, int channels, const int *lengths) {
        if (innermost) number = pg_divide(number, channels, &channel);
        conv_split(number, lengths, at, &image);
        if (!innermost) image = pg_divide(image, channels, &channel);
    }
};

template <typename T>
__global__ void depthwise(long long size, const T *x, const T *weight, T *y, const T *bias, conv_plan plan, double biased) {
    typedef pg_real<T> W;
    const int channels = plan.groups * plan.outer;
    if (PG_ELEMENT >= (long long)plan.batch * channels * plan.count()) return;
    const conv_own own(PG_ELEMENT, plan.y_c == 1, channels, plan.small);
    const T *image = x + own.image * plan.x_n + own.channel / plan.outer * plan.x_c, *row = weight + (long long)own.channel * plan.taps;
    int from[3];
    for (int k = 0; k < 3; k++) from[k] = own.at[k] * plan.stride[k] - plan.low[k];
    W sum = biased ? W(bias[own.channel]) : W(0);
    for (int i = 0, tap = 0; i < plan.kernel[0]; i++)
        for (int j = 0; j < plan.kernel[1]; j++)
            for (int k = 0; k < plan.kernel[2]; k++, tap++) {
                const int d = from[0] + i * plan.dilation[0], h = from[1] + j * plan.dilation[1];
                const int w = from[2] + k * plan.dilation[2];
                if ((unsigned)d < (unsigned)plan.image[0] && (unsigned)h < (unsigned)plan.image[1] &&
                    (unsigned)w < (unsigned)plan.image[2])
                    sum += W(image[plan.x_place(d, h, w)]) * W(row[tap]);
            }
    y[own.image * plan.y_n + own.channel * plan.y_c + plan.y_place(own.at[0], own.at[1], own.at[2])] = T(sum);
}

// Of the distance from a window's first element to one of the image: the window along an axis, or -1.
__device__ inline int conv_window(int distance, int stride, int count) {
    const int window = stride > 1 ? distance / stride : distance;
    return distance >= 0 && window < count && window * stride == distance ? window : -1;
}

template <typename T>
__global__ void depthwise_back(long long size, const T *y, const T *weight, T *x, const T *bias, conv_plan plan, double biased) {
    typedef pg_real<T> W;
    if (PG_ELEMENT >= (long long)plan.batch * plan.groups * plan.pixels()) return;
    const conv_own own(PG_ELEMENT, plan.x_c == 1, plan.groups, plan.image);
    const int first = own.channel * plan.outer;
    const T *results = y + own.image * plan.y_n + first * plan.y_c, *rows = weight + (long long)first * plan.taps;
    W sum = biased ? W(bias[own.channel]) : W(0);
    for (int i = 0; i < plan.kernel[0]; i++) {
        const int d = conv_window(own.at[0] + plan.low[0] - i * plan.dilation[0], plan.stride[0], plan.small[0]);
        for (int j = 0; j < plan.kernel[1] && d >= 0; j++) {
            const int h = conv_window(own.at[1] + plan.low[1] - j * plan.dilation[1], plan.stride[1], plan.small[1]);
            for (int k = 0; k < plan.kernel[2] && h >= 0; k++) {
                const int w = conv_window(own.at[2] + plan.low[2] - k * plan.dilation[2], plan.stride[2], plan.small[2]);
                const int tap = (i * plan.kernel[1] + j) * plan.kernel[2] + k;
                for (int o = 0; o < plan.outer && w >= 0; o++)
                    sum += W(results[o * plan.y_c + plan.y_place(d, h, w)]) * W(rows[o * plan.taps + tap]);
            }
        }
    }
    x[own.image * plan.x_n + own.channel * plan.x_c + plan.x_place(own.at[0], own.at[1], own.at[2])] = T(sum);
}

// blockIdx.x: some taps; blockIdx.y: outer channel; blockIdx.z: part of the batch's windows, as in convolve_weight.
#define TAPS 9
template <typename T>
__global__ void depthwise_weight(long long size, const T *y, const T *x, T *weight, pg_real<T> *joined, conv_plan plan) {
    typedef pg_real<T> W;
    const int channel = blockIdx.y, first = blockIdx.x * TAPS, taps = min(TAPS, plan.taps - first);
    const T *image = x + channel / plan.outer * plan.x_c, *results = y + channel * plan.y_c;
    const long long all = (long long)plan.batch * plan.count(), each = (all + plan.parts - 1) / plan.parts;
    const long long from = blockIdx.z * each, end = from + each < all ? from + each : all;
    W sums[TAPS];
#pragma unroll
    for (int n = 0; n < TAPS; n++) sums[n] = 0;
    for (long long k = from + threadIdx.x; k < end; k += PG_THREADS) {
        long long number;
        int at[3];
        conv_split(k, plan.small, at, &number);
        const W gradient = W(results[number * plan.y_n + plan.y_place(at[0], at[1], at[2])]);
        for (int n = 0; n < 3; n++) at[n] = at[n] * plan.stride[n] - plan.low[n];
#pragma unroll
        for (int n = 0; n < TAPS; n++) {
            if (n >= taps) break;
            int tap[3];
            conv_tap(first + n, plan, tap);
            const int d = at[0] + tap[0], h = at[1] + tap[1], w = at[2] + tap[2];
            if ((unsigned)d < (unsigned)plan.image[0] && (unsigned)h < (unsigned)plan.image[1] &&
                (unsigned)w < (unsigned)plan.image[2])
                sums[n] += gradient * W(image[number * plan.x_n + plan.x_place(d, h, w)]);
        }
    }
#pragma unroll
    for (int n = 0; n < TAPS; n++) {
        if (n >= taps) break;  // for all threads
        const W sum = pg_sum(sums[n]);
        const long long place = (long long)channel * plan.taps + first + n;
        if (threadIdx.x == 0) {
            if (plan.parts > 1) joined[(long long)blockIdx.z * plan.groups * plan.outer * plan.taps + place] = sum;
            else weight[place] = T(sum);
        }
    }
}

// For a product of matrices by cuBLAS: the elements of all windows of images [from, from + count), as (image, channel,
// tap, window) with these steps between images and between rows; a thread for each channel of a window.
template <typename T>
__global__ void columns(long long size, const T *x, T *y, conv_plan plan, double from, double count, double by_image, double by_row) {
    const int channels = plan.groups * plan.inner, windows = plan.count();
    if (PG_ELEMENT >= (long long)count * channels * windows) return;
    int channel, at[3], window, first[3];
    long long image = pg_divide(pg_divide(PG_ELEMENT, windows, &window), channels, &channel), rest;
    conv_split(window, plan.small, at, &rest);
    const T *source = x + ((long long)from + image) * plan.x_n + channel * plan.x_c;
    T *result = y + image * (long long)by_image + (long long)channel * plan.taps * (long long)by_row + window;
    for (int k = 0; k < 3; k++) first[k] = at[k] * plan.stride[k] - plan.low[k];
    for (int i = 0; i < plan.kernel[0]; i++)
        for (int j = 0; j < plan.kernel[1]; j++)
            for (int k = 0; k < plan.kernel[2]; k++, result += (long long)by_row) {
                const int d = first[0] + i * plan.dilation[0], h = first[1] + j * plan.dilation[1];
                const int w = first[2] + k * plan.dilation[2];
                const bool inside = (unsigned)d < (unsigned)plan.image[0] && (unsigned)h < (unsigned)plan.image[1] &&
                                    (unsigned)w < (unsigned)plan.image[2];
                *result = inside ? source[plan.x_place(d, h, w)] : T(0.f);
            }
}

// The adjoint: a thread for each element of the images adds up what it is in.
template <typename T>
__global__ void columns_back(long long size, const T *y, T *x, const T *bias, conv_plan plan, double from, double count, double biased) {
    typedef pg_real<T> W;
    const int channels = plan.groups * plan.inner, windows = plan.count();
    if (PG_ELEMENT >= (long long)count * channels * plan.pixels()) return;
    const conv_own own(PG_ELEMENT, plan.x_c == 1, channels, plan.image);
    const T *rows = y + (own.image * channels + own.channel) * plan.taps * windows;
    W sum = biased ? W(bias[own.channel]) : W(0);
    for (int i = 0; i < plan.kernel[0]; i++) {
        const int d = conv_window(own.at[0] + plan.low[0] - i * plan.dilation[0], plan.stride[0], plan.small[0]);
        for (int j = 0; j < plan.kernel[1] && d >= 0; j++) {
            const int h = conv_window(own.at[1] + plan.low[1] - j * plan.dilation[1], plan.stride[1], plan.small[1]);
            for (int k = 0; k < plan.kernel[2] && h >= 0; k++) {
                const int w = conv_window(own.at[2] + plan.low[2] - k * plan.dilation[2], plan.stride[2], plan.small[2]);
                const long long tap = (i * plan.kernel[1] + j) * plan.kernel[2] + k;
                if (w >= 0) sum += W(rows[tap * windows + (d * plan.small[1] + h) * plan.small[2] + w]);
            }
        }
    }
    const long long image = (long long)from + own.image;
    x[image * plan.x_n + own.channel * plan.x_c + plan.x_place(own.at[0], own.at[1], own.at[2])] = T(sum);
}
