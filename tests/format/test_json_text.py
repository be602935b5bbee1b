from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rolltape.format.json_text import json_text

_PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@given(st.recursive(_PLAIN, lambda one: st.lists(one) | st.dictionaries(st.text(), one), max_leaves=30))
def test_it_is_what_json_gives(value: Any) -> None:
    assert json_text(value) == json.dumps(value, indent=4, ensure_ascii=False)


def test_keys_that_json_turns_into_text() -> None:
    for value in ({1: [1, 2]}, {"a": {None: {"b": [True, 1]}}}, (1, "x, y"), {"a": ()}, [[], {}, [1, [2.5]]]):
        assert json_text(value) == json.dumps(value, indent=4, ensure_ascii=False)
