"""The thresholds of the search: what is tried, what counts as better, and what is taken, each with its source.

Only the search (`tawa.plan.search`) compares with these numbers. Those of the planner are in `tawa.plan.defaults`.
"""

from __future__ import annotations

# -- predictions -------------------------------------------------------------------------------------------------------

DOUBT = 0.2
"""Standard deviations of the model's error by which a Plan must be predicted to be faster (docs/choosing.md)."""
CLEAR = 1.03
"""The factor by which a form must be predicted to be faster than one that is compiled already, another number of groups
than the usual one, and a tile of an operator than those before it in its table."""
CLEAR_COUNTER = 1.01
"""The same for a form that only takes its tiles from a counter: its iterations are the same, so the model only has to
know how the tiles are spread over the SMs. In another order, other tiles are in L2 together, which it does not know."""
CLEAR_GROUPS = 1.1
"""The same for a form with another number of groups: for dots that do not depend on each other, one group and two are
equally fast (bench/results/regret.json: within 2 % for tiles of 128 x 256), which the model does not see."""
CLEAR_SPLIT = 1.15
"""The same for a form in which programs share tiles, whose prediction no measurement has confirmed."""
HOPELESS = 1.6
"""Launches try no form that is predicted to take this many times as long as stock Triton's kernel: nine of ten
predictions are nearer to what was measured (bench/results/regret.json)."""
CLOSE = 1.25
"""Nor one that is predicted to take this many times as long as another form."""

# -- spills ------------------------------------------------------------------------------------------------------------

HARMLESS_BYTES = 64
"""Bytes of spill stores and loads that are harmless: a few registers spilled once, outside the loops; an estimate."""
HEAVY_SPILL_BYTES = 1024
"""Bytes of spill stores and loads that slow any kernel down: some are inside of loops; an estimate."""
STEP_BYTES = 256
"""Bytes of spill stores and loads that disappear with the operand that a consumer keeps in 32 registers."""
FREED_BYTES = 512
"""Bytes of spill stores and loads that disappear with prefetched rows, at most: 64 to 588 in dK and dV of attention."""
SPARE_REGISTERS = 40
"""A consumer with fewer registers left than this spills (an estimate): with 32 left all did, with 44 none did."""
FEWER_REGISTERS = 16
"""A Plan needs clearly fewer registers if so many fewer are live: half of the smallest tile of an accumulator."""

# -- how much is compiled and measured ---------------------------------------------------------------------------------

MOST_RUNS = 2
"""Plans of one kernel that go through the back end, without a budget of time."""
MOST_FORMS = 2
"""Forms beside the first that are compiled for the launches of one kernel."""
MOST_TRIED = 3
"""Forms that the launches of one shape class try."""
MOST_TWINS = 3
"""Configurations of a tuner that get a specialised kernel: with the fastest one."""
CLOSE_TUNED = 1.25
"""Those that take at most this many times as long as the fastest: few kernels gain more (bench/results/regret.json)."""
CLEAR_TUNED = 1.02
"""The factor by which a tuner must measure a specialised kernel to be faster: its times differ by 1 % (an estimate)."""
MOST_MEASURED = 10
"""Plans of one kernel that are measured at most: stock Triton's, that of automatic mode, and eight of the model."""

# -- times that were measured alone (`tawa.plan.search.measured`) ------------------------------------------------------

HOPELESS_ALONE = 2.0
"""A Plan that takes this many times as long as the best one is not timed further; an estimate."""
LEAST_MEASURED = 2
"""Plans that are measured whatever the budget is: stock Triton's, and one other."""
LEAST_ROUNDS = 3
"""Bursts of each Plan, whatever the budget is: the fewest that have a median."""
MOST_ROUNDS = 9
BURST_MS = 2.0
"""Long enough for a clock that counts microseconds, short enough that all Plans see the same temperature."""
MOST_LAUNCHES = 100
"""Launches of a burst."""

# -- times of real launches (`tawa.plan.search.comparison`; tests/plan/search/test_comparison.py plays the rule) -------

FIRST_LOOK = 3
"""Times after which a challenger that is clearly slower has lost."""
LOST = 1.2
"""How many times as slow each of these is then."""
LOOKS = (6, 12, 24, 48)
"""Times after which two kernels are compared."""
SURE_ERRORS = 4.0
"""Standard errors by which medians must differ at each look but the last."""
SURE_RANKS = 2.7
"""The deviate of the rank-sum test, likewise: six times that are all below six others have 2.88."""
LAST = 2.0
"""Both of them at the last look."""
SAME = 1.01
"""The factor within which two kernels are equally fast."""
LEAST_ERROR = 0.001
"""The least standard error that is assumed: clocks and caches change between launches."""
