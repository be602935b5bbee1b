"""The report, the catalogue, and its pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sample
from rolltape import check
from rolltape.check.findings import Finding, Findings, Report, Where, ranges_text
from rolltape.check.pages import pages
from rolltape.errors import DatasetNotFoundError, UsageError

ROOT = Path(__file__).parents[2]


def test_every_id_is_used_and_explained() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src/rolltape/check").glob("*.py"))
    for name, one in check.catalogue().items():
        group, rest = name.split(".")
        made = f'f"{group}.{{' in source and f'"{rest}"' in source  # put together from its two parts
        assert f'"{name}"' in source or made, f"{name} is never found"
        assert one.severity in ("error", "warning", "note")
        assert one.title
        assert not one.title.endswith(".")
        assert one.why.endswith(".")
        assert one.repair.endswith(".")


def test_the_docs_have_a_page_for_each_finding() -> None:
    folder = ROOT / "docs/findings"
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    assert found == pages(), "run `make docs`"


def test_the_report_as_json_and_text(tmp_path: Path) -> None:
    sample.f1(tmp_path / "set")
    sample.edit_info(tmp_path / "set", lambda info: info.update(total_frames=17))
    report = check.run(tmp_path / "set")
    assert not report.ok
    content = json.loads(json.dumps(report.to_json()))
    assert (content["ok"], content["errors"], content["episodes"], content["frames"]) == (False, 1, 3, 16)
    first = content["findings"][0]
    assert first["id"] == "info.total_frames"
    assert first["severity"] == "error"
    assert first["fixable"] is True
    assert set(first["where"]) == {"file", "episode", "episodes", "episode_count", "frames", "camera", "feature"}
    text = report.text()
    assert "error info.total_frames: total_frames is 17, but there are 16 frames in all episodes." in text
    assert "  where: meta/info.json" in text
    assert "  expected: 16" in text
    assert "1 error, no warnings" in text


def test_select_and_ignore(tmp_path: Path) -> None:
    sample.f1(tmp_path / "set", task_rows=[1, 0])
    sample.edit_info(tmp_path / "set", lambda info: info.update(total_frames=17))
    assert check.run(tmp_path / "set", select="info").ids == ("info.total_frames",)
    assert check.run(tmp_path / "set", select="*.order").ids == ("tasks.order",)
    assert check.run(tmp_path / "set", select=["info", "tasks.order"], ignore=["info.total_frames"]).ids == (
        "tasks.order",
    )
    with pytest.raises(UsageError, match=r"video\.short"):
        check.run(tmp_path / "set", select="video.shorter")


def test_places_without_a_dataset(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError, match="no such folder"):
        check.run(tmp_path / "nowhere")
    with pytest.raises(DatasetNotFoundError, match="no dataset"):
        check.run(tmp_path)


def test_a_repo_id_is_looked_for_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample.f1(tmp_path / "me/set")
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path))
    assert check.run("me/set").episodes == 3


def test_many_findings_of_one_kind_are_counted_and_the_first_are_kept() -> None:
    findings, other = Findings(), Findings()
    for k in range(150):
        (findings if k < 90 else other).add("video.short", "It is short.", file=f"videos/{k:03d}.mp4", episodes=[k])
    findings.extend(other)
    report = Report.gather("set", findings)
    assert report.counts == {"video.short": 150}
    assert len(report.findings) == 100
    assert report.total("error") == 150
    assert "145 more like this" in report.text()


def test_places_read_well() -> None:
    assert str(Where("a.mp4", (1, 2, 3), (4, 6), "front")) == "a.mp4, episodes 1-3, frames 4 to 5, camera front"
    assert str(Where(None, (1,), (4, 5))) == "episode 1, frame 4"
    assert ranges_text(range(0, 40, 2)).endswith("12 more runs")
    assert Finding("video.short", "x").severity == "error"
