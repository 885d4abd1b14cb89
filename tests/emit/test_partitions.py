from __future__ import annotations

import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.dialects.tt import FuncOp
from tawa.errors import EmitError
from tests.emit.test_rings import fresh, written


@pytest.mark.parametrize("name", ["producer", "consumer"])
def test_a_function_does_not_have_the_name_of_a_parameter_of_the_kernel(name: str) -> None:
    """The kernel starts its partitions by the names of their functions, which a parameter of that name would hide."""
    module = fresh()
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    for argument in function.body.args:
        if argument.hint == "a_desc":
            argument.hint = name
    text = written(module) if name == "producer" else written(module, "def consumer_2(")
    assert f"({name}_2, (" in text and f"def {name}_2(" in text


def test_a_parameter_with_a_name_that_the_file_needs_is_refused() -> None:
    module = fresh()
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    function.body.args[0].hint = "mbarrier"
    with pytest.raises(EmitError, match="a parameter that is called mbarrier"):
        written(module)
