"""The commit: episodes become part of the dataset, all of them or none.

Order of the renames: media, tasks, statistics, data, episode rows, `info.json`. Up to the episode row nothing can be
seen of the new episodes; from `info.json` on they are counted. Stock readers open the dataset at every stop between.
The last three are side by side, for a stock *writer* that goes on with the dataset between them counts wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from rolltape.format import EpisodeRow, Feature, VideoSpan, rows_to_table
from rolltape.format.paths import (
    INFO_PATH,
    QUANTILES_PATH,
    STATS_PATH,
    TASKS_PATH,
    FileNumber,
    data_file,
    episodes_file,
    following,
    video_file,
)
from rolltape.write.cameras import EncoderSettings
from rolltape.write.change import Change
from rolltape.write.episode import Episode
from rolltape.write.hot import DATA_CAP, ROWS_CAP, HotFile, after, fill, parquet_bytes, row_groups
from rolltape.write.state import State
from rolltape.write.take_note import NOTE

__all__ = ["Committed", "commit", "commit_info"]


@dataclass(frozen=True)
class Committed:
    """What a commit did.

    Attributes:
        state: What the next commit starts from.
        written: Bytes of all files it wrote.
        is_stuck: Whether the disk failed after the episodes were in place: nothing more can be written before recovery
            has looked at it.
    """

    state: State
    written: int
    is_stuck: bool = False


def commit(
    root: Path,
    state: State,
    episodes: Sequence[Episode],
    settings: EncoderSettings,
    depth_units: Mapping[str, str],
    *,
    durable: bool = True,
) -> Committed:
    """Write episodes into the dataset.

    Args:
        root: The dataset's folder, whose lock is held.
        state: What is there.
        episodes: The episodes, at least one, numbered on from what is there.
        settings: The encoder settings, for `info.json`.
        depth_units: The unit of each depth camera, for `info.json`.
        durable: Whether to fsync.

    Raises:
        OSError: If a file cannot be written. The dataset is as it was, and the same episodes can be committed again.
    """
    change = Change(root, "commit", durable=durable)
    try:
        spans, videos = _add_media(change, state, episodes)
        tasks = episodes[-1].all_tasks
        if len(tasks) != len(state.tasks):
            change.add_bytes(TASKS_PATH, parquet_bytes(tasks.to_table().schema, [tasks.to_table()]))
        statistics = state.statistics
        for episode in episodes:
            statistics = statistics.with_episode(episode.stats, episode.columns, episode.histograms)
        change.add_bytes(STATS_PATH, statistics.stats_json())
        change.add_bytes(QUANTILES_PATH, statistics.quantiles_npz())
        data, data_hot = _add_data(change, state, episodes)
        rows_hot, rows_path = _add_rows(change, state, episodes, data, spans)
        info = _grown(state, episodes, len(tasks))
        info = info.replace(features=_described(root, info.features, episodes, settings, depth_units))
        change.add_bytes(INFO_PATH, info.to_json_bytes())
        notes = [(episode.take / NOTE).relative_to(root).as_posix() for episode in episodes if episode.take is not None]
        facts = {"visible": [rows_path], "first_episode": episodes[0].index, "total_episodes": info.total_episodes}
        change.apply(facts, spent=tuple(notes))
    except BaseException:
        change.discard()
        raise
    grown = state.replace(info=info, tasks=tasks, data=data_hot, rows=rows_hot, videos=videos, statistics=statistics)
    return Committed(grown, change.written, change.is_stuck)


def commit_info(root: Path, state: State, *, durable: bool = True) -> int:
    """Write `info.json` of a dataset without episodes, so that it opens with length 0. Returns its bytes."""
    change = Change(root, "commit", durable=durable)
    try:
        change.add_bytes(INFO_PATH, state.info.to_json_bytes())
        change.apply({"visible": [INFO_PATH]})
    except BaseException:
        change.discard()
        raise
    return change.written


def _add_media(
    change: Change, state: State, episodes: Sequence[Episode]
) -> tuple[list[dict[str, VideoSpan]], dict[str, FileNumber]]:
    free = dict(state.videos)
    spans: list[dict[str, VideoSpan]] = []
    for episode in episodes:
        of_one: dict[str, VideoSpan] = {}
        for key, path in episode.videos.items():
            chunk, file = free[key]
            change.add_file(video_file(state.info, key, chunk, file), path.relative_to(change.root).as_posix())
            of_one[key] = VideoSpan(chunk, file, 0.0, state.info.rate.seconds(episode.rows))
            free[key] = following((chunk, file), state.info.chunks_size)
        spans.append(of_one)
    return spans, free


def _add_data(change: Change, state: State, episodes: Sequence[Episode]) -> tuple[list[FileNumber], Any]:
    info = state.info
    limit = info.data_files_size_in_mb * (1 << 20)
    files = fill(state.data, [episode.table for episode in episodes], limit, info.chunks_size)
    texts = [feature.name for feature in info.features.values() if feature.is_string and feature.shape == (1,)]
    nbytes = 0
    for one in files:
        content = parquet_bytes(
            state.data_schema, one.parts, use_dictionary=texts or False, write_statistics=["index", "episode_index"]
        )
        change.add_bytes(data_file(info, *one.number), content)
        nbytes = content.size
    numbers = [one.number for one in files for _ in range(one.fresh)]
    last = HotFile(files[-1].number, files[-1].parts)
    return numbers, after(last, len(last.parts), nbytes, DATA_CAP, info.chunks_size)


def _add_rows(
    change: Change,
    state: State,
    episodes: Sequence[Episode],
    data: Sequence[FileNumber],
    spans: Sequence[Mapping[str, VideoSpan]],
) -> tuple[Any, str]:
    chunk, file = state.rows.number
    rows = [
        EpisodeRow(
            episode_index=episode.index,
            tasks=episode.tasks,
            length=episode.rows,
            data_chunk=data_chunk,
            data_file=data_number,
            from_index=episode.from_index,
            to_index=episode.from_index + episode.rows,
            videos=of_one,
            stats=episode.stats,
            fields=episode.fields,
            recovered=episode.recovered,
            meta_chunk=chunk,
            meta_file=file,
        )
        for episode, (data_chunk, data_number), of_one in zip(episodes, data, spans, strict=True)
    ]
    table = pa.concat_tables([*state.rows.parts, rows_to_table(rows, state.row_schema)]).combine_chunks()
    content = rows_bytes(table)
    path = episodes_file(chunk, file)
    change.add_bytes(path, content)
    written = HotFile((chunk, file), (table,))
    return after(written, table.num_rows, content.size, ROWS_CAP, state.info.chunks_size), path


def rows_bytes(table: pa.Table) -> pa.Buffer:
    """Return a file of episode rows, in row groups of about a thousand."""
    return parquet_bytes(table.schema, row_groups(table), use_dictionary=False, write_statistics=["episode_index"])


def _grown(state: State, episodes: Sequence[Episode], tasks: int) -> Any:
    total = state.info.total_episodes + len(episodes)
    return state.info.replace(
        total_episodes=total,
        total_frames=state.info.total_frames + sum(episode.rows for episode in episodes),
        total_tasks=tasks,
        splits={"train": f"0:{total}"} if set(state.info.splits) <= {"train"} else state.info.splits,
    )


def _described(
    root: Path,
    features: Mapping[str, Feature],
    episodes: Sequence[Episode],
    settings: EncoderSettings,
    depth_units: Mapping[str, str],
) -> dict[str, Feature]:
    """Return the features with what is known of their cameras once the first clip is there."""
    described = dict(features)
    for name, feature in features.items():
        if name in depth_units and feature.depth_unit is None:
            feature = feature.with_info(depth_unit=depth_units[name])
        if feature.is_video and "video.codec" not in (feature.info or {}) and name in episodes[0].videos:
            from rolltape.video.probe import video_info

            found = video_info(episodes[0].videos[name], settings.of(feature))
            feature = feature.with_info(**{**found, "is_depth_map": feature.is_depth})
        described[name] = feature
    return described
