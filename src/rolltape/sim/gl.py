"""Loading MuJoCo with a renderer that works without a screen."""

from __future__ import annotations

import os
import sys
from types import ModuleType

from rolltape.errors import RecordError, missing_extra

__all__ = ["graphics_error", "load_mujoco"]


def load_mujoco() -> ModuleType:
    """Return the module `mujoco`, imported so that it renders without a screen.

    On Linux `MUJOCO_GL` is set to `egl` where the user has set nothing: MuJoCo reads it once, at its first import.

    Raises:
        MissingExtraError: MuJoCo is not installed.
        RecordError: MuJoCo is installed, but the OpenGL library that `MUJOCO_GL` asks for is not.
    """
    if sys.platform.startswith("linux") and "mujoco" not in sys.modules:
        os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        import mujoco
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "mujoco":
            raise missing_extra("sim", "mujoco") from error
        raise graphics_error(error) from error
    except Exception as error:  # PyOpenGL raises AttributeError and others where a library is missing
        raise graphics_error(error) from error
    module: ModuleType = mujoco
    return module


def graphics_error(error: BaseException) -> RecordError:
    """Return the error that says how to get a working OpenGL.

    Args:
        error: What MuJoCo or PyOpenGL raised.
    """
    chosen = os.environ.get("MUJOCO_GL", "")
    package = "libosmesa6" if chosen == "osmesa" else "libegl1 libgl1-mesa-dri"
    return RecordError(
        "MuJoCo cannot render here.",
        where=f"MUJOCO_GL={chosen or '(not set)'}",
        expected="an OpenGL library that draws without a screen",
        found=f"{type(error).__name__}: {' '.join(str(error).split()) or 'no reason given'}",
        fix=(
            f"apt-get install {package} (Debian, Ubuntu) and set MUJOCO_GL=egl before Python starts; "
            "or record without pictures: MUJOCO_GL=disable and no cameras (--robot.cameras={})."
        ),
    )
