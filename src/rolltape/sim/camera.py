"""Pictures of a scene, drawn off screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rolltape.errors import UsageError
from rolltape.sim.gl import graphics_error
from rolltape.sim.scene import Scene

__all__ = ["CameraView", "Renderer"]


@dataclass(frozen=True)
class CameraView:
    """What one camera of the scene is to deliver.

    Attributes:
        width: Pixels in a row.
        height: Rows.
        camera: The camera's name in the MJCF; the view's own name when left out.
        rgb: Whether colour pictures are taken.
        depth: Whether depth pictures are taken.
    """

    width: int = 320
    height: int = 240
    camera: str | None = None
    rgb: bool = True
    depth: bool = False


class Renderer:
    """Draws all views of a scene with one OpenGL context.

    Shadows, reflections and multisampling are off unless asked for: in software rendering they cost ten times the
    rest. The context belongs to the thread that made it.

    Args:
        scene: The scene.
        views: The views by name.
        shadows: Whether lights throw shadows and shiny planes reflect.
        samples: Samples a pixel; 0 for none.

    Raises:
        UsageError: A view names a camera that the scene does not have, or has no size.
        RecordError: No OpenGL works here; the error says what to install.
    """

    def __init__(
        self, scene: Scene, views: Mapping[str, CameraView], *, shadows: bool = False, samples: int = 0
    ) -> None:
        self._mujoco, self._scene = scene.mujoco, scene
        self._cameras = {name: _camera_of(scene, name, view) for name, view in views.items()}
        self._views = dict(views)
        self._context: Any = None
        self._gl: Any = None
        if not self._views:
            return
        width = max(view.width for view in self._views.values())
        height = max(view.height for view in self._views.values())
        scene.model.vis.quality.offsamples = samples
        try:
            self._gl = self._mujoco.GLContext(width, height)
            self._gl.make_current()
            self._context = self._mujoco.MjrContext(scene.model, self._mujoco.mjtFontScale.mjFONTSCALE_100.value)
        except Exception as error:  # EGL, OSMesa and GLFW each raise their own kinds
            self.close()
            raise graphics_error(error) from error
        self._mujoco.mjr_setBuffer(self._mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._mujoco.mjr_resizeOffscreen(width, height, self._context)
        self._context.readDepthMap = self._mujoco.mjtDepthMap.mjDEPTH_ZEROFAR.value
        self._options = self._mujoco.MjvOption()
        self._drawing = self._mujoco.MjvScene(scene.model, maxgeom=10_000)
        flags = self._mujoco.mjtRndFlag
        for flag in (flags.mjRND_SHADOW, flags.mjRND_REFLECTION):
            self._drawing.flags[flag] = int(shadows)

    def draw(self, name: str) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the pictures of one view at the scene's present time.

        Returns:
            Colour as uint8 [height, width, 3], and depth as float32 [height, width, 1] or None where the view takes
            none. Depth is the distance along the optical axis in metres; 0 where there is nothing up to the far plane.
        """
        view = self._views[name]
        self._gl.make_current()
        self._mujoco.mjv_updateScene(
            self._scene.model,
            self._scene.data,
            self._options,
            None,
            self._cameras[name],
            self._mujoco.mjtCatBit.mjCAT_ALL.value,
            self._drawing,
        )
        rectangle = self._mujoco.MjrRect(0, 0, view.width, view.height)
        self._mujoco.mjr_render(rectangle, self._drawing, self._context)
        colour = np.empty((view.height, view.width, 3), dtype=np.uint8)
        depth = np.empty((view.height, view.width), dtype=np.float32) if view.depth else None
        self._mujoco.mjr_readPixels(colour, depth, rectangle, self._context)
        # OpenGL's first row is the lowest.
        return np.ascontiguousarray(colour[::-1]), None if depth is None else self._metres(depth[::-1])

    def _metres(self, reversed_depth: np.ndarray) -> np.ndarray:
        """Turn OpenGL's reversed depth (1 at the near plane, 0 at the far one) into metres."""
        extent = float(self._scene.model.stat.extent)
        near = float(self._scene.model.vis.map.znear) * extent
        far = float(self._scene.model.vis.map.zfar) * extent
        metres = near * far / (near + reversed_depth.astype(np.float64) * (far - near))
        return np.where(reversed_depth > 0, metres, 0.0).astype(np.float32)[:, :, None]

    def close(self) -> None:
        """Free the OpenGL context. A second call does nothing."""
        if self._context is not None:
            self._gl.make_current()
            self._context.free()
            self._context = None
        if self._gl is not None:
            self._gl.free()
            self._gl = None


def _camera_of(scene: Scene, name: str, view: CameraView) -> Any:
    wanted = view.camera or name
    kind = scene.mujoco.mjtObj.mjOBJ_CAMERA
    number = int(scene.mujoco.mj_name2id(scene.model, kind, wanted))
    if number < 0:
        raise UsageError(
            f"The scene has no camera {wanted!r}.",
            where=scene.path,
            expected=", ".join(scene.camera_names) or "(it has none with a name)",
            fix=f"Name one of these (--robot.cameras='{{{name}: {{camera: NAME}}}}').",
        )
    if view.width < 1 or view.height < 1:
        raise UsageError(
            f"The camera {name!r} has no size.",
            expected="width and height above 0",
            found=f"{view.width}x{view.height}",
        )
    if not (view.rgb or view.depth):
        raise UsageError(
            f"The camera {name!r} takes neither colour nor depth.", fix="Leave it out, or take one of them."
        )
    camera = scene.mujoco.MjvCamera()
    camera.type = scene.mujoco.mjtCamera.mjCAMERA_FIXED.value
    camera.fixedcamid = number
    return camera
