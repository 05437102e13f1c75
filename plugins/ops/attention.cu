// Attention without its matrix of weights: tiles of queries meet tiles of keys, and sums of exponentials are scaled anew
// where a larger score comes. Forward as in T. Dao et al., arXiv:2205.14135; backward weights are computed again from the
// logarithms of the sums, for queries by one kernel, and for keys and values by another, so that nobody adds up what
// others write. Memory is given by pointers in the plan: rows are contiguous, batch, heads and positions lie anyhow.

#ifndef PG_HEAD  // elements of a row, or more
#define PG_HEAD 64
#endif
#ifndef PG_TILE  // rows of a tile
#define PG_TILE 32
#endif
#define WIDE (PG_HEAD + 4)
#define ROWS (PG_TILE / 16)  // of a thread, which has as many keys, and every 16th element of a row in fours
#define FOURS (PG_HEAD / 64 > 0 ? PG_HEAD / 64 : 1)

struct attention_tensor {
    long long pointer, by_batch, by_head, by_row;
    template <typename T> __device__ T *at(int batch, int head, int row) const {
        return (T *)pointer + batch * by_batch + head * by_head + row * by_row;
    }
};

struct attention_plan {
    attention_tensor q, k, v, out, g, dq, dk, dv, mask;
    long long mask_by_key, sums, deltas;  // sums: the logarithms, single precision, as what `deltas` points to
    long long scores, gains, weights, slopes;  // of some queries by all keys; scores and gains are single precision
    int heads, group, queries, keys, width, value_width, causal, mask_kind;  // 1: booleans, 2: numbers
    int first, rows;  // of these queries
    float scale, unused;

    template <typename T> __device__ float score(float product, int batch, int head, int query, int key) const {
        if (query >= queries || key >= keys || (causal && key > query)) return -__int_as_float(0x7f800000);
        product *= scale;
        if (mask_kind == 0) return product;
        const long long place = batch * mask.by_batch + head * mask.by_head + query * mask.by_row + key * mask_by_key;
        if (mask_kind == 2) return product + float(((const T *)mask.pointer)[place]);
        return ((const bool *)mask.pointer)[place] ? product : -__int_as_float(0x7f800000);
    }
    __device__ float *sum(int batch, int head) const { return (float *)sums + ((long long)batch * heads + head) * queries; }
    __device__ float *delta(int batch, int head) const {
        return (float *)deltas + ((long long)batch * heads + head) * queries;
    }
};

// Rows [first, first + PG_TILE) of a matrix, with zeros beyond its end.
template <typename T>
__device__ void attention_load(float (*tile)[WIDE], const T *rows, long long by_row, int first, int end, int width) {
    for (int k = threadIdx.x; k < PG_TILE * PG_HEAD; k += PG_THREADS) {
        const int row = k / PG_HEAD, at = k % PG_HEAD;
        tile[row][at] = first + row < end && at < width ? float(rows[(first + row) * by_row + at]) : 0.f;
    }
}

struct alignas(16) attention_four {
    float at[4];
};

// products[i][j]: of rows ROWS * y + i of one tile and x + 16 * j of another.
__device__ inline void attention_products(const float (*a)[WIDE], const float (*b)[WIDE], float products[ROWS][ROWS]) {
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < ROWS; j++) products[i][j] = 0;
#pragma unroll 8
    for (int e = 0; e < PG_HEAD; e += 4) {
        attention_four left[ROWS], right[ROWS];
        for (int i = 0; i < ROWS; i++) left[i] = *(const attention_four *)&a[ROWS * y + i][e];
        for (int j = 0; j < ROWS; j++) right[j] = *(const attention_four *)&b[x + 16 * j][e];
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < ROWS; i++)
                for (int j = 0; j < ROWS; j++) products[i][j] += left[i].at[k] * right[j].at[k];
    }
}

// sums[i][k] += the sum over r of weights[r][i] * rows[r][k]: a thread's rows by its elements. Element 4 * (x + 16 * f) + k.
// `weights` are by (row of the sum, r), or transposed.
template <bool TURNED>
__device__ inline void attention_gather(
    const float (*weights)[PG_TILE + 4], const float (*rows)[WIDE], float sums[ROWS][FOURS * 4]
) {
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    if (4 * x >= PG_HEAD) return;
#pragma unroll 4
    for (int r = 0; r < PG_TILE; r++)
        for (int f = 0; f < FOURS; f++) {
            const attention_four row = *(const attention_four *)&rows[r][4 * (x + 16 * f)];
            for (int i = 0; i < ROWS; i++) {
                const float weight = TURNED ? weights[r][ROWS * y + i] : weights[ROWS * y + i][r];
                for (int k = 0; k < 4; k++) sums[i][4 * f + k] += weight * row.at[k];
            }
        }
}

template <typename T>
__device__ void attention_store(
    const float sums[ROWS][FOURS * 4], T *rows, long long by_row, int first, int end, int width, const float factor[ROWS]
) {
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
    for (int i = 0; i < ROWS; i++)
        for (int e = 0; e < FOURS * 4; e++) {
            const int row = first + ROWS * y + i, at = 4 * (x + 16 * (e / 4)) + e % 4;
            if (row < end && at < width) rows[row * by_row + at] = T(sums[i][e] * factor[i]);
        }
}

__device__ inline float attention_exp(float score, float sum) {
    return score == -__int_as_float(0x7f800000) ? 0.f : expf(score - sum);
}

// blockIdx.x: tile of queries; blockIdx.y: batch and head.
template <typename T> __global__ void attention(long long size, const T *any, attention_plan plan) {
    alignas(16) __shared__ float q[PG_TILE][WIDE], other[PG_TILE][WIDE], weights[PG_TILE][PG_TILE + 4];
    const int batch = blockIdx.y / plan.heads, head = blockIdx.y % plan.heads, from = head / plan.group;
    const int first = blockIdx.x * PG_TILE, x = threadIdx.x % 16, y = threadIdx.x / 16;
    const float least = -__int_as_float(0x7f800000);
    float sums[ROWS][FOURS * 4], most[ROWS], total[ROWS], factor[ROWS];
    for (int i = 0; i < ROWS; i++) {
        most[i] = least, total[i] = 0;
        for (int e = 0; e < FOURS * 4; e++) sums[i][e] = 0;
    }
    attention_load(q, plan.q.at<const T>(batch, head, 0), plan.q.by_row, first, plan.queries, plan.width);
    const int end = plan.causal && first + PG_TILE < plan.keys ? first + PG_TILE : plan.keys;
    for (int key = 0; key < end; key += PG_TILE) {
        attention_load(other, plan.k.at<const T>(batch, from, 0), plan.k.by_row, key, plan.keys, plan.width);
        __syncthreads();
        float scores[ROWS][ROWS];
        attention_products(q, other, scores);
        for (int i = 0; i < ROWS; i++) {
            float largest = most[i];
            for (int j = 0; j < ROWS; j++) {
                scores[i][j] = plan.score<T>(scores[i][j], batch, head, first + ROWS * y + i, key + x + 16 * j);
                largest = fmaxf(largest, scores[i][j]);
            }
            for (int lane = 8; lane; lane /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, lane));
            factor[i] = most[i] == largest ? 1.f : expf(most[i] - largest);
            most[i] = largest;
            float sum = 0;
            for (int j = 0; j < ROWS; j++) {
                const float weight = attention_exp(scores[i][j], largest);
                weights[ROWS * y + i][x + 16 * j] = weight, sum += weight;
            }
            for (int lane = 8; lane; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
            total[i] = total[i] * factor[i] + sum;
            for (int e = 0; e < FOURS * 4; e++) sums[i][e] *= factor[i];
        }
        __syncthreads();
        attention_load(other, plan.v.at<const T>(batch, from, 0), plan.v.by_row, key, plan.keys, plan.value_width);
        __syncthreads();
        attention_gather<false>(weights, other, sums);
        __syncthreads();
    }
    float *logarithms = plan.sum(batch, head);
    for (int i = 0; i < ROWS; i++) {
        factor[i] = total[i] == 0 ? 0.f : 1 / total[i];
        if (x == 0 && first + ROWS * y + i < plan.queries) logarithms[first + ROWS * y + i] = most[i] + logf(total[i]);
    }
    attention_store(sums, plan.out.at<T>(batch, head, 0), plan.out.by_row, first, plan.queries, plan.value_width, factor);
}

// The gradient of queries, and of each row the sum over its result times its gradient.
template <typename T> __global__ void attention_queries(long long size, const T *any, attention_plan plan) {
    alignas(16) __shared__ float q[PG_TILE][WIDE], g[PG_TILE][WIDE], k[PG_TILE][WIDE], v[PG_TILE][WIDE];
    alignas(16) __shared__ float slopes[PG_TILE][PG_TILE + 4];
    const int batch = blockIdx.y / plan.heads, head = blockIdx.y % plan.heads, from = head / plan.group;
    const int first = blockIdx.x * PG_TILE, x = threadIdx.x % 16, y = threadIdx.x / 16;
    float sums[ROWS][FOURS * 4], delta[ROWS], logarithm[ROWS], scale[ROWS];
    attention_load(q, plan.q.at<const T>(batch, head, 0), plan.q.by_row, first, plan.queries, plan.width);
    attention_load(g, plan.g.at<const T>(batch, head, 0), plan.g.by_row, first, plan.queries, plan.value_width);
    attention_load(v, plan.out.at<const T>(batch, head, 0), plan.out.by_row, first, plan.queries, plan.value_width);
    __syncthreads();
    for (int i = 0; i < ROWS; i++) {
        const int row = ROWS * y + i;
        delta[i] = 0, scale[i] = plan.scale;
        for (int e = x; e < PG_HEAD; e += 16) delta[i] += g[row][e] * v[row][e];
        for (int lane = 8; lane; lane /= 2) delta[i] += __shfl_xor_sync(0xffffffffu, delta[i], lane);
        logarithm[i] = first + row < plan.queries ? plan.sum(batch, head)[first + row] : 0.f;
        if (x == 0 && first + row < plan.queries) plan.delta(batch, head)[first + row] = delta[i];
        for (int e = 0; e < FOURS * 4; e++) sums[i][e] = 0;
    }
    __syncthreads();
    const int end = plan.causal && first + PG_TILE < plan.keys ? first + PG_TILE : plan.keys;
    for (int key = 0; key < end; key += PG_TILE) {
        attention_load(k, plan.k.at<const T>(batch, from, 0), plan.k.by_row, key, plan.keys, plan.width);
        attention_load(v, plan.v.at<const T>(batch, from, 0), plan.v.by_row, key, plan.keys, plan.value_width);
        __syncthreads();
        float scores[ROWS][ROWS], gains[ROWS][ROWS];
        attention_products(q, k, scores);
        attention_products(g, v, gains);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < ROWS; j++) {
                const float score = plan.score<T>(scores[i][j], batch, head, first + ROWS * y + i, key + x + 16 * j);
                slopes[ROWS * y + i][x + 16 * j] = attention_exp(score, logarithm[i]) * (gains[i][j] - delta[i]);
            }
        __syncthreads();
        attention_gather<false>(slopes, k, sums);
        __syncthreads();
    }
    attention_store(sums, plan.dq.at<T>(batch, head, 0), plan.dq.by_row, first, plan.queries, plan.width, scale);
}

// The gradients of keys and values. blockIdx.x: tile of keys; blockIdx.y: batch and head of these.
template <typename T> __global__ void attention_keys(long long size, const T *any, attention_plan plan) {
    alignas(16) __shared__ float q[PG_TILE][WIDE], g[PG_TILE][WIDE], k[PG_TILE][WIDE], v[PG_TILE][WIDE];
    alignas(16) __shared__ float slopes[PG_TILE][PG_TILE + 4], weights[PG_TILE][PG_TILE + 4];
    const int heads = plan.heads / plan.group, batch = blockIdx.y / heads, from = blockIdx.y % heads;
    const int first = blockIdx.x * PG_TILE, x = threadIdx.x % 16, y = threadIdx.x / 16;
    float of_keys[ROWS][FOURS * 4], of_values[ROWS][FOURS * 4], scale[ROWS], one[ROWS];
    for (int i = 0; i < ROWS; i++) {
        scale[i] = plan.scale, one[i] = 1;
        for (int e = 0; e < FOURS * 4; e++) of_keys[i][e] = of_values[i][e] = 0;
    }
    attention_load(k, plan.k.at<const T>(batch, from, 0), plan.k.by_row, first, plan.keys, plan.width);
    attention_load(v, plan.v.at<const T>(batch, from, 0), plan.v.by_row, first, plan.keys, plan.value_width);
    for (int head = from * plan.group; head < (from + 1) * plan.group; head++)
        for (int query = plan.causal ? first : 0; query < plan.queries; query += PG_TILE) {
            attention_load(q, plan.q.at<const T>(batch, head, 0), plan.q.by_row, query, plan.queries, plan.width);
            attention_load(g, plan.g.at<const T>(batch, head, 0), plan.g.by_row, query, plan.queries, plan.value_width);
            __syncthreads();
            float scores[ROWS][ROWS], gains[ROWS][ROWS];
            attention_products(q, k, scores);
            attention_products(g, v, gains);
            for (int i = 0; i < ROWS; i++) {
                const int row = query + ROWS * y + i;
                const float logarithm = row < plan.queries ? plan.sum(batch, head)[row] : 0.f;
                const float delta = row < plan.queries ? plan.delta(batch, head)[row] : 0.f;
                for (int j = 0; j < ROWS; j++) {
                    const float score = plan.score<T>(scores[i][j], batch, head, row, first + x + 16 * j);
                    const float weight = attention_exp(score, logarithm);
                    weights[ROWS * y + i][x + 16 * j] = weight;
                    slopes[ROWS * y + i][x + 16 * j] = weight * (gains[i][j] - delta);
                }
            }
            __syncthreads();
            attention_gather<true>(slopes, q, of_keys);
            attention_gather<true>(weights, g, of_values);
            __syncthreads();
        }
    attention_store(of_keys, plan.dk.at<T>(batch, from, 0), plan.dk.by_row, first, plan.keys, plan.width, scale);
    attention_store(of_values, plan.dv.at<T>(batch, from, 0), plan.dv.by_row, first, plan.keys, plan.value_width, one);
}

// Where matrices of weights are laid out for some queries, in products by cuBLAS: scores become weights.
// blockIdx.x: query among those; blockIdx.y: batch and head.
template <typename T> __global__ void attention_weights(long long size, const T *any, attention_plan plan) {
    const int batch = blockIdx.y / plan.heads, head = blockIdx.y % plan.heads, query = plan.first + blockIdx.x;
    const long long row = ((long long)blockIdx.y * plan.rows + blockIdx.x) * plan.keys;
    const float *scores = (const float *)plan.scores + row, least = -__int_as_float(0x7f800000);
    T *weights = (T *)plan.weights + row;
    float most = least, total = 0;
    for (int key = threadIdx.x; key < plan.keys; key += PG_THREADS)
        most = fmaxf(most, plan.score<T>(scores[key], batch, head, query, key));
    most = pg_max(most);
    for (int key = threadIdx.x; key < plan.keys; key += PG_THREADS)
        total += attention_exp(plan.score<T>(scores[key], batch, head, query, key), most);
    total = pg_sum(total);
    const float factor = total == 0 ? 0.f : 1 / total;
    for (int key = threadIdx.x; key < plan.keys; key += PG_THREADS)
        weights[key] = T(attention_exp(plan.score<T>(scores[key], batch, head, query, key), most) * factor);
    if (threadIdx.x == 0) plan.sum(batch, head)[query] = most + logf(total);
}

// The same backward: scores and the weights' gradients become weights and the scores' gradients.
template <typename T> __global__ void attention_slopes(long long size, const T *any, attention_plan plan) {
    const int batch = blockIdx.y / plan.heads, head = blockIdx.y % plan.heads, query = plan.first + blockIdx.x;
    const long long row = ((long long)blockIdx.y * plan.rows + blockIdx.x) * plan.keys;
    const float *scores = (const float *)plan.scores + row, *gains = (const float *)plan.gains + row;
    T *weights = (T *)plan.weights + row, *slopes = (T *)plan.slopes + row;
    const T *g = plan.g.at<const T>(batch, head, query), *out = plan.out.at<const T>(batch, head, query);
    float delta = 0;
    for (int at = threadIdx.x; at < plan.value_width; at += PG_THREADS) delta += float(g[at]) * float(out[at]);
    delta = pg_sum(delta);
    const float logarithm = plan.sum(batch, head)[query];
    for (int key = threadIdx.x; key < plan.keys; key += PG_THREADS) {
        const float weight = attention_exp(plan.score<T>(scores[key], batch, head, query, key), logarithm);
        const float gain = gains[key];
        weights[key] = T(weight), slopes[key] = T(weight * (gain - delta) * plan.scale);
    }
}
