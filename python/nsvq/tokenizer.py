"""A trained tokenizer: images to tokens and back."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import pathlib
from typing import Any

import torch
import torch.nn.functional as F

import nsvq.pytorch_model as pytorch_model
from nsvq import _library, _models, _safetensors, functional

try:
    from huggingface_hub import ModelHubMixin
except ImportError:
    class ModelHubMixin:  # type: ignore[no-redef]
        """What of huggingface_hub's class works without that package."""

        def __init_subclass__(cls, **_: Any) -> None:
            super().__init_subclass__()

        def save_pretrained(self, save_directory: str | os.PathLike) -> None:
            folder = pathlib.Path(save_directory)
            folder.mkdir(parents=True, exist_ok=True)
            self._save_pretrained(folder)

        def push_to_hub(self, *_: Any, **__: Any) -> None:
            raise ImportError("nsvq: push_to_hub needs huggingface_hub; install it by `pip install huggingface_hub`")


def nearest(rows: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Index [N] of the nearest code [K, d] of each row [N, d], exact and without the N x K matrix."""
    return functional.nearest(rows, codes).indices


def is_fused(x: torch.Tensor) -> bool:
    """Whether the operators made for channels-last memory take a tensor."""
    if x.dtype == torch.float64 or not (x.is_cpu or _library.HAS_CUDA_KERNELS):
        return False
    return x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def add_norm(norm: torch.nn.GroupNorm, x: torch.Tensor, h: torch.Tensor | None = None,
             silu: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """pytorch_model.add_norm, in one operator where memory is channels-last. Without gradients h, which is a convolution's
    output, becomes the sum."""
    if not is_fused(x) or h is not None and (h.dtype != x.dtype or not is_fused(h)):
        if torch.is_grad_enabled():
            return pytorch_model.add_norm(norm, x, h, silu)
        total = x if h is None else h.add_(x) if h.dtype == x.dtype else x + h
        return total, F.silu(norm(total), inplace=True) if silu else norm(total)
    shape = (norm.weight, norm.bias, norm.num_groups, norm.eps, silu)
    if h is None:
        return x, torch.ops.nsvq.group_norm_silu(x, *shape)[0]
    return torch.ops.nsvq.add_norm_silu(x, h, *shape)[:2]


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention of tokens [B, 1, N, C] by PyTorch's own function, as in the program."""
    return F.scaled_dot_product_attention(q, k, v)


def depth_to_space(x: torch.Tensor) -> torch.Tensor:
    """[B, 4C, H, W] to [B, C, 2H, 2W]; channels-last memory stays so."""
    return torch.ops.nsvq.depth_to_space(x) if is_fused(x) else pytorch_model.depth_to_space(x)


class Tokenizer(pytorch_model.Tokenizer, ModelHubMixin, library_name="nsvq", tags=["image-tokenizer"]):
    """Encoder, quantizer and decoder of a model that nsvq trained or imported: a plain torch.nn.Module in evaluation mode.

        tokenizer = nsvq.Tokenizer.from_pretrained("runs/photos")
        tokens = tokenizer.encode(images)                         # [B, 3, H, W] to int64 [B, h, w]
        pictures = tokenizer.decode(tokens)                       # back to [B, 3, H, W] in [-1, 1]

    The networks compute in `precision`: "fp32", "tf32", "bf16" or "fp16", or "auto", which is bf16 on a GPU and fp32 on a CPU.
    It is that of training (train.precision) unless it is set. Latents, codes and the search are fp32 at least.
    `config` has the settings by section, `metadata` what the model's file says."""

    def __init__(self, config: dict[str, Any], weights: dict[str, torch.Tensor], metadata: dict[str, str] | None = None):
        kind = config["quantizer"]["type"]
        if kind not in pytorch_model.QUANTIZERS:
            raise ValueError(f"quantizer.type: {kind} is not known to this version of nsvq")
        super().__init__(config, {name: tensor.clone() for name, tensor in weights.items()})
        self.metadata = dict(metadata or {})
        self.precision: str = config.get("train", {}).get("precision", "auto")
        for module in self.modules():
            if isinstance(module, pytorch_model.Block):
                module.add_norm, module.attend, module.depth_to_space = add_norm, attend, depth_to_space
        self.quantizer.nearest = nearest
        self._settle_memory()
        self.eval()

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike, *, device: str | torch.device | None = None,
                        precision: str | None = None, revision: str = "main") -> Tokenizer:
        """Loads a model.

        `name` is a run's folder (its newest intact checkpoint), RUN/checkpoints/best, a checkpoint's folder, an exported
        folder, a .safetensors file, or "organisation/name" in Hugging Face's cache, of the given `revision`; nothing is
        downloaded. ValueError says what is missing or damaged."""
        model = _models.open_model(name, revision)
        config = model.settings()
        try:
            tokenizer = cls(config, model.tensors, model.metadata)
        except (RuntimeError, KeyError) as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"{model.path}: its tensors do not fit its settings: {reason}") from None
        if precision is not None:
            tokenizer.precision = precision
        return tokenizer if device is None else tokenizer.to(device)

    @property
    def device(self) -> torch.device:
        return self.encoder.conv_in.weight.device

    @property
    def stride(self) -> int:
        """Pixels of a token along each side."""
        model = self.config["model"]
        return 2 ** (pytorch_model.halving_levels(model) + model.get("haar", 0))

    @property
    def codes(self) -> int:
        """The number of codes K; 0 for a continuous autoencoder."""
        return self.quantizer.count

    @property
    def codebook(self) -> torch.Tensor:
        """All codes [K, d] as the decoder is given them."""
        with torch.no_grad():
            return self.quantizer.codes()

    @property
    def sha256(self) -> str:
        """The hash of all weights, by which folders of tokens name their model (docs/tokens.md)."""
        return _models.tensors_sha256(self.state_dict())

    def latents(self, images: torch.Tensor) -> torch.Tensor:
        """Images [B, 3, H, W], uint8 or floats in [-1, 1], to latents [B, d, h, w] before quantization, with gradients."""
        pixels = self._pixels(images)
        with self._computing():
            latents = super().latents(pixels)
        return latents if latents.dtype == torch.float64 else latents.float()

    def images(self, latents: torch.Tensor) -> torch.Tensor:
        """Latents [B, d, h, w], quantized ones or not, to images [B, 3, H, W] in [-1, 1], with gradients."""
        with self._computing():
            images = super().images(latents.to(self.device))
        return images if images.dtype == torch.float64 else images.float()

    @torch.no_grad()
    def encode(self, images: torch.Tensor) -> torch.Tensor:
        """Images [B, 3, H, W], uint8 or floats in [-1, 1], of any sizes that `stride` divides, to tokens, int64 [B, h, w] with
        h = H / stride and w = W / stride. A model with several scales gives [B, n], one grid after the other."""
        latents = self.latents(images)
        if not torch.isfinite(latents).all():
            raise ValueError("images have latents that are not finite and so no nearest code; are images and weights finite?")
        with torch.autocast(latents.device.type, enabled=False):
            return self.quantizer.encode(latents)

    @torch.no_grad()
    def decode(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens [B, h, w], or [B, n] of several grids, of any integer type, to images [B, 3, H, W] in about [-1, 1]."""
        tokens = torch.as_tensor(tokens)
        dims = 2 if self.quantizer.kind == "var" else 3
        if tokens.dim() != dims or tokens.is_floating_point():
            shape = "[B, n]" if dims == 2 else "[B, h, w]"
            raise ValueError(f"tokens must be integers {shape}, but they are {tokens.dtype} {list(tokens.shape)}")
        tokens = tokens.to(self.device, torch.int64)
        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < self.codes:
            raise ValueError(f"tokens must be from 0 to {self.codes - 1}, but they go from {tokens.min()} to {tokens.max()}")
        with torch.autocast(tokens.device.type, enabled=False):
            latents = self.quantizer.decode(tokens)
        return self.images(latents)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images [B, 3, H, W] as they come back, [B, 3, H, W]; also of a model without tokens."""
        return self.images(self.latents(images)) if self.codes == 0 else self.decode(self.encode(images))

    def read(self, path: str | os.PathLike) -> torch.Tensor:
        """An image file as the program reads it, [1, 3, size, size] in [-1, 1]: the short side resized to data.size, the centre
        cropped. Needs Pillow."""
        return super().read(path)

    def _pixels(self, images: torch.Tensor) -> torch.Tensor:
        """Images as the encoder takes them; ValueError for what it cannot take."""
        if not isinstance(images, torch.Tensor) or images.dim() != 4 or images.shape[1] != 3:
            shown = list(images.shape) if isinstance(images, torch.Tensor) else type(images).__name__
            raise ValueError(f"images must be a tensor [B, 3, H, W], but it is {shown}")
        if images.dtype != torch.uint8 and not images.is_floating_point():
            raise ValueError(f"images must be uint8, or floats in [-1, 1], but they are {images.dtype}")
        height, width = images.shape[2:]
        if 0 in images.shape or height % self.stride or width % self.stride:
            raise ValueError(f"images must have sides that are multiples of {self.stride}, in a batch that is not empty, but "
                             f"they are {list(images.shape)}")
        images = images.to(self.device).contiguous()
        pixels = pytorch_model.from_bytes(images) if images.dtype == torch.uint8 else images
        return pixels.to(self.encoder.conv_in.weight.dtype)

    def _computing(self) -> contextlib.AbstractContextManager:
        """The precision of the networks on their device, as the program chooses it."""
        device, name = self.device.type, self.precision
        if name not in ("auto", "fp32", "tf32", "bf16", "fp16"):
            raise ValueError(f"precision must be auto, fp32, tf32, bf16 or fp16, but it is {name!r}")
        if device == "cpu" and name != "bf16":
            name = "fp32"
        if name == "auto":
            name = "bf16"
        half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(name)
        casts = torch.autocast(device, dtype=half or torch.bfloat16, enabled=half is not None)
        if device != "cuda":
            return casts
        both = contextlib.ExitStack()
        both.enter_context(torch.backends.cudnn.flags(benchmark=False, deterministic=True, allow_tf32=name != "fp32"))
        both.enter_context(casts)
        return both

    def _apply(self, fn: Any, recurse: bool = True) -> Tokenizer:
        moved = super()._apply(fn, recurse)
        self._settle_memory()
        return moved

    def _settle_memory(self) -> None:
        """Weights of convolutions in the layout that is fast on their device."""
        aarch64 = os.uname().machine == "aarch64"
        layout = torch.channels_last if self.device.type == "cuda" or aarch64 else torch.contiguous_format
        for parameter in self.parameters():
            if parameter.dim() == 4:
                parameter.data = parameter.data.contiguous(memory_format=layout)

    def _save_pretrained(self, save_directory: pathlib.Path) -> None:
        """model.safetensors, which the program opens too, config.json, README.md, and load_model.py for PyTorch alone."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()}
        _safetensors.write(save_directory / "model.safetensors", tensors, self.metadata)
        (save_directory / "config.json").write_text(json.dumps(self.config, indent=1) + "\n")
        (save_directory / "load_model.py").write_text(inspect.getsource(pytorch_model))
        card = save_directory / "README.md"
        if not card.exists():
            card.write_text(CARD.format(codes=self.codes, stride=self.stride, kind=self.quantizer.kind))


CARD = """---
library_name: nsvq
tags:
- image-tokenizer
---
A discrete image tokenizer of nsvq: {codes} codes, {stride}x{stride} pixels a token, quantizer {kind}.

```python
import nsvq
tokenizer = nsvq.Tokenizer.from_pretrained("ORGANISATION/NAME")  # or the path of this folder
tokens = tokenizer.encode(tokenizer.read("photo.jpg"))
```

Without nsvq, `load_model.py` in this folder does the same in PyTorch.
"""
