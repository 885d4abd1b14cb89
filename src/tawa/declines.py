"""Every reason for which a kernel is left to stock Triton, with its cure: the one list of them.

Code that declines a kernel takes its remark from here, and the documentation has a section for each entry
(`docs/declines.md`); tests compare the two. A name in braces stands for what one kernel has there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tawa.remarks import Remark, SourceLocation

NOT_EXPECTED = "not expected to pay: "
ROWS_NOT_SPLIT = "rows are not split: "


@dataclass(frozen=True, slots=True)
class Decline:
    """One kind of reason.

    id: its name, as in the address of its section in the documentation. within: how the message begins, where several
    kinds begin alike. reason: the finding. cure: what the user can change; empty if there is nothing, or if only the
    code that declines knows it.
    """

    id: str
    reason: str
    cure: str = ""
    within: str = ""

    @property
    def section(self) -> str:
        """Its section of the documentation."""
        return f"docs/declines.md#{self.id}"

    def text(self, **values: object) -> str:
        """The finding alone."""
        return self.reason.format(**values)

    def remark(self, location: SourceLocation | None = None, cure: str = "", /, **values: object) -> Remark:
        """The remark that declines a kernel. cure: in place of the usual one."""
        return Remark("declined", self.within + self.text(**values), location, cure or self.cure.format(**values))

    def says(self, reason: str) -> bool:
        """Whether the reason of a remark is of this kind."""
        parts = re.split(r"\{\w+\}", self.within + self.reason)
        return re.fullmatch(".*".join(map(re.escape, parts)), reason, re.S) is not None


# -- the kernel -----------------------------------------------------------------------------------------------------

NO_DOT = Decline("no-dot", "no tl.dot in the kernel: there is nothing to feed by separate warps")
NOT_IN_A_LOOP = Decline(
    "dot-outside-loops", "the dot is not in a loop: there is no next tile to load meanwhile",
    "leave out atomics, prints and persistent=False: a launch then puts a loop over tiles around the kernel",
)  # fmt: skip
NO_LOAD = Decline("no-load-in-the-loop", "no operand of a dot is loaded inside a loop")
NO_TENSOR_CORE = Decline(
    "no-tensor-core", "no tensor core computes this dot: its operands are {operands}",
    'input_precision="tf32" or "tf32x3", or operands of 16 bits',
)  # fmt: skip
WRITES_WHAT_IT_READS = Decline(
    "writes-what-it-reads",
    "{op} writes through argument {argument}, which the load at {place} reads: the load may not run ahead of it",
    "write to another tensor",
)
UNKNOWN_ADDRESS = Decline(
    "unknown-address", "{op} {access} an address of unknown origin, which may alias what {other}",
    "derive each pointer from one kernel argument",
)  # fmt: skip
MAY_WAIT = Decline(
    "may-wait", "{op} may wait for what others write, and a load behind it may not run ahead of it",
    "put the wait into a kernel of its own, or give an atomic that nothing waits for sem='relaxed'",
)  # fmt: skip
DESCRIPTOR_IN_A_LOOP = Decline(
    "descriptor-in-a-loop",
    "the descriptor of the load at {place} is made in a loop: each iteration writes it again while earlier copies may "
    "still need it",
    "make the descriptor before the loop and move its offsets instead",
)
NEEDS_THE_CONSUMER = Decline(
    "needs-the-consumer", "the address or trip count of a load depends on {op}, {why}",
    "compute addresses and loop bounds from scalars",
)  # fmt: skip
PRODUCER_LAYOUT = Decline(
    "producer-layout",
    "the addresses of a load are computed in {layout}, which a producer of {warps} warps cannot take from a program of "
    "{num_warps}",
    "num_warps=4, or num_consumer_groups=2",
)
UNSTRUCTURED = Decline(
    "early-return", "the kernel returns early or jumps: its control flow is not structured",
    "put the rest of the kernel under an `if` instead of returning",
)  # fmt: skip
CALL = Decline("call", "calls {callee}, which is not inlined", "drop noinline=True from the callee")
BARRIER = Decline(
    "barrier", "{op} synchronises all warps of the kernel", "remove the barrier, or take the addresses from arguments"
)
UNKNOWN_EFFECTS = Decline("unknown-effects", "{op} has unknown effects, so no load may move across it")
ALREADY = Decline("already-specialised", "the kernel is warp-specialised already")
ODD_TILE = Decline(
    "odd-tile", "its tile has {bytes} bytes, and TMA fills slots that begin at multiples of {step}", "larger blocks"
)
IN_GLUON = Decline("gluon", "a Gluon kernel assigns work to warps explicitly; Tawa leaves it unchanged{verdict}")

# -- the launch -----------------------------------------------------------------------------------------------------

WARPS = Decline("warps", "num_warps={num_warps}: a consumer has 4 or 8 warps", "use num_warps=4 or 8")
_FEW = "num_warps={num_warps}: a consumer has at least 4 warps, and "
_FOUR = "launch with num_warps=4"
THREAD_NUMBER = Decline("thread-number", _FEW + "inline assembly reads the number of a thread", _FOUR)
NARROW_TILE = Decline("narrow-tile", _FEW + "no dot has {rows} rows, the least for a wgmma", _FOUR)
OTHER_BITS = Decline("other-bits", _FEW + "{why}", f"{_FOUR}; only_if_faster=False specialises anyway")
CLUSTERS = Decline("clusters", "num_ctas={ctas}: clusters of CTAs are not supported", "num_ctas=1")
COOPERATIVE = Decline(
    "cooperative-grid",
    "launch_cooperative_grid: all programs must be resident at once, and specialised ones may not fit",
    "a launch without it",
)
FEW_REGISTERS = Decline(
    "maxnreg", "maxnreg={limit}: a partition needs {least} registers per thread, the least for setmaxnreg",
    "maxnreg={enough} or more, or a launch without it",
)  # fmt: skip
TOO_FEW_REGISTERS = Decline(
    "too-few-registers", "{registers} registers for each thread are too few for the instructions of the kernel",
    "fewer consumer groups, fewer warps, or a smaller tile",
)  # fmt: skip
NO_SPACE = Decline("shared-memory", "{use} of shared memory{rest}")
LAUNCH_CONDITION = Decline(
    "launch-condition",
    "the stock kernel was launched: a condition on the arguments does not hold, or the launch may not pay",
    "TAWA_LOG=info logs which",
)
THIS_LAUNCH = Decline("this-launch", "{which} left to stock Triton's kernel: {why}")
STOCK_FIRST = Decline(
    "stock-first",
    "start='stock': stock Triton's kernel is the first; a specialised one is made in the background",
    "start='ready' waits for it at the first launch",
)
OVERRIDE = Decline(
    "override",
    "a level of the kernel comes from a file of the user's (ir_override, TRITON_KERNEL_OVERRIDE), which applies to "
    "stock Triton's kernel only",
)
SANITIZER = Decline("sanitizer", "instrumentation_mode={mode} rewrites the kernel", "switch the sanitizer off")
POINTER_LOADS = Decline("pointer-loads", "pointer_loads='tma': TMA cannot make a load: {why}")

# -- legal, but not expected to be faster ---------------------------------------------------------------------------

PREDICTED = Decline("predicted-slower", "{times} us predicted {rest}", within=NOT_EXPECTED)
ONE_SLOT = Decline(
    "one-slot", "its ring has one slot only, so that nothing is loaded while the consumer computes", within=NOT_EXPECTED
)
UNTIMED = Decline("untimed", "{what}, and hardly any such kernel has been timed yet", within=NOT_EXPECTED)
ACCUMULATOR = Decline(
    "accumulator",
    "the accumulator of a dot takes all registers of an SM: it spills to local memory with any compiler",
    within=NOT_EXPECTED,
)
PARTIAL_SUMS = Decline(
    "partial-sums",
    "an fp8 dot adds up partial sums (max_num_imprecise_acc), which keeps the consumer from running ahead",
    within=NOT_EXPECTED,
)
SPILLS = Decline(
    "spills", "{bytes} bytes of registers spill to local memory, {much}",
    "smaller blocks{or_warps}; only_if_faster=False specialises it with these spills", within=NOT_EXPECTED,
)  # fmt: skip
NOT_TRIED = Decline("not-tried", "{why}", within="not tried: ")

# -- a form that an option or a Plan asks for -----------------------------------------------------------------------

SPLIT_ROWS = Decline("rows-not-split", "{why}", within=ROWS_NOT_SPLIT)
SPLIT_WARPS = Decline(
    "groups-of-warps", "num_warps={num_warps} cannot be divided into {groups} groups of {size} warps",
    "use num_warps={enough}", within=ROWS_NOT_SPLIT,
)  # fmt: skip
GROUP_DEPENDENT = Decline(
    "depends-on-the-group", "the control flow of {part} depends on the group index",
    "num_consumer_groups=1 keeps the tile together",
)  # fmt: skip
NO_EXCHANGE = Decline(
    "nothing-to-exchange",
    "exchange: no dot sums over rows that consumer groups divide, 64 or more for each; and where they divide columns, "
    "there are not enough dots of which every group needs the whole results, in 16 bits",
    "leave exchange out of the Plan",
)  # fmt: skip
EXCHANGED = Decline(
    "exchanged-tile",
    "a tile that consumer groups exchange, or a part of a whole tile, is used for more than dots of 16 bits",
    "num_consumer_groups=1, or exchange=false in the Plan",
)
PING_PONG = Decline(
    "ping-pong", "consumer groups cannot alternate: {why}", "ping_pong=False lets the groups run freely"
)
PROGRAMS = Decline("programs-as-groups", "programs cannot be the groups of a CTA: {why}", "leave split='programs' out")
PERSISTENT = Decline("not-persistent", "the kernel cannot be made persistent: {why}", "persistent=False")
COUNTER = Decline("counter-of-tiles", "tiles cannot come from a counter: {why}", "tiles='strided' in the Plan")
TILE_ORDER = Decline("tile-order", "tile_order={order}: {why}")
SPLIT_K = Decline("shared-sums", "programs cannot share a sum: {why}", "split_k=1 in the Plan")
SLICES = Decline("store-slices", "a store cannot be sliced: {why}", "fewer slices for this store in the Plan")
NOT_OURS = Decline(
    "not-our-launch",
    "this compile is not for a launch by Triton, so no launcher passes the size of the grid to a kernel of this form",
    "launch the kernel itself, or leave {choice} out",
)

# -- Blackwell ------------------------------------------------------------------------------------------------------

TENSOR_MEMORY = Decline("tensor-memory", "tensor memory: {why}")
TENSOR_COLUMNS = Decline(
    "tensor-columns", "the accumulators need {columns} columns of tensor memory, which has {most}", "use a smaller tile"
)

# -- the proof ------------------------------------------------------------------------------------------------------

UNPROVED = Decline(
    "unproved", "the protocol of the specialised kernel cannot be proved: {why}",
    "tl.assume states facts about an argument; enable_warp_specialization=True specialises anyway; TAWA_VERIFY=off "
    "turns the checks off",
)  # fmt: skip
REORDERED = Decline(
    "reordered", "Triton's passes reordered the specialised kernel, and it cannot be proved again: {why}",
    "TAWA_VERIFY=off turns the checks off",
)  # fmt: skip

# -- the process and what surrounds it ------------------------------------------------------------------------------

NOT_ASKED = Decline(
    "not-asked", "compiled by stock Triton; Tawa was not asked",
    "put the kernel under tawa.jit, or call tawa.install() before it is compiled",
)  # fmt: skip
STOCK_ASKED = Decline(
    "stock-asked", "stock Triton was asked for: enable_warp_specialization=False",
    "leave enable_warp_specialization out",
)  # fmt: skip
STOCK_PLAN = Decline(
    "stock-plan", "stock Triton was asked for: the Plan has form='stock'", "leave the Plan out, or give another form"
)
SWITCHED_OFF = Decline(
    "switched-off", "TAWA_ENABLE=off: stock Triton compiles every kernel", "TAWA_ENABLE=auto, or leave it out"
)
OTHER_GPU = Decline("other-gpu", "made for {gpu}")
UNTESTED = Decline("untested-triton", "{version}: stock Triton compiles every kernel")
UNKNOWN_PASSES = Decline("unknown-passes", "Triton {version} has a pass pipeline that Tawa does not know")
OTHER_HOOK = Decline("other-hook", "another stage hook has replaced Triton's ttgir stage", "remove that hook")
REFUSED_BY_TRITON = Decline("triton-refuses", "Triton itself refuses the kernel: {error}")
INTERNAL = Decline("internal-error", "internal error of Tawa, compiled by stock Triton: {error}")

DECLINES = tuple(it for it in list(vars().values()) if isinstance(it, Decline))
"""All of them, in the order of this file."""


def of_reason(reason: str) -> Decline | None:
    """The kind of a declined remark's reason: the most specific one that says so; None if none does."""
    found = [it for it in DECLINES if it.says(reason)]
    return max(found, key=lambda it: len(re.sub(r"\{\w+\}", "", it.within + it.reason)), default=None)


def section_of(reason: str) -> str:
    """Where the documentation explains a reason for declining a kernel; empty if it does not."""
    found = of_reason(reason)
    return found.section if found is not None else ""


def no_space(text: str, location: SourceLocation | None = None) -> Remark:
    """Declines a kernel that does not fit. text: says what it needs, and what there is."""
    use, _, rest = text.partition(" of shared memory")
    return NO_SPACE.remark(location, use=use, rest=rest)


def not_expected(why: str, location: SourceLocation | None, cure: str) -> Remark:
    """Declines a kernel that is legal, for one of the reasons that begin with `NOT_EXPECTED`."""
    return Remark("declined", NOT_EXPECTED + why, location, cure)
