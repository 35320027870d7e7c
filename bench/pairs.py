"""pairs.py: what measuring in pairs needs: which pairs count, what a process tells, the interval
over processes, when to stop.

A pair is a turn of each of two ways, one after the other, in one process. Its figure is the
logarithm of the ratio of their times. What disturbs a turn comes and goes within milliseconds (who
else is on the processor, in its caches, on its memory): so pairs are short and many, and a
process's figure is their mean without the outermost tenths. What stays as long as a process does
(where it lies in memory) more pairs do not average away: so the interval is over processes.
"""
import functools
import math
import statistics

CONFIDENCE = 0.95
# Of fewer an interval says little, and one of two or three may be narrow by chance.
PROCESSES_LEAST = 6
# A pair counts where a clock was at most so many times slower for one turn than for the other.
STEADY = 1.05
TRIMMED = 0.1  # of a process's pairs, at each end


def steady(one, other):
    """Whether two turns had the same clocks: by name, the time of work that is fixed."""
    return all(max(one[name], other[name]) <= STEADY * min(one[name], other[name]) for name in one)


def trimmed(values):
    """Their mean without the outermost; of a single one, that."""
    ordered = sorted(values)
    cut = int(TRIMMED * len(ordered))
    return statistics.fmean(ordered[cut:len(ordered) - cut])


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
    """Percent by which one way costs more than the other, and half the interval's width; of the
    logarithms of processes."""
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return 100 * math.expm1(mean), math.inf
    error = quantile(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return 100 * math.expm1(mean), 100 * math.exp(mean) * error


def done(logs, within):
    """Whether the ways' lists of logarithms are each known to `within` percent."""
    return all(len(l) >= PROCESSES_LEAST and overhead(l)[1] <= within for l in logs)
