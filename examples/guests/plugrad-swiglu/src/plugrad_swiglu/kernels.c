/* SwiGLU and its gradients, in one pass over the arrays where NumPy makes six. plugrad_native.h says what a pg_array is.

   Every function has the elements in parts that several threads may take; a part's results depend on nobody else's. */
#define PART 16384

typedef struct {
    const pg_array *a;
} call;

#define FORWARD(NAME, T, EXP)                                                                     \
    static void NAME##_part(void *context, int64_t part) {                                        \
        const pg_array *a = ((call *)context)->a;                                                 \
        const T *gate = a[0].data, *value = a[1].data;                                            \
        T *y = a[2].data;                                                                         \
        int64_t end = (part + 1) * PART < a[2].size ? (part + 1) * PART : a[2].size;              \
        for (int64_t i = part * PART; i < end; i++) y[i] = gate[i] / (1 + EXP(-gate[i])) * value[i]; \
    }

FORWARD(forward_float, float, expf)
FORWARD(forward_double, double, exp)

/* With s the logistic function of the gate: d gate = g value s (1 + gate (1 - s)), d value = g gate s. */
#define BACKWARD(NAME, T, EXP)                                                                    \
    static void NAME##_part(void *context, int64_t part) {                                        \
        const pg_array *a = ((call *)context)->a;                                                 \
        const T *g = a[0].data, *gate = a[1].data, *value = a[2].data;                            \
        T *by_gate = a[3].data, *by_value = a[4].data;                                            \
        int64_t end = (part + 1) * PART < a[0].size ? (part + 1) * PART : a[0].size;              \
        for (int64_t i = part * PART; i < end; i++) {                                             \
            T s = 1 / (1 + EXP(-gate[i]));                                                        \
            by_gate[i] = g[i] * value[i] * (s + gate[i] * s * (1 - s));                           \
            by_value[i] = g[i] * (gate[i] * s);                                                   \
        }                                                                                         \
    }

BACKWARD(backward_float, float, expf)
BACKWARD(backward_double, double, exp)

/* Whether so many arrays are all of floats of one type and of one size. */
static int alike(const pg_array *a, int count) {
    if (a[0].type != PG_FLOAT32 && a[0].type != PG_FLOAT64) return 0;
    for (int i = 1; i < count; i++)
        if (a[i].type != a[0].type || a[i].size != a[0].size) return 0;
    return 1;
}

int forward(const pg_array *a, const double *numbers) {
    if (!alike(a, 3)) return 1;
    call c = {a};
    pg_parallel((a[0].size + PART - 1) / PART, a[0].type == PG_FLOAT32 ? forward_float_part : forward_double_part, &c);
    return 0;
}

int backward(const pg_array *a, const double *numbers) {
    if (!alike(a, 5)) return 1;
    call c = {a};
    pg_parallel((a[0].size + PART - 1) / PART, a[0].type == PG_FLOAT32 ? backward_float_part : backward_double_part, &c);
    return 0;
}
