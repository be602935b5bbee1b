"""Tensors from what `read` gives. torch is imported when the first tensor is made, not before."""

from __future__ import annotations

from rolltape.torch.tensors import load_torch, tensor, tensors, unstacked

__all__ = ["load_torch", "tensor", "tensors", "unstacked"]
