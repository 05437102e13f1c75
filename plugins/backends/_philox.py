"""Random numbers on CUDA devices: the counter-based generator Philox 4x32-10, whose whole state is two numbers.

Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011). Element i of a draw has the counter `offset + i`, and
what one element needs more of counts in the counter's upper half, so that a draw does not depend on how many threads
make it. Then the offset moves on. Gamma: Marsaglia and Tsang (2000); Poisson and binomial: Hörmann's transformed
rejection (1993).
"""

from __future__ import annotations

import numpy

from plugrad.extend import broadcast_shapes

WORDS = r"""
struct Philox {
    unsigned key[2], counter[4], words[4];
    int left;

    __device__ Philox(unsigned long long seed, unsigned long long place) : left(0) {
        key[0] = (unsigned)seed, key[1] = (unsigned)(seed >> 32);
        counter[0] = (unsigned)place, counter[1] = (unsigned)(place >> 32), counter[2] = counter[3] = 0;
    }
    __device__ unsigned word() {
        if (left == 0) mix();
        return words[--left];
    }
    __device__ void mix() {
        unsigned a = counter[0], b = counter[1], c = counter[2], d = counter[3], k = key[0], l = key[1];
        for (int round = 0; round < 10; ++round) {
            unsigned long long p = 0xD2511F53ull * a, q = 0xCD9E8D57ull * c;
            a = (unsigned)(q >> 32) ^ b ^ k, c = (unsigned)(p >> 32) ^ d ^ l, b = (unsigned)q, d = (unsigned)p;
            k += 0x9E3779B9u, l += 0xBB67AE85u;
        }
        words[3] = a, words[2] = b, words[1] = c, words[0] = d;
        left = 4, ++counter[2];
    }
    __device__ unsigned long long two() {
        unsigned long long high = word();
        return high << 32 | word();
    }
    __device__ float single() { return (word() >> 8) * 5.9604644775390625e-8f; }
    __device__ double uniform() { return (two() >> 11) * 1.1102230246251565e-16; }
    __device__ double open() { return ((two() >> 12) + 0.5) * 2.220446049250313e-16; }
    __device__ double normal() {
        double radius = sqrt(-2 * log(open()));
        return radius * cos(6.283185307179586 * uniform());
    }
    __device__ double gamma(double alpha) {
        if (alpha < 1) {
            double share = pow(open(), 1 / alpha);
            return gamma(alpha + 1) * share;
        }
        double d = alpha - 1.0 / 3, c = 1 / sqrt(9 * d);
        for (;;) {
            double x = normal(), v = 1 + c * x;
            v = v * v * v;
            if (v > 0 && log(open()) < 0.5 * x * x + d - d * v + d * log(v)) return d * v;
        }
    }
    __device__ double poisson(double rate) {
        if (rate < 10) {
            double end = exp(-rate), product = uniform(), count = 0;
            for (; product > end; ++count) product *= uniform();
            return count;
        }
        double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b, scale = 1.1239 + 1.1328 / (b - 3.4);
        for (;;) {
            double u = uniform() - 0.5, v = open(), near = 0.5 - fabs(u);
            double k = floor((2 * a / near + b) * u + rate + 0.43);
            if (near >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return k;
            if (k < 0 || (near < 0.013 && v > near)) continue;
            if (log(v * scale / (a / (near * near) + b)) <= k * log(rate) - rate - lgamma(k + 1)) return k;
        }
    }
    __device__ double binomial(double n, double p) {
        if (p > 0.5) return n - binomial(n, 1 - p);
        if (n * p < 10) {
            double count = 0, trials = 0, slope = log1p(-p);
            if (p <= 0) return 0;
            for (;; ++count) if ((trials += ceil(log(open()) / slope)) > n) return count;
        }
        double spread = sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p;
        double alpha = (2.83 + 5.1 / b) * spread, m = floor((n + 1) * p), odds = log(p / (1 - p));
        for (;;) {
            double u = uniform() - 0.5, v = open(), near = 0.5 - fabs(u);
            double k = floor((2 * a / near + b) * u + n * p + 0.5);
            if (k < 0 || k > n) continue;
            if (near >= 0.07 && v <= 0.92 - 4.2 / b) return k;
            double least = log(v * alpha / (a / (near * near) + b));
            double right = lgamma(m + 1) + lgamma(n - m + 1) - lgamma(k + 1) - lgamma(n - k + 1) + (k - m) * odds;
            if (least <= right) return k;
        }
    }
};
"""

EXPRESSIONS = {  # what one element is, and the parameters of the draw
    "random_float32": ("float32 y", "", "source.single()"),
    "random_float64": ("float64 y", "", "source.uniform()"),
    "normal_float32": ("float32 y", "", "(float)source.normal()"),
    "normal_float64": ("float64 y", "", "source.normal()"),
    "coins_float32": ("float32 y", "float64 share, float64 scale", "source.uniform() < share ? (float)scale : 0"),
    "coins_float64": ("float64 y", "float64 share, float64 scale", "source.uniform() < share ? scale : 0"),
    "integers": ("int64 y", "int64 low, uint64 span", "low + (long long)(span ? source.two() % span : source.two())"),
    "gamma": ("float64 y", "float64 alpha", "source.gamma(alpha)"),
    "poisson": ("int64 y", "float64 rate", "(long long)source.poisson(rate)"),
    "binomial": ("int64 y", "int64 n, float64 p", "(long long)source.binomial((double)n, p)"),
}
# Where a kernel has seed and offset from: its arguments or, in a graph, memory that is written before each launch.
SOURCES = ("uint64 seed", "seed", "offset", ""), ("raw uint64 state", "state[0]", "state[1] + offset", "_of_graph")
TELL = r"""
extern "C" __global__ void philox_tell(unsigned long long *state, unsigned long long seed, unsigned long long offset) {
    state[0] = seed, state[1] = offset;
}
"""
_told: dict = {}  # that kernel, by device
STATE = numpy.dtype([("seed", "<u8"), ("offset", "<u8")])


class Source:
    """The draws that ops make, by the names of NumPy's generator."""

    def __init__(self, cupy, captures, seed, offset=0):
        self.cupy, self.captures, self.seed, self.offset = cupy, captures, seed % 2**64, offset
        self.made_in = None  # the capture during which another one was copied

    def _draw(self, name, shape, *parameters):
        result, given, expression = EXPRESSIONS[name]
        capture = self.captures.capture and self.captures.here()
        if capture and self.made_in is capture:
            self.captures.refuse("a draw in a block of fork_rng(), or again in a checkpoint", "draw before, or outside")
        source, key, place, suffix = SOURCES[bool(capture)]
        kernel = self.cupy.ElementwiseKernel(
            f"{source}, uint64 offset" + (given and f", {given}"), result,
            f"Philox source({key}, {place} + i); y = {expression}", f"philox_{name}{suffix}", preamble=WORDS,
        )  # fmt: skip
        out = self.cupy.empty(shape, result.split()[0])
        if out.size and capture:
            state, drawn = capture.draws.get(self) or (self.captures.lasting(2, "uint64"), 0)
            kernel(state, drawn, *parameters, out)
            capture.draws[self] = state, drawn + out.size
        elif out.size:
            kernel(self.seed, self.offset, *parameters, out)
            self.offset = (self.offset + out.size) % 2**64
        return out

    def replayed(self, state, count) -> None:
        """Have a graph that draws `count` numbers begin with the next one: tell it where it looks for that."""
        device = state.device.id
        kernel = _told.get(device) or _told.setdefault(device, self.cupy.RawKernel(TELL, "philox_tell"))
        kernel((1,), (1,), (state, numpy.uint64(self.seed), numpy.uint64(self.offset)))
        self.offset = (self.offset + count) % 2**64

    def random(self, size=(), dtype="float64"):
        """Return numbers in [0, 1)."""
        return self._draw(f"random_{numpy.dtype(dtype).name}", size)

    def coins(self, shape, share, scale, dtype):
        """Return `scale` where `random(shape)` is less than `share`, else 0."""
        return self._draw(f"coins_{numpy.dtype(dtype).name}", shape, share, scale)

    def standard_normal(self, size=(), dtype="float64"):
        """Return numbers of the standard normal distribution."""
        return self._draw(f"normal_{numpy.dtype(dtype).name}", size)

    def integers(self, low, high, size=(), dtype="int64"):
        """Return integers in [low, high), which any 64 bits hold."""
        drawn = self._draw("integers", size, (low + 2**63) % 2**64 - 2**63, (high - low) % 2**64)
        return drawn.astype(dtype, copy=False)

    def standard_gamma(self, shape):
        """Return numbers of gamma distributions of scale 1, one for each shape parameter."""
        return self._draw("gamma", shape.shape, shape)

    def poisson(self, lam):
        """Return numbers of Poisson distributions, one for each rate."""
        return self._draw("poisson", lam.shape, lam)

    def binomial(self, n, p):
        """Return how many of `n` trials succeed with probability `p`."""
        return self._draw("binomial", broadcast_shapes(n.shape, p.shape), n, p)

    def clone(self):
        """Return a source in the same state, which does not draw in the capture that is under way."""
        source = Source(self.cupy, self.captures, self.seed, self.offset)
        source.made_in = self.captures.capture
        return source

    def to_bytes(self, seed) -> numpy.ndarray:
        """Return the state as bytes: seed and offset, as PyTorch's generators of CUDA have them."""
        return numpy.array([(self.seed, self.offset)], STATE).view("uint8")

    def from_bytes(self, state):
        """Return a source in that state, and its seed; ValueError for what is none."""
        self.captures.refuse("setting a generator's state", "each launch goes on where the generator is then")
        if state.size != STATE.itemsize:
            raise ValueError(f"a CUDA generator's state has {STATE.itemsize} bytes, not {state.size}")
        seed, offset = numpy.ascontiguousarray(state).view(STATE)[0].tolist()
        return Source(self.cupy, self.captures, seed, offset), seed
