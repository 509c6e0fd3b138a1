"""The teacher's weights, out of the int8 ONNX graph that the kokoro-ja packages carry (Kokoro-82M, Apache-2.0).

Weights there are `(q - zero_point) * scale`, with weight norm folded in; nodes bear the names of the modules they came
from. What comes out is a state dict for the module classes of the `kokoro` package, in int8 where the file has int8, so
that the teacher packs small.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["PackedTensor", "read_onnx"]


@dataclass(frozen=True, slots=True)
class PackedTensor:
    """`values` as stored; the weight is `(values - zero) * scale` where there is a scale. Shapes broadcast."""

    values: np.ndarray
    zero: np.ndarray | None = None
    scale: np.ndarray | None = None

    def dense(self) -> np.ndarray:
        if self.scale is None:
            return self.values.astype(np.float32)
        zero = 0.0 if self.zero is None else self.zero.astype(np.float32)
        return (self.values.astype(np.float32) - zero) * self.scale.astype(np.float32)


def read_onnx(path: Path) -> dict[str, PackedTensor]:
    """State dict by the `kokoro` package's parameter names, weight norm folded into `weight`."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    arrays = {init.name: numpy_helper.to_array(init) for init in graph.initializer}
    nodes = {node.name: node for node in graph.node}
    makers = {output: node for node in graph.node for output in node.output}
    readers = {node.input[0]: node for node in graph.node if node.op_type == "DequantizeLinear"}
    found: dict[str, PackedTensor] = {}
    for name, array in arrays.items():  # plain parameters keep their names
        is_own = re.fullmatch(r"(encoder|decoder)\.[A-Za-z_0-9.]+", name) and array.dtype == np.float32
        if is_own and not name.endswith(("_scale", "_quantized", "_zero_point")):
            found[_parameter(name)] = PackedTensor(array)
    for node in graph.node:
        if (
            node.op_type in ("MatMulInteger", "ConvInteger", "Conv", "ConvTranspose", "MatMul")
            and node.input[1] in arrays
        ):
            weight = _packed(node, nodes, makers, arrays)
            if (module := _module(node.name)) is not None and weight is not None:
                is_linear = node.op_type.startswith("MatMul")
                found.setdefault(f"{module}.weight", _transposed(weight) if is_linear else weight)
        elif node.op_type == "Gather" and node.input[0].endswith(".weight_quantized"):
            scale, zero = readers[node.output[0]].input[1:3]
            name = _parameter(node.input[0].removesuffix("_quantized"))
            found[name] = PackedTensor(arrays[node.input[0]], arrays[zero], arrays[scale])
        elif node.op_type == "DynamicQuantizeLSTM":
            found |= _lstm(node, arrays)
    return found


def _packed(node, nodes, makers, arrays) -> PackedTensor | None:
    """Equal scales and zero points are stored once in the file, under any of their names: follow the edges."""
    values = arrays[node.input[1]]
    if values.dtype == np.float32:
        return PackedTensor(values)
    product = nodes.get(f"{node.name}_scales_mul") or makers[nodes[f"{node.name}_output_scale_mul"].input[1]]
    scale = next(arrays[name] for name in product.input if name in arrays)
    return PackedTensor(values, arrays[node.input[3]], scale)


def _transposed(weight: PackedTensor) -> PackedTensor:
    """[in, out] with one scale per column → [out, in]."""
    zero, scale = (None if part is None else part.reshape(-1, 1) for part in (weight.zero, weight.scale))
    return PackedTensor(np.ascontiguousarray(weight.values.T), zero, scale)


def _parameter(name: str) -> str:
    half, rest = name.split(".", 1)
    return rest if half == "encoder" else f"decoder.{rest.removeprefix('decoder.')}"


def _module(node: str) -> str | None:
    """`/encoder/F0.0/conv1/Conv_quant` → `predictor.F0.0.conv1`."""
    parts = node.strip("/").split("/")[:-1]
    if not parts or parts[0] not in ("encoder", "decoder"):
        return None
    half, parts = parts[0], parts[1:]
    if parts and parts[-1].count(".") and len(parts) > 1 and parts[-1].startswith(parts[-2] + "."):
        parts = [*parts[:-2], parts[-1]]  # /cnn.0/cnn.0.0 is cnn.0.0; /asr_res/asr_res.0 is asr_res.0
    if any(re.search(r"_\d+$", part) for part in parts if "noise_convs" not in part):
        return None  # the same layer, used again
    path = ".".join(parts)
    if half == "decoder":
        return f"decoder.{path.removeprefix('decoder.')}"
    is_predictor = re.match(r"(F0|N)\.\d|F0_proj|N_proj|shared", path)
    return f"predictor.{path}" if is_predictor else path


def _lstm(node, arrays) -> dict[str, PackedTensor]:
    """ONNX orders the gates i, o, f, c; torch i, f, g (= c), o. W is [2, in, 4H], R [2, H, 4H], B [2, 8H]."""
    w, r, bias = (arrays[name] for name in node.input[1:4])
    w_scale, w_zero, r_scale, r_zero = (arrays[name] for name in node.input[-4:])
    path = node.name.strip("/").split("/")[1:-1]
    module = ".".join(path)
    if path == ["shared"]:
        module = "predictor.shared"
    hidden = r.shape[1]
    order = np.concatenate([np.arange(hidden) + k * hidden for k in (0, 2, 3, 1)])
    found: dict[str, PackedTensor] = {}
    for direction, suffix in enumerate(("", "_reverse")):
        zero_w, zero_r = (np.asarray(zero[direction]) for zero in (w_zero, r_zero))
        for kind, array, scale, zero in (("ih", w, w_scale, zero_w), ("hh", r, r_scale, zero_r)):
            values = np.ascontiguousarray(array[direction].T[order])
            found[f"{module}.weight_{kind}_l0{suffix}"] = PackedTensor(values, zero, np.asarray(scale[direction]))
        for kind, part in (("ih", bias[direction][: 4 * hidden]), ("hh", bias[direction][4 * hidden :])):
            found[f"{module}.bias_{kind}_l0{suffix}"] = PackedTensor(part[order])
    return found
