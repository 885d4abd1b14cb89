from __future__ import annotations

import tawa as package


def test_env_shows_versions_and_settings(tawa, monkeypatch):
    monkeypatch.setenv("TAWA_MMA_DEPTH", "2")
    result = tawa("env")
    assert result.exit_code == 0
    assert package.__version__ in result.stdout
    assert "tested: 3.6 to 3.9" in result.stdout
    assert any(line.split() == ["TAWA_MMA_DEPTH", "2"] for line in result.stdout.splitlines())


def test_env_json_has_versions_gpus_and_settings(tawa_json):
    found = tawa_json("env")
    assert found["tawa"] == package.__version__
    assert found["packages"]["triton"]
    assert found["settings"]["TAWA_ENABLE"] == "auto"
    assert isinstance(found["gpus"], list)


def test_a_bad_setting_is_status_2(tawa, monkeypatch):
    monkeypatch.setenv("TAWA_LOG", "loud")
    result = tawa("env")
    assert result.exit_code == 2
    assert "TAWA_LOG='loud'" in result.stderr
