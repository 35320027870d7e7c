"""pairs.py: what measuring in pairs needs: whose turn it is, which turns count, the interval of a
ratio, when to stop.

A pair is one process of each of two ways, which take turns: a block of turns is each way once and
then once more in reverse, so that a clock that drifts evenly is as slow for one as for the other.
The figure of a pair is the logarithm of the ratio of its sums, and the pairs are what the interval
is over: turns of one pair have much in common (where the processes lie in memory, what the
collector holds), which more turns do not average away.
"""
import functools
import math
import statistics

CONFIDENCE = 0.95
PAIRS_LEAST = 6  # of fewer an interval says little, and one of two or three may be narrow by chance
# A block counts where a clock was at most so many times slower for one way than for the other.
STEADY = 1.05


def block(ways, pair):
    """Who takes the turns of a block: each pair begins with another way."""
    first = pair % len(ways)
    turned = ways[first:] + ways[:first]
    return turned + turned[::-1]


def steady(one, other):
    """Whether two ways had the same clocks in a block: by name, the time of work that is fixed."""
    return all(max(one[name], other[name]) <= STEADY * min(one[name], other[name]) for name in one)


@functools.lru_cache
def quantile(freedom):
    """How many standard errors of Student's distribution are to either side of the mean."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2))
    scale /= math.sqrt(freedom * math.pi)

    # By Simpson's rule, over the angle: with little freedom the density falls slowly.
    def tail_from(t):
        n, start = 2000, math.atan(t / math.sqrt(freedom))
        step = (math.pi / 2 - start) / n
        at = [math.cos(start + i * step) ** (freedom - 1) for i in range(n + 1)]
        weighed = at[0] + at[-1] + 4 * sum(at[1::2]) + 2 * sum(at[2:-1:2])
        return scale * math.sqrt(freedom) * step / 3 * weighed

    low, high = 0.0, 1000.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if tail_from(middle) > (1 - CONFIDENCE) / 2 else (low, middle)
    return low


def overhead(logs):
    """Percent by which one way costs more than the other, and half the interval's width."""
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return 100 * math.expm1(mean), math.inf
    error = quantile(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return 100 * math.expm1(mean), 100 * math.exp(mean) * error


def done(logs, within):
    """Whether the ways' lists of logarithms are each known to `within` percent."""
    return all(len(l) >= PAIRS_LEAST and overhead(l)[1] <= within for l in logs)
