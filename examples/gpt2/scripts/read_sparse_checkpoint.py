#!/usr/bin/env python3
"""Reads the sparse weight files of gpt2_convert with numpy and safetensors alone.

As a program, it lists the sparse matrices of a folder (or of one file), and with --dense writes a
safetensors file with dense matrices instead. As a module, `read` gives every tensor as an array, and sparse
matrices as `CsrMatrix`, whose parts are those that scipy.sparse.csr_matrix takes.

The layout: every tensor of a GPT-2 checkpoint of Hugging Face is there under its usual name, but a sparse matrix
NAME is given by four tensors that describe it in compressed rows, in the orientation [out, in]; the tensor NAME of
a dense checkpoint is its transpose, [in, out].

    NAME.shape        int32 [2]        out, in
    NAME.row_offsets  int32 [out + 1]  row i has the places row_offsets[i] to row_offsets[i + 1]
    NAME.col_indices  int32 [nnz]      column of every place, increasing within a row
    NAME.values       float [nnz]      value of every place
"""

import argparse
import json
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import save_file

FILE = "model.sparse.safetensors"
FORMAT = "gpt2-sparse-csr-v1"
DTYPES = {"F32": np.float32, "F16": np.float16, "I32": np.int32}


class CsrMatrix(NamedTuple):
    """A sparse matrix in compressed rows, [out, in]."""

    shape: tuple
    row_offsets: np.ndarray
    col_indices: np.ndarray
    values: np.ndarray

    def to_dense(self):
        """The dense matrix, [out, in]."""
        dense = np.zeros(self.shape, self.values.dtype)
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.row_offsets))
        dense[rows, self.col_indices] = self.values
        return dense


def read(path):
    """The tensors of a sparse file, or of the one in a folder, by name; bfloat16 becomes float32."""
    path = Path(path)
    if path.is_dir():
        path = path / FILE
    notes, tensors = _read_arrays(path)
    if notes.get("format") != FORMAT:
        raise ValueError(f"{path}: the format is {notes.get('format')!r}, not {FORMAT!r}")
    for key in [name for name in tensors if name.endswith(".row_offsets")]:
        name = key.removesuffix(".row_offsets")
        matrix = CsrMatrix(
            tuple(int(size) for size in tensors.pop(f"{name}.shape")),
            tensors.pop(f"{name}.row_offsets"),
            tensors.pop(f"{name}.col_indices"),
            tensors.pop(f"{name}.values"),
        )
        _check(path, name, matrix)
        tensors[name] = matrix
    return tensors


def _check(path, name, matrix):
    rows, columns = matrix.shape
    offsets, indices = matrix.row_offsets, matrix.col_indices
    valid = (
        len(offsets) == rows + 1
        and offsets[0] == 0
        and offsets[-1] == len(indices) == len(matrix.values)
        and np.all(np.diff(offsets) >= 0)
        and (len(indices) == 0 or (indices.min() >= 0 and indices.max() < columns))
    )
    if not valid:
        raise ValueError(f"{path}: the coordinates of {name} are invalid")


def _read_arrays(path):
    """The free-form part of the header and the arrays; numpy has no bfloat16 to let safetensors give."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > path.stat().st_size - 8:
            raise ValueError(f"{path}: the header is longer than the file")
        header = json.loads(file.read(length))
        notes = header.pop("__metadata__", {})
        arrays = {}
        for name, info in header.items():
            begin, end = info["data_offsets"]
            file.seek(8 + length + begin)
            data = file.read(end - begin)
            if info["dtype"] == "BF16":
                bits = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
                array = bits.view(np.float32)
            else:
                array = np.frombuffer(data, DTYPES[info["dtype"]])
            arrays[name] = array.reshape(info["shape"])
    return notes, arrays


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("path", help=f"a {FILE}, or a folder with one")
    parser.add_argument("--dense", metavar="FILE", help="write all tensors, dense ones for sparse matrices")
    args = parser.parse_args()
    tensors = read(args.path)
    for name, tensor in sorted(tensors.items()):
        if isinstance(tensor, CsrMatrix):
            rows, columns = tensor.shape
            nnz = len(tensor.values)
            print(f"{name}: {rows} x {columns}, {nnz} non-zeros, density {nnz / (rows * columns):.4f}")
    if args.dense:
        dense = {
            name: np.ascontiguousarray(tensor.to_dense().T) if isinstance(tensor, CsrMatrix) else tensor
            for name, tensor in tensors.items()
        }
        save_file(dense, args.dense, metadata={"format": "pt"})


if __name__ == "__main__":
    main()
