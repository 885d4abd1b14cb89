"""What the scheduler knows of one loop: bounds, latencies, and what a schedule takes."""

from __future__ import annotations

from tawa.analysis.loops.dependences import find_dependences
from tawa.machine.nvidia import LATENCY_CYCLES
from tawa.plan.cost.labels import label_of
from tawa.plan.cost.loop_costs import Limits, LoopCosts
from tawa.plan.decide.loops import staged_loops
from tawa.transforms.pipelining.pipeline_mma import PipelineMma
from tests.cases.programs import staged
from tests.cases.programs.ttgir import ACC, op
from tests.support.passes import after


def costs_of(text: str) -> LoopCosts:
    module, _ = after(PipelineMma, text, mma_depth=0)
    return LoopCosts(find_dependences(staged_loops(module)[0]), Limits(4))


def attention() -> LoopCosts:
    return costs_of(staged.attention())


def number_of(costs: LoopCosts, label: str) -> int:
    (found,) = [number for number in range(costs.count) if label_of(costs.graph, number) == label]
    return found


def flat(costs: LoopCosts) -> tuple[list[int], list[int]]:
    """All in one stage, in the order of the body."""
    return [0] * costs.count, list(range(costs.count))


def test_the_dots_bound_an_iteration_and_so_does_the_circle_of_the_accumulator() -> None:
    costs = attention()
    bounds = {it.what.split()[0]: it for it in costs.bounds()}
    assert bounds["tensor"].cycles == sum(costs.costs[dot].tensor_cycles for dot in costs.dots) > 0
    assert "next = warp_group_dot" in bounds["recurrence"].what
    assert max(it.cycles for it in costs.bounds()) <= costs.waiting_cycles()


def test_a_result_of_a_dot_is_there_a_latency_later_but_not_for_a_dot_that_adds_to_it() -> None:
    costs = attention()
    dot = number_of(costs, "s = warp_group_dot")
    cost = costs.costs[dot]
    (value,) = [edge for edge in costs.behind[dot] if label_of(costs.graph, edge.target) == "t = mulf"]
    assert costs.latency(value) == cost.stream_cycles + cost.tensor_cycles + LATENCY_CYCLES
    work = number_of(costs, "t = mulf")
    assert {costs.latency(edge) for edge in costs.behind[work]} == {costs.costs[work].stream_cycles}


def test_a_later_stage_carries_the_tiles_that_it_reads() -> None:
    costs = attention()
    stages, _ = flat(costs)
    before = {it.label for it in costs.carried(stages)}
    stages[number_of(costs, "next = warp_group_dot")] = 1
    after_move = {it.label: it for it in costs.carried(stages)}
    assert set(after_move) - before >= {"next_operand = convert_layout", "scaled = mulf"}
    assert after_move["next_operand = convert_layout"].type == "64x64xf16"


def test_carried_tiles_take_registers() -> None:
    costs = attention()
    stages, order = flat(costs)
    at_once = max(costs.live_registers(stages, order))
    assert at_once >= 2 * 32  # the sums and the scores, 64 x 64 numbers of 128 threads each
    stages[number_of(costs, "next = warp_group_dot")] = 1
    assert max(costs.live_registers(stages, order)) > at_once


def test_a_carried_tile_of_bytes_takes_as_many_registers_as_one_of_fp32_and_is_repacked() -> None:
    costs = costs_of(staged.of_bytes(staged.attention()))
    stages, order = flat(costs)
    assert costs.costs_under(stages) == costs.costs
    operand, dot = (number_of(costs, f"next{it}") for it in ("_operand = convert_layout", " = warp_group_dot"))
    stages[dot] = 1
    repacked = costs.costs_under(stages)
    assert [number for number in range(costs.count) if repacked[number] != costs.costs[number]] == [operand]
    assert repacked[operand].stream_cycles - costs.costs[operand].stream_cycles == costs.repacking[operand] > 0
    source = number_of(costs, "p = exp2")
    late = [
        1 if number in (operand, number_of(costs, "next_narrow = truncf")) else at for number, at in enumerate(stages)
    ]
    assert costs.weights[operand] == costs.weights[source]
    assert costs.reach(operand, stages) == costs.reach(source, late) == 1 and costs.costs_under(late) == costs.costs
    assert max(costs.live_registers(stages, order)) >= 3 * 32  # the sums, the scores, and the bytes


def test_a_slot_that_is_held_longer_needs_a_deeper_ring() -> None:
    costs = attention()
    stages, order = flat(costs)
    assert dict(costs.ring_depths(stages, order)) == {"ring0": 1, "ring1": 1}
    assert costs.rings_suffice(stages, order)
    late = [number for number in range(costs.count) if label_of(costs.graph, number) == "consumed"]
    for distance in (1, 2, 3):
        for number in late:
            stages[number] = distance
        assert set(dict(costs.ring_depths(stages, order)).values()) == {1 + distance}
        assert costs.rings_suffice(stages, order) is (1 + distance <= 2)  # D of `after`


def test_a_tile_under_other_names_takes_the_registers_of_one() -> None:
    parts = (
        "#ttg.linear<{register = [[0, 0, 1], [8, 0, 0], [0, 1, 0], [0, 2, 0], [0, 4, 0]], lane = [[0, 0, 2], "
        "[0, 0, 4], [1, 0, 0], [2, 0, 0], [4, 0, 0]], warp = [[16, 0, 0], [32, 0, 0]], block = []}>"
    )
    shaped, power = f"tensor<64x8x8xf32, {parts}>", '"math.exp2"(%t)'
    there = op("tt.reshape", "%t", ACC, "%apart", shaped)
    back = op("tt.reshape", "%apart", shaped, "%again", ACC)
    text = staged.attention()
    place = text.rindex("\n", 0, text.index(power))
    renamed = costs_of(f"{text[:place]}\n{there}\n{back}{text[place:]}".replace(power, '"math.exp2"(%again)'))
    plain = attention()
    assert renamed.count == plain.count + 2
    assert max(renamed.live_registers(*flat(renamed))) == max(plain.live_registers(*flat(plain)))
    (tile,) = [number for number in range(renamed.count) if label_of(renamed.graph, number) == "t = mulf"]
    stages, _ = flat(renamed)
    read = {label_of(renamed.graph, edge.target) for edge in renamed.lasting_uses(tile, stages)}
    assert read == {"apart = reshape", "again = reshape", "p = exp2"}
