"""Conditions on episode fields, such as `"success and length > 100"`: parsed and evaluated here, never run as code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rolltape.errors import SelectionError

__all__ = ["evaluate"]

_MAX_LENGTH = 4000
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True)
class _Values:
    """A column or a constant: values, and where they are known (a null is neither true nor false)."""

    values: Any
    known: npt.NDArray[np.bool_]
    is_null: bool = False
    constant: bool = False


def evaluate(text: str, columns: Callable[[str], pa.ChunkedArray], names: list[str], count: int) -> npt.NDArray[Any]:
    """Return for each episode whether the condition holds, bool [count].

    A comparison with a null is unknown, and an episode is chosen only where the whole condition is known to hold.

    Args:
        text: Names of fields, numbers, texts, `and or not`, comparisons, `in`, `is None`, and `+ - * / // %`.
        columns: Returns a field's column by name.
        names: The names there are, for messages.
        count: How many episodes there are.

    Raises:
        SelectionError: The text is not such a condition, or names a field that does not exist.
    """
    if len(text) > _MAX_LENGTH:
        raise SelectionError("The condition is too long.", expected=f"at most {_MAX_LENGTH} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SelectionError("The condition cannot be understood.", where=repr(text), found=str(error)) from error
    evaluator = _Evaluator(text, columns, names, count)
    try:
        result = evaluator.visit(tree.body)
    except (TypeError, ZeroDivisionError, OverflowError) as error:
        raise SelectionError("The condition compares things that do not compare.", where=repr(text)) from error
    return np.asarray(evaluator.truth(result) & result.known, np.bool_)


class _Evaluator:
    def __init__(self, text: str, columns: Callable[[str], pa.ChunkedArray], names: list[str], count: int) -> None:
        self.text = text
        self.columns = columns
        self.names = names
        self.count = count
        self.all = np.ones(count, np.bool_)

    def visit(self, node: ast.expr) -> _Values:
        kind = type(node).__name__
        method: Callable[[Any], _Values] | None = getattr(self, f"_{kind.lower()}", None)
        if method is None:
            raise SelectionError(
                f"The condition uses {kind}, which is not allowed.",
                where=repr(self.text),
                expected="names, constants, comparisons, and, or, not, in, + - * / // %",
            )
        return method(node)

    def truth(self, value: _Values) -> npt.NDArray[np.bool_]:
        found = np.broadcast_to(np.asarray(value.values), (self.count,))
        if found.dtype.kind in "OU":
            return np.array([bool(one) for one in found], np.bool_)
        return found.astype(np.bool_)

    def _constant(self, node: ast.Constant) -> _Values:
        if node.value is None:
            return _Values(None, ~self.all, is_null=True)
        if not isinstance(node.value, (bool, int, float, str)):
            raise SelectionError("The condition holds a constant of a strange kind.", where=repr(self.text))
        return _Values(node.value, self.all, constant=True)

    def _name(self, node: ast.Name) -> _Values:
        if node.id not in self.names:
            raise SelectionError(
                f"There is no episode field {node.id!r}.", where=repr(self.text), expected=", ".join(self.names)
            )
        column = self.columns(node.id)
        known = np.asarray(column.is_valid().to_numpy(), np.bool_)
        kind = column.type
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            zero = pa.scalar(0).cast(kind)
            return _Values(column.fill_null(zero).to_numpy(), known)
        return _Values(_objects(column.to_pylist()), known)

    def _list(self, node: ast.List | ast.Tuple) -> _Values:
        values = [self.visit(one) for one in node.elts]
        if not all(one.constant for one in values):
            raise SelectionError("A list in the condition may only hold constants.", where=repr(self.text))
        return _Values([one.values for one in values], self.all, constant=True)

    _tuple = _list

    def _boolop(self, node: ast.BoolOp) -> _Values:
        parts = [self.visit(one) for one in node.values]
        truth, known = self.truth(parts[0]), parts[0].known
        for part in parts[1:]:
            other = self.truth(part)
            if isinstance(node.op, ast.And):
                known = (known & part.known) | (known & ~truth) | (part.known & ~other)
                truth = truth & other
            else:
                known = (known & part.known) | (known & truth) | (part.known & other)
                truth = truth | other
        return _Values(truth, known)

    def _unaryop(self, node: ast.UnaryOp) -> _Values:
        value = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return _Values(~self.truth(value), value.known)
        if isinstance(node.op, ast.USub):
            return _Values(-value.values, value.known, constant=value.constant)
        return value

    def _binop(self, node: ast.BinOp) -> _Values:
        action = _ARITHMETIC.get(type(node.op))
        left, right = self.visit(node.left), self.visit(node.right)
        for side in (left, right):
            if np.asarray(side.values).dtype.kind not in "biuf":
                raise SelectionError(
                    "The condition calculates with something that is no number.", where=repr(self.text)
                )
        if action is None:
            raise SelectionError("The condition uses an operator that is not allowed.", where=repr(self.text))
        with np.errstate(all="ignore"):
            values = action(np.asarray(left.values), np.asarray(right.values))
        return _Values(values, left.known & right.known)

    def _compare(self, node: ast.Compare) -> _Values:
        left = self.visit(node.left)
        truth, known = self.all, self.all
        for symbol, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.visit(comparator)
            one = self._one_comparison(symbol, left, right)
            truth, known = truth & self.truth(one), known & one.known
            left = right
        return _Values(truth, known)

    def _one_comparison(self, symbol: ast.cmpop, left: _Values, right: _Values) -> _Values:
        if left.is_null or right.is_null:
            other = right if left.is_null else left
            if isinstance(symbol, (ast.Is, ast.Eq)):
                return _Values(~other.known, self.all)
            if isinstance(symbol, (ast.IsNot, ast.NotEq)):
                return _Values(other.known, self.all)
        known = left.known & right.known
        if isinstance(symbol, (ast.In, ast.NotIn)):
            found = self._contains(left, right)
            return _Values(~found if isinstance(symbol, ast.NotIn) else found, known)
        action = _COMPARE.get(type(symbol))
        if action is None:
            raise SelectionError("The condition uses a comparison that is not allowed.", where=repr(self.text))
        kinds = {np.asarray(side.values).dtype.kind in "OU" for side in (left, right)}
        if len(kinds) > 1:
            if isinstance(symbol, ast.Eq):
                return _Values(np.zeros(self.count, np.bool_), known)
            if isinstance(symbol, ast.NotEq):
                return _Values(self.all, known)
            raise SelectionError("The condition compares a text with a number.", where=repr(self.text))
        if kinds == {True}:
            pairs = zip(self._each(left), self._each(right), known, strict=True)
            return _Values(np.array([bool(k and action(a, b)) for a, b, k in pairs], np.bool_), known)
        return _Values(action(left.values, right.values), known)

    def _each(self, value: _Values) -> list[Any]:
        return [value.values] * self.count if value.constant else list(value.values)

    def _contains(self, left: _Values, right: _Values) -> npt.NDArray[np.bool_]:
        pairs = zip(self._each(left), self._each(right), strict=True)
        return np.array([b is not None and a in b for a, b in pairs], np.bool_)


def _objects(values: list[Any]) -> npt.NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array
