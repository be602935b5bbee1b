"""What a dataset says of itself: schema, counters, paths, tasks, episodes and statistics. numpy and pyarrow only."""

from __future__ import annotations

from rolltape.format.dialects import DIALECTS, Dialect, identify, require_readable
from rolltape.format.encoders import DepthEncoderConfig, RGBEncoderConfig, VideoEncoderConfig
from rolltape.format.episodes import EpisodeRow, VideoSpan, rows_to_table
from rolltape.format.features import DEFAULT_FEATURES, Feature, parse_feature, parse_features, with_defaults
from rolltape.format.info import CODEBASE_VERSION, Info, parse_info
from rolltape.format.rate import Rate
from rolltape.format.schema import (
    FIELD_TYPES,
    RECOVERED_MARK,
    STAT_NAMES,
    column_type,
    data_schema,
    episode_schema,
    field_type,
)
from rolltape.format.tasks import Tasks

__all__ = [
    "CODEBASE_VERSION",
    "DEFAULT_FEATURES",
    "DIALECTS",
    "FIELD_TYPES",
    "RECOVERED_MARK",
    "STAT_NAMES",
    "DepthEncoderConfig",
    "Dialect",
    "EpisodeRow",
    "Feature",
    "Info",
    "RGBEncoderConfig",
    "Rate",
    "Tasks",
    "VideoEncoderConfig",
    "VideoSpan",
    "column_type",
    "data_schema",
    "episode_schema",
    "field_type",
    "identify",
    "parse_feature",
    "parse_features",
    "parse_info",
    "require_readable",
    "rows_to_table",
    "with_defaults",
]
