"""Ping-pong: consumer groups alternate on the tensor cores, with a ring of empty payload as the token.

                                          create token0, token1: D = 1, no payload;  put token0[0]
    group consumer0 { for k {             group consumer0 { for k, i {
      s = dot(q, x) {isAsync}               get token0[i]; s = dot(q, x) {isAsync}
      o = dot(p, y) {isAsync}               o = dot(p, y) {isAsync}; consumed token0[i]; put token1[i]; i' = i + 1
      wait; softmax; wait } }       →       wait; softmax; wait }; get token0[i]; consumed token0[i] }
    group consumer1 { the same }          group consumer1 { for k, i {
                                            get token1[i]; … ; consumed token1[i]; put token0[i + 1] … } }

A group has the token for a *section*: dots that are issued back to back (`tawa.plan.decide.ping_pong`). While one group
issues its dots, the other groups execute their arithmetic.

No section contains a release, so rings do not need more slots. All groups run the same program: a group that waits for
the token has already released every slot that the other group had released at the start of its section.

A group receives a token only after it has released and passed on the previous one. So token rings need no empty
barriers (`implied_empty`), and a section costs one wait and one arrival.

The last group passes the token back to the first, which consumes it at its end, so that no credit is left over.

Requires: `resolve_groups`, `pipeline_mma` and `pipeline_stages`: sections are found in the loops that these produce.
Ensures: every group takes the same number of sections, in the order of the groups.
Declines if there is one group, if no loop has dots, or if the control flow around a section may diverge between groups.
Source: J. Shah et al., "FlashAttention-3" (2024), section 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.dims.lockstep import TwinInfo
from tawa.declines import PING_PONG
from tawa.dialects.aref import AdvanceOp, ConsumedOp, CreateOp, FilledOp, FirstOp, GetOp, PutOp, RingType
from tawa.dialects.control_flow import carry_through
from tawa.dialects.warp import GroupOp, find_groups
from tawa.errors import PlanError
from tawa.ir import Block, Builder, Module, Operation, Region, Value, source_of
from tawa.ir.attributes import bool_attr, string_attr
from tawa.plan import Plan
from tawa.plan.decide.ping_pong import Section, dots_of_group
from tawa.remarks import Remark
from tawa.transforms.result import PassResult

_TOKEN = RingType(1, ())


@dataclass(frozen=True, slots=True)
class PingPong:
    """Options: the Plan, whose `ping_pong` enables the pass and whose `ping_pong_sections` list the dots of each."""

    plan: Plan

    def run(self, module: Module) -> PassResult:
        """Inserts the tokens."""
        if not self.plan.ping_pong:
            return PassResult(changed=False)
        groups = find_groups(module)
        consumers = [group for group in groups if group.role == "consumer"]
        sections = [self._sections(module, group) for group in consumers]
        obstacle = _obstacle(consumers, sections)
        if obstacle is not None:
            op, reason = obstacle
            return PassResult(False, (PING_PONG.remark(source_of(module, op or groups[0].op), why=reason),))
        tokens = _make_tokens(groups[0], len(consumers))
        for number, (group, its_sections) in enumerate(zip(consumers, sections, strict=True)):
            _Tokens(number, tokens, its_sections).write(group)
        places = len(sections[0])
        where = "at one place" if places == 1 else f"at {places} places"
        text = f"ping-pong: {len(consumers)} groups alternate on the tensor cores, {where} of their program"
        return PassResult(True, (Remark("note", text, source_of(module, sections[0][0].first)),))

    def _sections(self, module: Module, group: GroupOp) -> list[Section]:
        """The sections of a group from the Plan; raises PlanError if its dots do not fit."""
        dots = dots_of_group(group)
        found: list[Section] = []
        for first, last in self.plan.ping_pong_sections or ():
            fits = 0 <= first <= last < len(dots) and dots[first].parent is dots[last].parent
            if not fits or any(it.last is dots[first] for it in found):
                where = source_of(module, dots[min(first, len(dots) - 1)]) if dots else None
                raise PlanError(
                    f"the Plan has a section from dot {first} to dot {last} ({where}); a group has {len(dots)}, and "
                    "the dots of a section must be in one block; cure: omit `ping_pong_sections`"
                )
            found.append(Section(dots[first], dots[last]))
        return found


def _make_tokens(first_group: GroupOp, count: int) -> list[Value]:
    """Creates a token ring for each group; that of group 0 is filled before the groups start."""
    builder = Builder.before(first_group.op)
    tokens = [
        builder.create(CreateOp.NAME, (), (str(_TOKEN),), properties=_properties(name), hints=(name,)).result
        for name in (f"token{number}" for number in range(count))
    ]
    _put(builder, tokens[0], _first(builder, tokens[0]), fresh=True)
    return tokens


def _properties(name: str) -> dict[str, str]:
    return {"name": string_attr(name), "implied_empty": bool_attr(True)}


def _first(builder: Builder, token: Value) -> Value:
    return builder.create(FirstOp.NAME, (token,), (_TOKEN.index_type,), hints=("round",)).result


def _put(builder: Builder, token: Value, count: Value, *, fresh: bool = False) -> None:
    body = Block()
    body.append(Operation(FilledOp.NAME, loc=builder.loc))
    properties = {"fresh": bool_attr(True)} if fresh else {}
    builder.create(PutOp.NAME, (token, count), properties=properties, regions=[Region([body])])


# -- the same control flow in every group ------------------------------------------------------------------------------


def _obstacle(groups: list[GroupOp], sections: list[list[Section]]) -> tuple[Operation | None, str] | None:
    """Why the groups cannot alternate, and where; None if they can."""
    if len(groups) < 2:
        return None, "ping-pong needs at least two consumer groups"
    if not sections[0]:
        return None, "no loop has dots for which groups could alternate on the tensor cores"
    for group, others in zip(groups[1:], sections[1:], strict=True):
        comparison = TwinInfo()
        if not comparison.pair(groups[0].body, group.body) or len(others) != len(sections[0]):
            return None, "the programs of the groups differ, so their sections may not match"
        for section in sections[0]:
            for outer in section.first.ancestors():
                if outer is groups[0].op:
                    break
                if not comparison.decides_alike(outer):
                    return outer, "how often the dots are issued may differ from group to group"
    return None


# -- tokens ------------------------------------------------------------------------------------------------------------


class _Tokens:
    """Inserts the gets and puts of one group, and threads their running count through its control flow."""

    def __init__(self, number: int, tokens: list[Value], sections: list[Section]) -> None:
        self.mine = tokens[number]
        self.following = tokens[(number + 1) % len(tokens)]
        self.leads = number == 0
        self.wraps = number + 1 == len(tokens)
        self.starts = {section.first: section for section in sections}
        self.ends = {section.last: section for section in sections}

    def write(self, group: GroupOp) -> None:
        """Inserts all of them; the first group also consumes the token that comes back last."""
        builder = Builder.at_start(group.body, group.op.loc)
        count = self._through_block(group.body, _first(builder, self.mine))
        if self.leads:
            end = Builder.before(group.body.terminator)
            end.create(GetOp.NAME, (self.mine, count))
            end.create(ConsumedOp.NAME, (self.mine, count))

    def _through_block(self, block: Block, count: Value) -> Value:
        """Inserts those of a block. count: at its start; returns the count at its end."""
        for op in list(block.ops):
            if op in self.starts:
                Builder.before(op).create(GetOp.NAME, (self.mine, count))
            if op in self.ends:
                count = self._pass_on(op, count)
            elif any(nested in self.starts for nested in op.walk() if nested is not op):
                count = carry_through(op, count, self._through_block, "round")
        return count

    def _pass_on(self, last: Operation, count: Value) -> Value:
        """Passes the token to the next group after the last dot of a section; returns the next count."""
        builder = Builder.after(last)
        following = builder.create(AdvanceOp.NAME, (count,), (count.type,), hints=("round",)).result
        builder.create(ConsumedOp.NAME, (self.mine, count))
        _put(builder, self.following, following if self.wraps else count)  # group 0 is one token ahead
        return following
