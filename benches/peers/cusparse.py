"""cuSPARSE through its C API: products of CSR matrices with dense ones, ready to be captured."""
import ctypes

import torch

COLUMN_MAJOR, ROW_MAJOR = 1, 2
SPMM_ALGORITHMS = {"csr1": 4, "csr2": 6, "csr3": 12}
SPMV_ALGORITHMS = {"csr1": 2, "csr2": 3, "coo1": 1, "coo2": 4}
REAL = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 14}
INDEX_32, BASE_ZERO, COMPUTE_32F = 2, 0, 0
NO_TRANSPOSE = 0
SDDMM_DEFAULT = 0


def pointer(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


def stream():
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


class Cusparse:
    """A handle of the library. Raises OSError where there is none."""

    def __init__(self):
        for name in ("libcusparse.so.12", "libcusparse.so"):
            try:
                self.lib = ctypes.CDLL(name)
                break
            except OSError as error:
                missing = error
        else:
            raise missing
        self.handle = ctypes.c_void_p()
        self.call("cusparseCreate", ctypes.byref(self.handle))
        self._one, self._zero = ctypes.c_float(1), ctypes.c_float(0)
        self.one, self.zero = ctypes.byref(self._one), ctypes.byref(self._zero)

    def call(self, name, *arguments):
        status = getattr(self.lib, name)(*arguments)
        if status != 0:
            raise RuntimeError("%s returned %d" % (name, status))

    def version(self):
        part = ctypes.c_int()
        parts = []
        for which in range(3):
            self.call("cusparseGetProperty", which, ctypes.byref(part))
            parts.append(str(part.value))
        return ".".join(parts)

    def csr(self, offsets, cols, values, rows, width):
        """A descriptor; the caller keeps the tensors."""
        matrix = ctypes.c_void_p()
        sizes = [ctypes.c_int64(n) for n in (rows, width, cols.numel())]
        self.call(
            "cusparseCreateCsr", ctypes.byref(matrix), *sizes, pointer(offsets), pointer(cols),
            pointer(values), INDEX_32, INDEX_32, BASE_ZERO, REAL[values.dtype],
        )
        return matrix

    def coo(self, rows, cols, values, height, width):
        """A descriptor of sorted coordinates; the caller keeps the tensors."""
        matrix = ctypes.c_void_p()
        sizes = [ctypes.c_int64(n) for n in (height, width, cols.numel())]
        self.call(
            "cusparseCreateCoo", ctypes.byref(matrix), *sizes, pointer(rows), pointer(cols), pointer(values),
            INDEX_32, BASE_ZERO, REAL[values.dtype],
        )
        return matrix

    def dense(self, tensor, rows, width, stride, order):
        matrix = ctypes.c_void_p()
        sizes = [ctypes.c_int64(n) for n in (rows, width, stride)]
        self.call("cusparseCreateDnMat", ctypes.byref(matrix), *sizes, pointer(tensor), REAL[tensor.dtype], order)
        return matrix

    def vector(self, tensor):
        vector = ctypes.c_void_p()
        length = ctypes.c_int64(tensor.numel())
        self.call("cusparseCreateDnVec", ctypes.byref(vector), length, pointer(tensor), REAL[tensor.dtype])
        return vector

    def prepared(self, operation, *arguments):
        """The operation as a function, its workspace allocated and its analysis done."""
        size = ctypes.c_size_t()
        self.call(operation + "_bufferSize", self.handle, *arguments, ctypes.byref(size))
        workspace = torch.empty(max(size.value, 16), dtype=torch.uint8, device="cuda")
        self.lib.cusparseSetStream(self.handle, stream())
        if hasattr(self.lib, operation + "_preprocess"):
            self.call(operation + "_preprocess", self.handle, *arguments, pointer(workspace))
        torch.cuda.synchronize()

        def run():
            self.lib.cusparseSetStream(self.handle, stream())
            self.call(operation, self.handle, *arguments, pointer(workspace))

        return run

    def spmm(self, matrix, x, y, algorithm):
        return self.prepared(
            "cusparseSpMM", NO_TRANSPOSE, NO_TRANSPOSE, self.one, matrix, x, self.zero, y, COMPUTE_32F, algorithm
        )

    def spmv(self, matrix, x, y, algorithm):
        return self.prepared("cusparseSpMV", NO_TRANSPOSE, self.one, matrix, x, self.zero, y, COMPUTE_32F, algorithm)

    def sddmm(self, y, x, pattern):
        """Writes the product of `y` and `x` at the non-zeros of `pattern`."""
        return self.prepared(
            "cusparseSDDMM", NO_TRANSPOSE, NO_TRANSPOSE, self.one, y, x, self.zero, pattern, COMPUTE_32F, SDDMM_DEFAULT
        )
