"""Operations and tiles of a loop by variables of the source."""

from __future__ import annotations

from tawa.plan.cost.labels import label_of, tile_label
from tests.cases.programs import staged
from tests.plan.test_scheduler import graph_of


def test_a_tile_has_the_name_of_its_own_variable_where_the_statement_is_the_conversion() -> None:
    graph = graph_of(staged.attention())
    named = {label_of(graph, at): tile_label(graph, at) for at, op in enumerate(graph.nodes) if op.results}
    assert named["p = exp2"] == "p = exp2" and named["next_operand = convert_layout"] == "next_operand = convert_layout"
