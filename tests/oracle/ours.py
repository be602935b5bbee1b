"""Recording a recipe with rolltape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import rolltape
from oracle.recipes import RECIPES, Recipe


def encoders(plan: Recipe) -> dict[str, Any]:
    """The recipe's encoder settings as our config objects."""
    return {
        "rgb_encoder": rolltape.RGBEncoderConfig(**plan.rgb),
        "depth_encoder": rolltape.DepthEncoderConfig(**plan.depth),
    }


def _language(name: str) -> bool:
    return name.startswith("language_")


def create(recipe: str, root: Path, **options: Any) -> rolltape.Writer:
    """A new recording."""
    plan = RECIPES[recipe]
    return rolltape.Writer.create(root, plan.fps, plan.features, robot_type="bench", **encoders(plan), **options)


def add_episode(writer: rolltape.Writer, recipe: str, episode: int, fields: dict[str, Any] | None = None) -> None:
    """Record one episode of a recipe."""
    for frame in RECIPES[recipe].episode(episode):
        task = frame.pop("task")
        writer.add_frame({name: value for name, value in frame.items() if not _language(name)}, task=task)
    writer.save_episode(fields=fields)


def record(
    recipe: str,
    root: Path,
    episodes: Iterable[int] | None = None,
    *,
    fields: Callable[[int], dict[str, Any]] | None = None,
    **options: Any,
) -> Path:
    """Record episodes of a recipe (all by default) and finish."""
    chosen = range(len(RECIPES[recipe].lengths)) if episodes is None else episodes
    with create(recipe, root, **options) as writer:
        for episode in chosen:
            add_episode(writer, recipe, episode, fields(episode) if fields else None)
    return root


def resume(recipe: str, root: Path, episodes: Iterable[int], **options: Any) -> Path:
    """Append episodes of a recipe to a dataset."""
    with rolltape.Writer.resume(root, **{**encoders(RECIPES[recipe]), **options}) as writer:
        for episode in episodes:
            add_episode(writer, recipe, episode)
    return root


def record_drop_in(recipe: str, root: Path, episodes: Iterable[int], *, resume: bool = False, **options: Any) -> Path:
    """The same through the drop-in class, as a user of lerobot writes it."""
    plan = RECIPES[recipe]
    if resume:
        dataset = rolltape.LeRobotDataset.resume("oracle/check", root=root, **encoders(plan), **options)
    else:
        dataset = rolltape.LeRobotDataset.create(
            "oracle/check",
            plan.fps,
            dict(plan.features),
            root=root,
            use_videos=plan.use_videos,
            **encoders(plan),
            **options,
        )
    for episode in episodes:
        for frame in plan.episode(episode):
            dataset.add_frame(frame)
        dataset.save_episode()
    dataset.finalize()
    return root


def fill_language(recipe: str, root: Path) -> None:
    """Write the recipe's language rows into the data files, as an annotation tool does afterwards."""
    plan = RECIPES[recipe]
    for path in root.glob("data/*/*.parquet"):
        table = pq.read_table(path)
        places = zip(table["episode_index"].to_pylist(), table["frame_index"].to_pylist(), strict=True)
        frames = [plan.frame(episode, frame) for episode, frame in places]
        for name, feature in plan.features.items():
            if feature["dtype"] == "language":
                at = table.schema.get_field_index(name)
                kind = table.schema.field(at)
                table = table.set_column(at, kind, pa.array([frame[name] for frame in frames], kind.type))
        pq.write_table(table, path)
