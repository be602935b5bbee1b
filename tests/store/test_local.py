from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rolltape.errors import DamagedFileError, FormatError, LockedError
from rolltape.store import Intent, MappedFile, RootLock, local


def test_write_atomic_replaces_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    local.write_atomic(path, b"one")
    local.write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert [one.name for one in tmp_path.iterdir()] == ["a.json"]


def test_a_second_writer_is_told_who_holds_the_dataset(tmp_path: Path) -> None:
    with RootLock(tmp_path, "recording"), pytest.raises(LockedError, match=f"process {os.getpid()}") as caught:
        RootLock(tmp_path, "packing").acquire()
    assert "recording" in str(caught.value)
    assert not (tmp_path / ".rolltape").exists()
    with RootLock(tmp_path, "packing"):
        pass


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from rolltape.store import RootLock;"
        "RootLock(Path(sys.argv[1]), 'recording').acquire(); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert (tmp_path / ".rolltape/owner.json").exists()
    lock = RootLock(tmp_path, "recording")
    lock.acquire()
    lock.release()
    assert not (tmp_path / ".rolltape").exists()


def test_intent_round_trip_and_bad_paths(tmp_path: Path) -> None:
    (tmp_path / ".rolltape").mkdir()
    assert Intent.read(tmp_path) is None
    intent = Intent("commit", create={"a": ".rolltape/a.tmp"}, delete_later=("b",), facts={"episode": 3})
    intent.write(tmp_path)
    assert Intent.read(tmp_path) == intent
    Intent("commit", create={"../a": ".rolltape/a.tmp"}).write(tmp_path)
    with pytest.raises(FormatError):
        Intent.read(tmp_path)
    Intent.clear(tmp_path)
    assert Intent.read(tmp_path) is None
    (tmp_path / ".rolltape/intent.json").write_text("[1]")
    with pytest.raises(FormatError):
        Intent.read(tmp_path)


def test_mapped_files(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    with MappedFile(path) as mapped:
        assert bytes(mapped.view[1:]) == b"bc"
        kept = mapped.view[:1]
    assert bytes(kept) == b"a"
    path.write_bytes(b"")
    with pytest.raises(DamagedFileError, match="empty"):
        MappedFile(path)
    with pytest.raises(DamagedFileError, match="missing"):
        MappedFile(tmp_path / "none")


def test_folders_and_sizes(tmp_path: Path) -> None:
    local.make_folder(tmp_path / "a/b/c")
    local.write_file(tmp_path / "a/b/x", b"1234")
    assert local.tree_size(tmp_path) == 4
    assert not local.remove_folder_if_empty(tmp_path / "a/b")
    assert local.remove_folder_if_empty(tmp_path / "a/b/c")
    local.remove_tree(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
    assert local.is_lfs_pointer(b"version https://git-lfs.github.com/spec/v1\noid sha256:0")
