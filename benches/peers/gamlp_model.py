"""R_GAMLP_RLU with a wide feature head in PyTorch: the network of examples/gamlp."""
import functools

import torch
from torch import nn
from torch.nn import functional as F


class FeedForward(nn.Module):
    """Two linear layers; batch normalization, PReLU and dropout between them."""

    def __init__(self, inputs, hidden, outputs, dropout):
        super().__init__()
        self.first, self.last = nn.Linear(inputs, hidden), nn.Linear(hidden, outputs)
        self.norm, self.prelu, self.dropout = nn.BatchNorm1d(hidden), nn.PReLU(), nn.Dropout(dropout)

    def forward(self, x):
        return self.last(self.dropout(self.prelu(self.norm(self.first(x)))))


class Attention(nn.Module):
    """Recursive attention: every hop is scored against the weighted mean of those before it."""

    def __init__(self, width, dropout):
        super().__init__()
        self.score, self.dropout = nn.Linear(2 * width, 1), nn.Dropout(dropout)

    def shares(self, scores):
        return self.dropout(torch.softmax(torch.cat(scores, 1), 1))

    def forward(self, hops):
        halves = self.score.weight.view(2, -1).t()
        # The score is linear, so that no mean of hops has to be formed.
        parts = [hop @ halves for hop in hops]
        before, scores = torch.cat([part[:, :1] for part in parts], 1), []
        for k, part in enumerate(parts):
            mean = (self.shares(scores) * before[:, :k]).sum(1, keepdim=True) if k else before[:, :1]
            scores.append(F.leaky_relu(mean + part[:, 1:] + self.score.bias, 0.2))
        weights = self.shares(scores)
        return sum(hop * weights[:, k : k + 1] for k, hop in enumerate(hops))


class Masked(nn.Linear):
    """A linear layer whose weight is multiplied by a mask in every pass."""

    def __init__(self, width, sparsity):
        super().__init__(width, width)
        self.register_buffer("mask", mask(width, sparsity).clone())

    def forward(self, x):
        return F.linear(x, self.weight * self.mask, self.bias)


class Csr(nn.Module):
    """A linear layer with a weight in CSR, by the front end of PyTorch."""

    def __init__(self, width, sparsity):
        super().__init__()
        for name, tensor in zip(("offsets", "cols", "values"), compressed(width, sparsity)):
            self.register_buffer(name, tensor)
        self.bias, self.width, self.weight = nn.Parameter(torch.zeros(width)), width, None

    def forward(self, x):
        if self.weight is None:
            shape = (self.width, self.width)
            self.weight = torch.sparse_csr_tensor(self.offsets, self.cols, self.values, size=shape)
        return torch.mm(self.weight, x.t()).t() + self.bias


class Cusparse(Csr):
    """The same by SpMV of the C API of cuSPARSE, for one row; `algorithm` is a name of `methods`."""

    def prepare(self, library, algorithm, kinds):
        first = self.offsets
        if algorithm.startswith("coo"):
            lengths = (self.offsets[1:] - self.offsets[:-1]).long()
            rows = torch.arange(self.width, dtype=torch.int32, device=self.offsets.device)
            first = rows.repeat_interleave(lengths)
            matrix = library.coo(first, self.cols, self.values, self.width, self.width)
        else:
            matrix = library.csr(self.offsets, self.cols, self.values, self.width, self.width)
        self.x, self.y = (torch.zeros(1, self.width, device=first.device) for _ in range(2))
        vectors = library.vector(self.x), library.vector(self.y)
        # The library knows pointers only: the layer holds what they point to.
        self.first, self.product = first, library.spmv(matrix, *vectors, kinds[algorithm])
        return self

    def forward(self, x):
        if x is not self.x:
            self.x.copy_(x)
        self.product()
        return self.y + self.bias


@functools.lru_cache
def compressed(width, sparsity):
    """Offsets, columns and normal values of a weight in CSR."""
    csr = (torch.randn(width, width) * mask(width, sparsity)).to_sparse_csr()
    return csr.crow_indices().int(), csr.col_indices().int(), csr.values()


@functools.lru_cache
def mask(width, sparsity):
    """Ones at exactly so many uniformly random places."""
    count = round((1 - sparsity) * width * width)
    ones = torch.zeros(width * width)
    ones[torch.randperm(width * width, generator=torch.Generator().manual_seed(0))[:count]] = 1
    return ones.view(width, width)


class Head(nn.Module):
    """`hidden -> width -> width -> classes`; `wide` is the square matrix."""

    def __init__(self, hidden, wide, width, classes, dropout):
        super().__init__()
        self.expand, self.wide, self.classify = nn.Linear(hidden, width), wide, nn.Linear(width, classes)
        self.norm, self.prelu, self.dropout = nn.BatchNorm1d(width), nn.PReLU(), nn.Dropout(dropout)

    def forward(self, x):
        x = self.wide(self.prelu(self.expand(x)))
        return self.classify(self.dropout(self.prelu(self.norm(x))))


class Gamlp(nn.Module):
    """Takes rows of the features of all hops and the label embedding, next to each other."""

    def __init__(self, wide, width, features=100, classes=47, hidden=512, hops=5, dropout=0.5):
        super().__init__()
        self.sizes = [features] * (hops + 1) + [classes]
        self.process = nn.ModuleList(FeedForward(features, hidden, hidden, dropout) for _ in range(hops + 1))
        self.attention, self.residual = Attention(hidden, dropout), nn.Linear(features, hidden)
        self.prelu, self.dropout, self.label_dropout = nn.PReLU(), nn.Dropout(dropout), nn.Dropout(dropout)
        self.output = Head(hidden, wide, width, classes, dropout)
        self.label = FeedForward(classes, hidden, classes, dropout)

    def forward(self, rows):
        *hops, labels = rows.split(self.sizes, 1)
        combined = self.attention([network(hop) for network, hop in zip(self.process, hops)])
        combined = self.dropout(self.prelu(combined + self.residual(hops[0])))
        return self.output(combined) + self.label(self.label_dropout(labels))
