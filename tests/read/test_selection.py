"""Which episodes: any order, and every mistake named before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rolltape
import sample
from rolltape import errors
from sample import ACTION, FRONT, STATE, WRIST

FIELDS: dict[str, list[Any]] = {
    "success": [True, False, None, True],
    "operator": ["ann", "bo", None, "ann"],
    "score": [0.5, 2.0, None, -1.0],
    "take": [1, 2, 3, 4],
}


@pytest.fixture(scope="module")
def fielded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fields") / "made"
    tasks = ["lift the cube", "push", "lift", "push"]
    sample.build(root, lengths=(5, 7, 4, 9), tasks=tasks, cameras={}, episode_fields=FIELDS)
    return root


@pytest.mark.parametrize("files", [[[0, 1, 2]], [[0], [1], [2]]])
@pytest.mark.parametrize("episodes", [[1], [2, 0], [0, 1, 2], (2,), np.array([1, 0]), range(1, 3)])
def test_A01_exactly_the_chosen_episodes(tmp_path: Path, files: list[list[int]], episodes: Any) -> None:
    made = sample.f1(tmp_path / "f1", data_files=files)
    chosen = [int(one) for one in episodes]
    for _ in range(2):  # the second time from whatever may have been cached
        dataset = rolltape.open(made.root, episodes=episodes)
        lengths = [made.lengths[one] for one in chosen]
        assert len(dataset) == dataset.num_frames == sum(lengths)
        assert dataset.num_episodes == len(chosen)
        assert dataset.episodes == chosen
        seen = dataset.batch(range(len(dataset)))
        assert seen["episode_index"].tolist() == np.repeat(chosen, lengths).tolist()
        indices = [made.starts[one] + frame for one in chosen for frame in range(made.lengths[one])]
        assert seen["index"].tolist() == indices
        assert [sample.read_level(picture) for picture in seen[FRONT]] == [made.level(index) for index in indices]


@pytest.mark.parametrize(
    ("episodes", "says"),
    [
        ([1, 1], "Episode 1 is given more than once"),
        ([0, -1], "Episode -1 is negative"),
        ([3], "Episode 3 is out of range"),
        ([0.5], "0.5"),
        ([True], "True"),
        (["1"], "'1'"),
        ("1", "not a list"),
        (7, "not a list"),
    ],
)
def test_A01_a_wrong_episode_is_named_before_any_read(tmp_path: Path, episodes: Any, says: str) -> None:
    made = sample.f1(tmp_path / "f1")
    for path in (made.root / "data").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(errors.SelectionError) as caught:
        rolltape.open(made.root, episodes=episodes)
    assert says in str(caught.value)
    if says.startswith("Episode"):
        assert "episodes 0 to 2" in str(caught.value)


@pytest.mark.parametrize(
    ("where", "chosen"),
    [
        ("success", [0, 3]),
        ("not success", [1]),
        ("success and length > 5", [3]),
        ("success or length > 5", [0, 1, 3]),
        ("success is None", [2]),
        ("success is not None and success == False", [1]),
        ("operator == 'ann'", [0, 3]),
        ("operator != 'ann'", [1]),
        ("operator in ['bo', 'cy']", [1]),
        ("operator not in ('bo',)", [0, 3]),
        ("score > 0", [0, 1]),
        ("-score >= 1", [3]),
        ("4 < length <= 7", [0, 1]),
        ("length % 2 == 1 and take * 2 > 3", [1, 3]),
        ("'push' in tasks", [1, 3]),
        ("episode_index >= 2", [2, 3]),
        ("True", [0, 1, 2, 3]),
        ("length / 0 > 1", [0, 1, 2, 3]),
        (lambda row: row["length"] == 4, [2]),
        (lambda row: row["operator"] == "ann" and row["dataset_from_index"] == 0, [0]),
    ],
)
def test_conditions_on_episode_fields(fielded: Path, where: Any, chosen: list[int]) -> None:
    assert rolltape.open(fielded, where=where).episodes == chosen


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("lenght > 3", "length"),
        ("length >", "understood"),
        ("__import__('os').getcwd()", "Call"),
        ("().__class__", "Attribute"),
        ("length if success else take", "IfExp"),
        ("[x for x in tasks]", "ListComp"),
        ("operator > 3", "text with a number"),
        ("operator + 1 > 3", "no number"),
        ("length ** 9999999 > 1", "operator"),
        ("(" * 5000 + "length" + ")" * 5000, "long"),
        ("(" * 1000 + "length" + ")" * 1000, "understood"),
        (12, "neither a text nor a function"),
    ],
)
def test_a_wrong_condition_is_refused_and_never_run(fielded: Path, where: Any, says: str) -> None:
    with pytest.raises(errors.SelectionError) as caught:
        rolltape.open(fielded, where=where)
    assert says in str(caught.value)


def test_conditions_and_lists_go_together(fielded: Path) -> None:
    assert rolltape.open(fielded, episodes=[3, 1, 0], where="success").episodes == [3, 0]
    assert rolltape.open(fielded, where="length > 100").episodes == []
    assert len(rolltape.open(fielded, where="length > 100")) == 0


def test_splits(tmp_path: Path) -> None:
    splits = {"train": "0:2", "val": "2:3", "odd": "1", "both": "0:1, 2:3", "bad": "a:b"}
    made = sample.build(tmp_path / "made", cameras={}, info={"splits": splits})
    assert rolltape.open(made.root, split="train").episodes == [0, 1]
    assert rolltape.open(made.root, split="val").episodes == [2]
    assert rolltape.open(made.root, split="odd").episodes == [1]
    assert rolltape.open(made.root, split="both").episodes == [0, 2]
    with pytest.raises(errors.SelectionError, match="train"):
        rolltape.open(made.root, split="test")
    with pytest.raises(errors.SelectionError, match="not a range"):
        rolltape.open(made.root, split="bad")
    with pytest.raises(errors.SelectionError, match="not in the selection"):
        rolltape.open(made.root, split="val", episodes=[0])


def test_a_narrower_dataset_shares_what_is_loaded(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1", episode_fields={"success": [True, False, True]})
    dataset = rolltape.open(made.root, episodes=[2, 1, 0])
    dataset[0]
    part = dataset.select(where="success")
    assert part.episodes == [2, 0]
    assert dataset.select([0, 2]).episodes == [0, 2]
    assert [int(item["index"]) for item in part] == [12, 13, 14, 15, 0, 1, 2, 3, 4]
    assert part._table is dataset._table
    with pytest.raises(errors.SelectionError, match="not in the selection"):
        part.select([1])


def test_columns_and_cameras(tmp_path: Path) -> None:
    made = sample.f3(tmp_path / "f3")
    assert set(rolltape.open(made.root, columns=[ACTION], cameras=["wrist"])[0]) == {ACTION, WRIST}
    assert set(rolltape.open(made.root, columns=["task"], cameras=[])[0]) == {"task"}
    assert set(rolltape.open(made.root, columns=[], cameras=[FRONT])[0]) == {FRONT}
    with pytest.raises(errors.UnknownFeatureError, match="Did you mean action") as caught:
        rolltape.open(made.root, columns=["actoin"])
    assert isinstance(caught.value, KeyError)
    with pytest.raises(errors.UnknownFeatureError, match="wrist"):
        rolltape.open(made.root, cameras=["wrst"])
    with pytest.raises(errors.UnknownFeatureError, match="delta_timestamps"):
        rolltape.open(made.root, delta_timestamps={"stat": [0.0]})
    with pytest.raises(errors.UsageError, match="left out"):
        rolltape.open(made.root, columns=[ACTION], delta_timestamps={STATE: [0.0]})


@given(st.text(max_size=40))
def test_any_text_is_a_condition_or_a_typed_error(text: str) -> None:
    from rolltape.read.expression import evaluate

    def column(name: str) -> Any:
        import pyarrow as pa

        return pa.chunked_array([[1, 2, None]])

    try:
        found = evaluate(text, column, ["a", "b"], 3)
    except errors.SelectionError:
        return
    assert found.shape == (3,)
