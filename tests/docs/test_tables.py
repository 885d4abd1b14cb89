"""What the tables of the pages list is there: options of commands, fields of JSON."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

import tawa
from tawa.cli.failures import COMPILING
from tawa.cli.main import app
from tawa.plan import PlanOptions
from tawa.plan.plan import JSON_VERSION
from tawa.runtime.settings import Settings
from tests.docs.checking import tawa_commands
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "command-line.md").read_text()
SECTIONS = {
    heading: text for heading, _, text in (part.partition("\n") for part in re.split(r"^## ", PAGE, flags=re.M)[1:])
}
OPTION = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*)")
GEMM = (
    "examples/gemm.py:gemm",
    *(
        "--sig",
        "a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,256]>, c=tensordesc<fp16[128,256]>, M=i32, N=i32, K=i32",
    ),
    *("--const", "BM=128,BN=256,BK=64", "--num-warps", "8", "--json"),
)


def options_of(command: str) -> set[str]:
    return {name for parameter in tawa_commands()[command].params for name in parameter.opts if name[0] == "-"}


def section(command: str) -> str:
    (text,) = [text for heading, text in SECTIONS.items() if heading.startswith(f"`tawa {command}")]
    return text


def first_column(text: str) -> list[str]:
    """What stands in backticks in the first column of the tables of a section."""
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_the_page_has_a_section_for_every_command() -> None:
    for command in tawa_commands():
        assert section(command)


@pytest.mark.parametrize("command", ["explain", "compile", "verify", "simulate", "run", "report", "doctor"])
def test_the_page_names_the_options_that_a_command_has(command: str) -> None:
    named = {option for option in first_column(section(command)) if option.startswith("-")}
    named = {found for option in named for found in OPTION.findall(option)}
    assert named <= options_of(command), "the page names options that there are not"
    text = section(command) + SECTIONS["Naming a kernel"]
    missing = {name for name in options_of(command) if name.startswith("--") and f"{name}" not in text} - {"--help"}
    assert not missing, "the page does not name these"


@pytest.mark.parametrize("command", ["verify", "simulate", "doctor"])
def test_the_page_has_the_exit_statuses_that_a_command_names(command: str) -> None:
    (sentence,) = re.findall(r"^Exit status: .*$", section(command), re.M)
    assert sentence in " ".join(str(tawa_commands()[command].help).split())


def test_the_page_has_the_exit_statuses_of_all_others() -> None:
    rows = dict(re.findall(r"^\| (\d) \| (.*?) \|$", SECTIONS["Exit status"], re.M))
    assert rows.keys() == {"0", str(COMPILING.failed), str(COMPILING.usage)}
    assert "refused" in rows[str(COMPILING.failed)] and "wrong usage" in rows[str(COMPILING.usage)]


def test_the_tables_of_the_python_page_name_what_there_is() -> None:
    page = (ROOT / "docs" / "runtime.md").read_text()
    parts = {head: text for head, _, text in (it.partition("\n") for it in re.split(r"^##+ ", page, flags=re.M)[1:])}
    assert set(first_column(parts["Launch options"])) == {*PlanOptions.names(), "plan", "mapping"} - {
        "num_buffers_warp_spec"
    }
    assert set(first_column(parts["Settings"])) == set(Settings.from_environment({}).as_variables())
    assert set(first_column(parts["Errors"])) <= set(tawa.__all__)
    assert f"a `version`, now {JSON_VERSION}" in parts["The Plan"]


def test_the_json_of_explain_has_the_fields_that_the_page_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = json.loads(CliRunner().invoke(app, ["explain", *GEMM]).stdout)
    text = section("explain")
    listed = first_column(text[text.index("`--json` has") :])
    assert listed and set(listed) <= set(found)
    rows = {line.split("|")[1].strip(): line for line in section("explain").splitlines() if line.startswith("| `")}
    for name in ("partitions", "rings"):
        inner = re.findall(r"`(\w+)`", rows[f"`{name}`"].split("|")[2])
        assert inner and set(inner) <= set(found[name][0])


def test_the_json_of_verify_has_the_fields_that_the_page_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = json.loads(CliRunner().invoke(app, ["verify", *GEMM]).stdout)
    text = section("verify").partition("`--json` has")[2].partition("\n\n")[0]
    fields = re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", text))
    assert fields and set(fields) <= set(found)


def test_the_json_of_report_has_the_fields_that_the_page_lists() -> None:
    from tawa.runtime.history.process_report import KernelHistory, ProcessReport, Verdict

    verdict = Verdict(True, "", None, "", 1, 1, 1.0, 1.0)
    found = ProcessReport((KernelHistory("gemm", (verdict,), 1.0),), 2.0).to_dict()
    text = section("report")
    listed = re.findall(r"`(\w+)`", text[text.index("`--json` has") :])
    known = {*found, *found["kernels"][0], *found["kernels"][0]["verdicts"][0]}
    assert listed and set(listed) <= known
