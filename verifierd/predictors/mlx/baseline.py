"""What the passes are measured against, and what the engine says of itself."""

from collections.abc import Sequence
from importlib.metadata import version

import mlx.core as mx

from verifierd.predictors.mlx.passes import Cache, Network

__all__ = ("engine", "forget_peak", "forward", "peak_bytes")


def forward(network: Network, tokens: Sequence[int], cache: Cache) -> None:
    """A bare pass of the whole model over tokens: logits at every position, evaluated and thrown away."""
    for begin in range(0, len(tokens), network.chunk):
        logits = network.model(mx.array([list(tokens[begin : begin + network.chunk])]), cache=cache)
        mx.eval(logits, [layer.state for layer in cache])
        mx.clear_cache()


def engine() -> dict[str, str]:
    """Versions and the device."""
    device = mx.device_info()
    name = str(device.get("device_name") or device.get("architecture") or "")
    kind = "GPU" if mx.default_device() == mx.Device(mx.gpu) else "CPU"
    return {"mlx": version("mlx"), "mlx_lm": version("mlx-lm"), "device": f"{kind} {name}".strip()}


def peak_bytes() -> int:
    """The most memory that arrays took since `forget_peak`, weights included."""
    return int(mx.get_peak_memory())


def forget_peak() -> None:
    """Begin the peak anew."""
    mx.reset_peak_memory()
