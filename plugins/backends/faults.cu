// Values that are wrong are told by the number of the check, and one of them; see _faults.py.

template <typename T> __global__ void outside(long long size, const T *index, long long *fault, double low, double high,
                                              double number) {
    const long long i = PG_ELEMENT;
    if (i >= size || (index[i] >= (long long)low && index[i] < (long long)high)) return;
    fault[1] = index[i], fault[0] = (long long)number;
}

template <typename T> __global__ void wrong(long long size, const T *wrong, long long *fault, double number) {
    const long long i = PG_ELEMENT;
    if (i >= size || !wrong[i]) return;
    fault[1] = i, fault[0] = (long long)number;
}
