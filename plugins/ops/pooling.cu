// Pooling of images in up to three dimensions, which lie in memory as (outer, D, H, W, inner): inner is 1, or the channels
// where these are innermost. A thread for each window, or a warp where windows are large; backward a thread for each
// element of the image, which looks at the windows that it is in, in their order, so that nothing is added up by atomics.

struct pool_span {
    int from, end, step;  // coordinates
    __device__ int count() const { return end > from ? (end - from + step - 1) / step : 0; }
};

// How windows lie along one axis: evenly, or (kernel 0) as nearly equal parts.
struct pool_axis {
    int length, size, kernel, stride, low, dilation;

    __device__ int begin(int window) const {
        return kernel ? window * stride - low : (int)((long long)window * length / size);
    }
    __device__ int end(int window) const {
        return kernel ? begin(window) + dilation * (kernel - 1) + 1
                      : (int)(((window + 1LL) * length + size - 1) / size);
    }
    // The elements of a window that are in the image.
    __device__ pool_span inside(int window) const {
        if (length == 1 && size == 1 && kernel <= 1) return {0, 1, 1};
        int from = begin(window), last = end(window);
        if (from < 0) from += (dilation - 1 - from) / dilation * dilation;
        return {from, last < length ? last : length, dilation};
    }
    // The element of the image that is nearest to the first of a window.
    __device__ int nearest(int window) const {
        const int from = begin(window);
        return from < 0 ? 0 : from < length ? from : length - 1;
    }
    // The windows that an element may be in.
    __device__ pool_span windows(int at) const {
        if (length == 1 && size == 1 && kernel <= 1) return {0, 1, 1};
        int from, last;
        if (kernel) {
            const int reach = at + low - dilation * (kernel - 1);
            from = reach > 0 ? (reach + stride - 1) / stride : 0, last = (at + low) / stride + 1;
        } else {
            from = (int)((long long)at * size / length), last = (int)(((at + 1LL) * size + length - 1) / length);
        }
        return {from, last < size ? last : size, 1};
    }
    __device__ bool has(int window, int at) const { return dilation == 1 || (at - begin(window)) % dilation == 0; }
    // By how many elements means divide.
    __device__ int counted(int window, bool padding) const {
        const int from = begin(window), last = end(window);
        if (padding) return (last < length + low ? last : length + low) - from;
        const int count = (last < length ? last : length) - (from > 0 ? from : 0);
        return count > 0 ? count : 0;
    }
};

struct pool_plan {
    pool_axis axis[3];
    int lanes, padding_counts;
    double divisor;
    long long inner, windows, elements;
};

// A place in an image, or among the windows.
struct pool_place {
    long long outer;
    int at[3], inner;

    __device__ pool_place(long long number, const pool_plan &plan, bool of_windows) {
        if (plan.inner > 1) number = pg_divide(number, (int)plan.inner, &inner);
        else inner = 0;
        for (int k = 2; k >= 0; k--)
            number = pg_divide(number, of_windows ? plan.axis[k].size : plan.axis[k].length, at + k);
        outer = number;
    }
};

// The images of one outer and inner number.
template <typename T> struct pool_image {
    const T *x;
    const pool_plan &plan;

    __device__ pool_image(const T *all, const pool_place &place, const pool_plan &plan, bool of_windows) : plan(plan) {
        long long each = plan.inner;
        for (int k = 0; k < 3; k++) each *= of_windows ? plan.axis[k].size : plan.axis[k].length;
        x = all + place.outer * each + place.inner;
    }
    __device__ T at(long long place) const { return x[place * plan.inner]; }

    // Call f(place) for the elements of a window, or those of a lane, in their order.
    template <typename F> __device__ void each(const int *window, int lane, int lanes, F f) const {
        const pool_span a = plan.axis[0].inside(window[0]), b = plan.axis[1].inside(window[1]);
        const pool_span c = plan.axis[2].inside(window[2]);
        const int high = plan.axis[1].length, wide = plan.axis[2].length;
        if (lanes == 1) {
            for (int d = a.from; d < a.end; d += a.step)
                for (int h = b.from; h < b.end; h += b.step)
                    for (int w = c.from; w < c.end; w += c.step) f(((long long)d * high + h) * wide + w);
        } else {
            const int rows = b.count(), columns = c.count(), all = a.count() * rows * columns;
            const bool whole = columns == wide && (rows == high || a.count() == 1) && a.step * b.step * c.step == 1;
            const long long first = ((long long)a.from * high + b.from) * wide + c.from;
            for (int k = lane; whole && k < all; k += lanes) f(first + k);
            for (int k = lane; !whole && k < all; k += lanes) {
                const int row = k / columns, d = a.from + row / rows * a.step, h = b.from + row % rows * b.step;
                f(((long long)d * high + h) * wide + c.from + k % columns * c.step);
            }
        }
    }
};

// The element that stands for a window: the first of the largest, but the last NaN before all others.
template <typename T> struct pool_winner {
    T value;
    long long place;

    __device__ void meet(T other, long long where) {
        if (place < 0 || other > value || other != other) value = other, place = where;
    }
    __device__ void join(T other, long long where) {
        if (where < 0) return;
        const bool mine = value != value, others = other != other;
        const bool later = mine == others && (mine || other == value);
        if (place < 0 || (later ? (mine ? where > place : where < place) : others || (!mine && other > value)))
            value = other, place = where;
    }
};

template <typename T>
__device__ pool_winner<pg_real<T>> pool_largest(const pool_image<T> &image, const int *window, int lane, int lanes) {
    pool_winner<pg_real<T>> most = {-pg_real<T>(__int_as_float(0x7f800000)), -1};
    image.each(window, lane, lanes, [&](long long place) { most.meet(image.at(place), place); });
    if (lanes > 1)
        for (int other = 16; other; other /= 2) {
            const pg_real<T> value = __shfl_xor_sync(0xffffffffu, most.value, other);
            most.join(value, __shfl_xor_sync(0xffffffffu, most.place, other));
        }
    return most;
}

template <typename T> __device__ void pool_most(const T *x, T *y, long long *places, const pool_plan &plan) {
    const long long number = PG_ELEMENT / plan.lanes;
    if (number >= plan.windows) return;
    const int lane = threadIdx.x % plan.lanes;
    const pool_place place(number, plan, true);
    const pool_winner<pg_real<T>> most =
        pool_largest(pool_image<T>(x, place, plan, false), place.at, lane, plan.lanes);
    if (lane) return;
    y[number] = T(most.value);
    if (!places) return;
    long long nearest = 0;
    for (int k = 0; k < 3; k++) nearest = nearest * plan.axis[k].length + plan.axis[k].nearest(place.at[k]);
    places[number] = most.place < 0 ? nearest : most.place;
}

template <typename T> __global__ void max_pool(long long size, const T *x, T *y, pool_plan plan) {
    pool_most(x, y, (long long *)0, plan);
}

template <typename T>
__global__ void max_pool_places(long long size, const T *x, T *y, long long *places, pool_plan plan) {
    pool_most(x, y, places, plan);
}

// The sum, over the windows that an element of an image is in, of f(number of the window in its image, the window).
template <typename T, typename F> __device__ T pool_over_windows(const pool_place &place, const pool_plan &plan, F f) {
    const pool_axis *axis = plan.axis;
    const pool_span a = axis[0].windows(place.at[0]), b = axis[1].windows(place.at[1]), c = axis[2].windows(place.at[2]);
    T sum = 0;
    for (int d = a.from; d < a.end; d++) {
        if (!axis[0].has(d, place.at[0])) continue;
        for (int h = b.from; h < b.end; h++) {
            if (!axis[1].has(h, place.at[1])) continue;
            for (int w = c.from; w < c.end; w++) {
                if (!axis[2].has(w, place.at[2])) continue;
                const int window[3] = {d, h, w};
                sum += f(((long long)d * axis[1].size + h) * axis[2].size + w, window);
            }
        }
    }
    return sum;
}

__device__ inline long long pool_here(const pool_place &place, const pool_plan &plan) {
    return ((long long)place.at[0] * plan.axis[1].length + place.at[1]) * plan.axis[2].length + place.at[2];
}

template <typename T> __global__ void max_pool_grad(long long size, const T *x, const T *g, T *out, pool_plan plan) {
    if (PG_ELEMENT >= plan.elements) return;
    const pool_place place(PG_ELEMENT, plan, false);
    const pool_image<T> image(x, place, plan, false), grads(g, place, plan, true);
    const long long here = pool_here(place, plan);
    out[PG_ELEMENT] = T(pool_over_windows<pg_real<T>>(place, plan, [&](long long number, const int *window) {
        return pool_largest(image, window, 0, 1).place == here ? pg_real<T>(grads.at(number)) : pg_real<T>(0);
    }));
}

template <typename T>
__global__ void max_pool_grad_by_places(long long size, const T *g, const long long *places, T *out, pool_plan plan) {
    if (PG_ELEMENT >= plan.elements) return;
    const pool_place place(PG_ELEMENT, plan, false);
    const pool_image<T> grads(g, place, plan, true);
    const pool_image<long long> winners(places, place, plan, true);
    const long long here = pool_here(place, plan);
    out[PG_ELEMENT] = T(pool_over_windows<pg_real<T>>(place, plan, [&](long long number, const int *) {
        return winners.at(number) == here ? pg_real<T>(grads.at(number)) : pg_real<T>(0);
    }));
}

template <typename T> __device__ T pool_divided(T sum, const int *window, const pool_plan &plan) {
    if (plan.divisor) return sum / T(plan.divisor);
    T count = 1;
    for (int k = 0; k < 3; k++) count *= plan.axis[k].counted(window[k], plan.padding_counts);
    return sum / count;
}

template <typename T> __global__ void avg_pool(long long size, const T *x, T *y, pool_plan plan) {
    const long long number = PG_ELEMENT / plan.lanes;
    if (number >= plan.windows) return;
    const int lane = threadIdx.x % plan.lanes;
    const pool_place place(number, plan, true);
    const pool_image<T> image(x, place, plan, false);
    pg_real<T> sum = 0;
    image.each(place.at, lane, plan.lanes, [&](long long where) { sum += pg_real<T>(image.at(where)); });
    if (plan.lanes > 1)
        for (int other = 16; other; other /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
    if (lane == 0) y[number] = T(pool_divided(sum, place.at, plan));
}

template <typename T> __global__ void avg_unpool(long long size, const T *g, T *out, pool_plan plan) {
    if (PG_ELEMENT >= plan.elements) return;
    const pool_place place(PG_ELEMENT, plan, false);
    const pool_image<T> grads(g, place, plan, true);
    out[PG_ELEMENT] = T(pool_over_windows<pg_real<T>>(place, plan, [&](long long number, const int *window) {
        return pool_divided(pg_real<T>(grads.at(number)), window, plan);
    }));
}
