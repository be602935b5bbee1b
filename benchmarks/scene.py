"""A synthetic workcell: shaded background with texture, moving shapes, and sensor noise, from numpy alone.

Deterministic in the seed. Both sides load the same rendered file, so no rendering is inside a measurement and the
encoders get the same bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

JOINTS = 14


class Scene:
    """Two cameras and a 14-joint trajectory."""

    def __init__(self, height: int, width: int, *, seed: int = 0, noise: float = 3.0) -> None:
        self.height, self.width, self.seed = height, width, seed
        rng = np.random.default_rng(seed)
        self.rows, self.columns = np.mgrid[0:height, 0:width].astype(np.float32)
        self.backgrounds = [self._background(rng) for _ in range(2)]
        self.noises = [rng.normal(0, noise, (height, width, 3)).round().astype(np.int16) for _ in range(12)]

    def trajectory(self, frames: int, fps: int = 30) -> np.ndarray:
        """Joint positions, float32 `[frames + 1, 14]`: sines of several speeds with encoder noise."""
        rng = np.random.default_rng((self.seed, 1))
        speed, phase, reach = rng.uniform(0.1, 0.8, JOINTS), rng.uniform(0, 6.28, JOINTS), rng.uniform(0.3, 1.0, JOINTS)
        seconds = np.arange(frames + 1)[:, None] / fps
        waves = reach * np.sin(6.28 * speed * seconds + phase)
        return (waves + rng.normal(0, 0.002, waves.shape)).astype(np.float32)

    def frame(self, camera: int, number: int, joints: np.ndarray) -> np.ndarray:
        """One picture, uint8 `[H, W, 3]`; camera 1 moves with the first joint."""
        shift = int(self.width * 0.25 * joints[0]) if camera else 0
        picture = np.roll(self.backgrounds[camera], shift, axis=1).astype(np.int16)
        for shape in range(5):
            x = self.width * (0.5 + 0.35 * joints[(2 * shape + camera) % JOINTS])
            y = self.height * (0.5 + 0.35 * joints[(2 * shape + 1 + camera) % JOINTS])
            size = self.height * (0.05 + 0.015 * shape)
            if shape % 2:
                inside = (self.columns - x) ** 2 + (self.rows - y) ** 2 < size**2
            else:
                inside = (abs(self.columns - x) < 1.3 * size) & (abs(self.rows - y) < size)
            picture[inside] = (40 + 40 * shape, 220 - 40 * shape, 90 + 30 * shape)
        picture += self.noises[(7 * number + camera) % len(self.noises)]
        return np.clip(picture, 0, 255).astype(np.uint8)

    def _background(self, rng: np.random.Generator) -> np.ndarray:
        across, down = self.columns / self.width, self.rows / self.height
        shade = np.stack([60 + 90 * across, 70 + 80 * down, 140 - 60 * across], axis=-1)
        texture = 14 * self._smooth(rng, 24) + 5 * self._smooth(rng, 4)
        picture: np.ndarray = np.clip(shade + texture, 0, 255).astype(np.uint8)
        return picture

    def _smooth(self, rng: np.random.Generator, cell: int) -> Any:
        """Random values on a coarse grid, linear in between."""
        grid = rng.normal(0, 1, (self.height // cell + 2, self.width // cell + 2, 3)).astype(np.float32)
        row, column = self.rows / cell, self.columns / cell
        top, left = row.astype(int), column.astype(int)
        down, across = (row - top)[..., None], (column - left)[..., None]
        upper = grid[top, left] * (1 - across) + grid[top, left + 1] * across
        lower = grid[top + 1, left] * (1 - across) + grid[top + 1, left + 1] * across
        return upper * (1 - down) + lower * down


def render(folder: Path, frames: int, height: int, width: int) -> Path:
    """Render once into `folder`; answers the file, `pictures` uint8 `[2, frames, H, W, 3]` and `joints` inside."""
    path = folder / f"scene-{frames}x{height}x{width}.npz"
    if path.exists():
        return path
    scene = Scene(height, width)
    joints = scene.trajectory(frames)
    pictures = np.empty((2, frames, height, width, 3), dtype=np.uint8)
    for camera in range(2):
        for number in range(frames):
            pictures[camera, number] = scene.frame(camera, number, joints[number])
    np.savez(path, pictures=pictures, joints=joints)
    return path
