"""Threads, forks and new processes: the same frames everywhere."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import rolltape
import sample
from rolltape.read import Dataset
from sample import FRONT, WRIST


def digest(dataset: Dataset, indices: list[int]) -> list[int]:
    """Grey levels and numbers of some frames, read as items and as a batch."""
    batch = dataset.batch(indices)
    found = []
    for row, index in enumerate(indices):
        item = dataset[index]
        assert (item[FRONT] == batch[FRONT][row]).all()
        found += [sample.read_level(item[FRONT]), sample.read_level(item[WRIST]), int(item["index"])]
    return found


def coded(made: sample.Sample, indices: list[int]) -> list[int]:
    return [one for index in indices for one in (made.level(index), made.level(index, WRIST), index)]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_A10_workers_read_the_same_after_the_parent_has_read(tmp_path: Path, method: str) -> None:
    made = sample.f3(tmp_path / "f3")
    dataset = rolltape.open(made.root)
    dataset[0]
    dataset.batch(range(16))
    context = multiprocessing.get_context(method)
    tasks = [[3, 15, 7, 0], [8, 1, 12, 4], [15, 14, 13, 12]]
    wanted = [
        [dataset.batch(one)["index"].tolist(), dataset.batch(one)[FRONT].mean((1, 2, 3)).round().tolist()]
        for one in tasks
    ]
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        batches = [pool.submit(Dataset.batch, dataset, one) for one in tasks]
        for future, (index, means) in zip(batches, wanted, strict=True):
            batch = future.result(timeout=120)
            assert batch["index"].tolist() == index
            assert batch[FRONT].mean((1, 2, 3)).round().tolist() == means
    assert digest(dataset, [5, 6]) == coded(made, [5, 6])


def test_A10_a_dataset_pickles_small_and_reads_the_same(tmp_path: Path) -> None:
    made = sample.f3(tmp_path / "f3")
    dataset = rolltape.open(made.root, episodes=[2, 1], delta_steps={"action": [0, 1]})
    fresh = pickle.loads(pickle.dumps(dataset))
    dataset.batch(range(11))
    content = pickle.dumps(dataset)
    assert len(content) < 20_000
    copy = pickle.loads(content)
    for one in (fresh, copy, pickle.loads(pickle.dumps(copy))):
        assert one.episodes == [2, 1]
        for key, value in dataset[6].items():
            np.testing.assert_array_equal(one[6][key], value)


def test_A10_a_fork_while_threads_read_does_not_hang(tmp_path: Path) -> None:
    made = sample.f3(tmp_path / "f3")
    dataset = rolltape.open(made.root)
    stop = threading.Event()

    def keep_reading() -> None:
        rng = np.random.default_rng(0)
        while not stop.is_set():
            dataset.batch(rng.integers(0, 16, 8))

    readers = [threading.Thread(target=keep_reading) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        context = multiprocessing.get_context("fork")
        for index in range(6):
            with ProcessPoolExecutor(1, mp_context=context) as pool:
                assert pool.submit(Dataset.__getitem__, dataset, index).result(timeout=60)["index"] == index
    finally:
        stop.set()
        for reader in readers:
            reader.join()


def test_many_threads_read_the_same_dataset(tmp_path: Path) -> None:
    made = sample.f3(tmp_path / "f3")
    dataset = rolltape.open(made.root, open_files=2)
    failures: list[BaseException] = []

    def read(seed: int) -> None:
        try:
            for _ in range(6):
                indices = np.random.default_rng(seed).integers(0, 16, 5).tolist()
                assert digest(dataset, indices) == coded(made, indices)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures


def test_a_dataset_that_is_recorded_again_is_not_read_from_an_old_file(tmp_path: Path) -> None:
    made = sample.f1(tmp_path / "f1")
    dataset = rolltape.open(made.root)
    before = dataset[3][FRONT].copy()
    path = made.root / f"videos/{FRONT}/chunk-000/file-000.mp4"
    other = sample.f1(tmp_path / "other", cameras={FRONT: sample.Camera(shift=5)})
    path.unlink()
    path.write_bytes((other.root / f"videos/{FRONT}/chunk-000/file-000.mp4").read_bytes())
    assert sample.read_level(dataset[3][FRONT]) == other.level(3)
    assert sample.read_level(before) == made.level(3)
