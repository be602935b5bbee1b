"""Tables with the manners of the reference's `datasets.Dataset`: `len`, `[]`, iteration, `select`, `to_pandas`."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rolltape.errors import FrameIndexError, UnknownFeatureError, missing_extra
from rolltape.read.dataset import Dataset
from rolltape.torch import tensors, unstacked

__all__ = ["ColumnRows", "FrameRows", "Rows", "TableRows", "reference_item"]

Int64s = npt.NDArray[np.int64]


class Rows(ABC):
    """Rows of named values. Indices are whole numbers, slices or lists of numbers; a name gives a column."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def column_names(self) -> list[str]:
        """The names of the columns."""

    @property
    @abstractmethod
    def data(self) -> pa.Table:
        """The rows as an Arrow table."""

    @abstractmethod
    def _row(self, index: int) -> dict[str, Any]: ...

    @abstractmethod
    def _many(self, indices: Int64s) -> dict[str, list[Any]]: ...

    @abstractmethod
    def _some(self, indices: Int64s) -> Rows: ...

    @abstractmethod
    def select_columns(self, column_names: str | Iterable[str]) -> Rows:
        """Return the same rows with some of the columns."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self)

    @property
    def num_columns(self) -> int:
        """How many columns there are."""
        return len(self.column_names)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), len(self.column_names)

    @property
    def features(self) -> dict[str, pa.DataType]:
        """The Arrow type of each column."""
        return {one.name: one.type for one in self.data.schema}

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return ColumnRows(self, self._known(key))
        if isinstance(key, slice):
            return self._many(np.arange(*key.indices(len(self))))
        if isinstance(key, Iterable):
            return self._many(np.array([self._checked(operator.index(one)) for one in key], np.int64))
        return self._row(self._checked(operator.index(key)))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for index in range(len(self)):
            yield self._row(index)

    def select(self, indices: Iterable[int]) -> Rows:
        """Return some of the rows, in the order given."""
        return self._some(np.array([self._checked(operator.index(one)) for one in indices], np.int64))

    def filter(self, function: Callable[[dict[str, Any]], Any], **_: Any) -> Rows:
        """Return the rows for which the function says yes. Further arguments of `datasets` have no effect."""
        return self._some(np.array([at for at, row in enumerate(self) if function(row)], np.int64))

    def unique(self, column: str) -> list[Any]:
        """Return the distinct values of a column, in the order of their first rows."""
        values: list[Any] = self.data.column(self._known(column)).unique().to_pylist()
        return values

    def to_dict(self) -> dict[str, list[Any]]:
        """Return all columns as lists of plain Python values."""
        found: dict[str, list[Any]] = self.data.to_pydict()
        return found

    def to_list(self) -> list[dict[str, Any]]:
        """Return all rows as mappings of plain Python values."""
        found: list[dict[str, Any]] = self.data.to_pylist()
        return found

    def to_pandas(self) -> Any:
        """Return a DataFrame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            import pandas  # noqa: F401  # to_pandas needs it; its absence is told in our words
        except ImportError as error:
            raise missing_extra("pandas", "pandas") from error
        return self.data.to_pandas()

    def _known(self, name: str) -> str:
        if name not in self.column_names:
            raise UnknownFeatureError(f"There is no column {name!r}.", expected=", ".join(self.column_names))
        return name

    def _checked(self, index: int) -> int:
        count = len(self)
        if not -count <= index < count:
            raise FrameIndexError(f"There is no row {index}.", expected=f"0 to {count - 1}", found=index)
        return index + count if index < 0 else index

    def __repr__(self) -> str:
        return f"{type(self).__name__}({{\n    features: {self.column_names},\n    num_rows: {len(self)}\n}})"


class ColumnRows:
    """One column of `Rows`, like a list."""

    def __init__(self, rows: Rows, name: str) -> None:
        self._rows = rows.select_columns(name)
        self.name = name

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, key: Any) -> Any:
        return self._rows[key][self.name]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows[:][self.name])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (list, tuple, ColumnRows)):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # compares like a list

    def __repr__(self) -> str:
        shown = ", ".join(repr(one) for one in self._rows[:5][self.name])
        return f"Column([{shown}{', ...' if len(self) > 5 else ''}])"


class TableRows(Rows):
    """An Arrow table as rows of plain Python values."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list(self._table.column_names)

    @property
    def data(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self._table

    def _row(self, index: int) -> dict[str, Any]:
        return dict(self._table.slice(index, 1).to_pylist()[0])

    def _many(self, indices: Int64s) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = self._table.take(pa.array(indices, pa.int64())).to_pydict()
        return found

    def _some(self, indices: Int64s) -> TableRows:
        return TableRows(self._table.take(pa.array(indices, pa.int64())))

    def select_columns(self, column_names: str | Iterable[str]) -> TableRows:
        """Return the same rows with some of the columns."""
        names = [column_names] if isinstance(column_names, str) else list(column_names)
        return TableRows(self._table.select([self._known(name) for name in names]))


class FrameRows(Rows):
    """The rows of the frames as tensors: what the tables hold, without windows and videos.

    Args:
        dataset: An open dataset, with the columns and cameras that the rows are to have.
        indices: Which of its frames, all by default.
    """

    def __init__(self, dataset: Dataset, indices: Int64s | None = None) -> None:
        self._dataset = dataset
        self._indices = indices

    def __len__(self) -> int:
        return len(self._dataset) if self._indices is None else len(self._indices)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in the order of the features."""
        chosen = {*self._dataset.view.columns, *self._dataset.view.cameras}
        return [name for name in self._dataset.features if name in chosen]

    @property
    def data(self) -> pa.Table:
        """The rows as an Arrow table, without pictures."""
        table = self._dataset.table(self._dataset.view.columns)
        return table if self._indices is None else table.take(pa.array(self._indices))

    def _row(self, index: int) -> dict[str, Any]:
        found = self._dataset[index if self._indices is None else int(self._indices[index])]
        return self._in_order(tensors(reference_item(found, self._dataset.cameras)))

    def _many(self, indices: Int64s) -> dict[str, list[Any]]:
        batch = self._dataset.batch(indices if self._indices is None else self._indices[indices])
        items = unstacked(reference_item(batch, self._dataset.cameras), len(indices))
        return self._in_order({name: [item[name] for item in items] for name in batch})

    def _in_order(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: values[name] for name in self.column_names}

    def _some(self, indices: Int64s) -> FrameRows:
        return FrameRows(self._dataset, indices if self._indices is None else self._indices[indices])

    def select_columns(self, column_names: str | Iterable[str]) -> FrameRows:
        """Return the same rows with some of the columns."""
        names = [column_names] if isinstance(column_names, str) else list(column_names)
        for name in names:
            self._known(name)
        old = self._dataset.view
        view = replace(
            old,
            columns=tuple(name for name in old.columns if name in names),
            cameras=tuple(name for name in old.cameras if name in names),
        )
        return FrameRows(self._dataset.with_view(view), self._indices)


def reference_item(values: Mapping[str, Any], cameras: Container[str]) -> dict[str, Any]:
    """Return arrays with the dtypes that the reference's tensors have: float32, int64 and bool; pictures as they are.

    The reference makes tensors from Python numbers, so float64 becomes float32 and every integer int64.
    """
    return {key: value if key in cameras else _reference_dtype(value) for key, value in values.items()}


def _reference_dtype(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    kind = value.dtype.kind
    if kind == "f" and value.dtype != np.float32:
        return value.astype(np.float32)
    if kind in "iu" and value.dtype != np.int64:
        return value.astype(np.int64)
    return value
