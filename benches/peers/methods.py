"""What PyTorch, cuSPARSE and CuPy offer for each operation.

A method is a name, a tolerance, and variants `{algorithm: prepare}`; `prepare()` returns a `Prepared`.
"""
import collections

import torch

from cusparse import COLUMN_MAJOR, ROW_MAJOR, SPMM_ALGORITHMS, SPMV_ALGORITHMS

LEARNING_RATE = 1e-5

# `run` computes; `written` are the tensors to poison before; `result` is what to compare.
Prepared = collections.namedtuple("Prepared", "run written result")
Method = collections.namedtuple("Method", "name variants reference tolerance graphs")

# Suffix: (data type, tf32, tolerance).
PRECISIONS = {
    "fp32": (torch.float32, False, 1e-5),
    "tf32": (torch.float32, True, 5e-3),
    "bf16": (torch.bfloat16, False, 2e-2),
    "fp16": (torch.float16, False, 5e-3),
}
OF_DTYPE = {torch.float32: ("fp32", "tf32", "bf16"), torch.bfloat16: ("bf16",), torch.float16: ("fp16",)}


def all_methods(case, cusparse, cupy):
    """The methods of a problem, the slow ones last."""
    yield from dense_methods(case)
    if case.op in ("spmm", "spmm_transposed", "sddmm"):
        tolerance = 1e-5 if case.dtype == torch.float32 else 2e-2
        sparse = lambda name, variants, graphs=True: Method(name, variants, "sparse_reference", tolerance, graphs)
        if cusparse:
            for name, variants in cusparse_methods(case, cusparse):
                yield sparse(name, variants)
        for name, prepare in library_methods(case, cupy):
            yield sparse(name, {"": prepare}, graphs=False)


def dense_methods(case):
    for name in OF_DTYPE[case.dtype]:
        dtype, tf32, tolerance = PRECISIONS[name]
        for mask in (False, True):
            reference = "sparse_reference" if mask else "dense_reference"
            prepare = lambda dtype=dtype, tf32=tf32, mask=mask: dense(case, dtype, tf32, mask)
            kind = "torch_masked_" if mask else "torch_dense_"
            yield Method(kind + name, {"": prepare}, reference, tolerance, True)


def dense(case, dtype, tf32, mask):
    """The dense operation, its weight multiplied by the mask in every call if asked."""
    weight = case.weight
    x, y, bias, w = (tensor.to(dtype) for tensor in (case.x, case.y, case.bias, weight.dense))
    # Steps write to the weight and the bias.
    if case.op == "step":
        w, bias = w.clone(), bias.clone()
    kept = weight.mask.to(dtype) if mask else None
    effective = torch.empty_like(w) if mask else w
    new = lambda *shape: torch.empty(*shape, dtype=dtype, device="cuda")

    def masked():
        torch.backends.cuda.matmul.allow_tf32 = tf32
        if mask:
            torch.mul(w, kept, out=effective)
        return effective

    if case.op == "spmm":
        out = new(case.batch, weight.m)
        return Prepared(lambda: torch.mm(x, masked().t(), out=out), [out], lambda: out)
    if case.op == "forward":
        out = new(case.batch, weight.m)
        return Prepared(lambda: torch.addmm(bias, x, masked().t(), out=out), [out], lambda: out)
    if case.op == "spmm_transposed":
        out = new(case.batch, weight.k)
        return Prepared(lambda: torch.mm(y, masked(), out=out), [out], lambda: out)

    gradient = new(weight.m, weight.k)

    def weight_gradient(of_output):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.mm(of_output.t(), x, out=gradient)
        if mask:
            torch.mul(gradient, kept, out=gradient)

    at_slots = lambda: case.at_slots(gradient)
    if case.op == "sddmm":
        return Prepared(lambda: weight_gradient(y), [gradient], at_slots)

    out, of_input = new(case.batch, weight.m), new(case.batch, weight.k)

    def step():
        torch.addmm(bias, x, masked().t(), out=out)
        torch.sub(out, y, out=out)
        out.mul_(2 / case.batch)
        weight_gradient(out)
        torch.mm(out, effective, out=of_input)
        bias.add_(out.sum(0), alpha=-LEARNING_RATE)
        w.add_(gradient, alpha=-LEARNING_RATE)

    return Prepared(step, [out, gradient, of_input], at_slots)


def cusparse_methods(case, library):
    """CSR products on batch-major (`bm`) and feature-major (`fm`, transposes not counted) operands."""
    if case.op == "sddmm":
        yield "cusparse_bm", {"": lambda: cusparse_sddmm(case, library, False)}
        if case.batch > 1:
            yield "cusparse_fm", {"": lambda: cusparse_sddmm(case, library, True)}
        return
    # The transposed product on a copy in column order, whose making is not counted.
    kind = "cusparse_csr" if case.op == "spmm" else "cusparse_csc"
    spmm = lambda number, feature_major: lambda: cusparse_spmm(case, library, number, feature_major)
    variants = {name: spmm(number, False) for name, number in SPMM_ALGORITHMS.items()}
    yield kind + "_bm", variants
    if case.batch == 1:
        spmv = lambda name, number: lambda: cusparse_spmv(case, library, name, number)
        yield "cusparse_spmv", {name: spmv(name, number) for name, number in SPMV_ALGORITHMS.items()}
    else:
        yield kind + "_fm", {name: spmm(number, True) for name, number in SPMM_ALGORITHMS.items()}


def row_order(case):
    """(offsets, columns, values, rows, width) of the product's matrix, and its dense operand."""
    w = case.weight
    if case.op == "spmm":
        return (w.offsets, w.cols, w.values, w.m, w.k), case.x
    return (w.column_offsets, w.rows_by_column, w.values_by_column, w.k, w.m), case.y


def cusparse_spmm(case, library, algorithm, feature_major):
    parts, x = row_order(case)
    matrix, (rows, width), b = library.csr(*parts), parts[3:], case.batch
    if feature_major:
        x, out = x.t().contiguous(), torch.empty(rows, b, dtype=case.dtype, device="cuda")
        operands = library.dense(x, width, b, b, ROW_MAJOR), library.dense(out, rows, b, b, ROW_MAJOR)
    else:
        out = torch.empty(b, rows, dtype=case.dtype, device="cuda")
        operands = library.dense(x, width, b, width, COLUMN_MAJOR), library.dense(out, rows, b, rows, COLUMN_MAJOR)
    run = keep(library.spmm(matrix, *operands, algorithm), x)
    return Prepared(run, [out], lambda: out.t() if feature_major else out)


def cusparse_spmv(case, library, name, algorithm):
    (offsets, cols, values, rows, width), x = row_order(case)
    first = offsets
    if name.startswith("coo"):
        lines = torch.arange(rows, dtype=torch.int32, device="cuda")
        first = lines.repeat_interleave((offsets[1:] - offsets[:-1]).long())
        matrix = library.coo(first, cols, values, rows, width)
    else:
        matrix = library.csr(offsets, cols, values, rows, width)
    out = torch.empty(1, rows, dtype=case.dtype, device="cuda")
    run = keep(library.spmv(matrix, library.vector(x), library.vector(out), algorithm), (x, first))
    return Prepared(run, [out], lambda: out)


def cusparse_sddmm(case, library, feature_major):
    w, b = case.weight, case.batch
    out = torch.empty(w.nnz, dtype=case.dtype, device="cuda")
    pattern = library.csr(w.offsets, w.cols, out, w.m, w.k)
    if feature_major:
        y, x = case.y.t().contiguous(), case.x.t().contiguous()
        operands = library.dense(y, w.m, b, b, ROW_MAJOR), library.dense(x, b, w.k, b, COLUMN_MAJOR)
    else:
        y, x = case.y, case.x
        operands = library.dense(y, w.m, b, w.m, COLUMN_MAJOR), library.dense(x, b, w.k, w.k, ROW_MAJOR)
    run = keep(library.sddmm(*operands, pattern), (y, x))
    return Prepared(run, [out], lambda: out)


def keep(run, operands):
    """The library knows pointers only: the function holds what they point to."""
    run.operands = operands
    return run


def library_methods(case, cupy):
    """Front ends that allocate their result, timed as a user calls them."""
    if case.op == "sddmm":
        yield "torch_sampled_addmm", lambda: torch_sampled(case)
        return
    parts, x = row_order(case)
    yield "torch_csr", lambda: torch_csr(parts, x)
    if cupy and case.dtype == torch.float32:
        yield "cupy_csr", lambda: cupy_csr(cupy, parts, x)


def returning(compute, view):
    """A prepared method that returns a new result at every call."""
    last = {}

    def run():
        last["result"] = compute()

    return Prepared(run, [], lambda: view(last["result"]))


def torch_csr(parts, x):
    offsets, cols, values, *shape = parts
    matrix = torch.sparse_csr_tensor(offsets, cols, values, size=shape, check_invariants=False)
    return returning(lambda: torch.mm(matrix, x.t()), lambda y: y.t())


def torch_sampled(case):
    w = case.weight
    pattern = torch.sparse_csr_tensor(w.offsets, w.cols, w.values, size=(w.m, w.k), check_invariants=False)
    return returning(lambda: torch.sparse.sampled_addmm(pattern, case.y.t(), case.x, beta=0.0), lambda d: d.values())


def cupy_csr(cupy, parts, x):
    import cupyx.scipy.sparse

    offsets, cols, values, *shape = parts
    arrays = tuple(cupy.asarray(tensor) for tensor in (values, cols, offsets))
    matrix = cupyx.scipy.sparse.csr_matrix(arrays, shape=tuple(shape))
    batch = x.shape[0]
    dense = cupy.asarray(x)
    dense = dense[0] if batch == 1 else dense.T
    view = lambda y: torch.as_tensor(y, device="cuda").reshape(shape[0], batch).t()
    return returning(lambda: matrix @ dense, view)
