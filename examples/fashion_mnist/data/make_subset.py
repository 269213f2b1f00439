#!/usr/bin/env python3
"""Draws the 2 000 training and 1 000 test images that ship with the example.

    apt-get install dataset-fashion-mnist python3-numpy
    python3 data/make_subset.py /usr/share/datasets/fashion-mnist data/subset

The draw is the one of the published SET program: NumPy's legacy generator with seed 0 shuffles the
indices of the training images, then those of the test images, and the first of each are taken, in
that order. It is a plain random draw, not a stratified one. NumPy guarantees the stream of the
legacy generator, so the images come out the same with any version of it; the numbers that this
prints are the SHA-256 of the unpacked files (the first 16 digits), their length and the packed one.
"""

import gzip
import hashlib
import struct
import sys
import zlib
from pathlib import Path

import numpy

COUNTS = {"train": 2000, "t10k": 1000}


def read(path, magic):
    data = gzip.decompress(path.read_bytes())
    found, count = struct.unpack(">II", data[:8])
    if found != magic:
        sys.exit(f"{path}: magic number {found:#x}, expected {magic:#x}")
    header = 4 + 4 * (magic & 0xFF)
    return numpy.frombuffer(data, numpy.uint8, offset=header).reshape(count, -1)


def write(path, magic, dimensions, items):
    header = struct.pack(f">{1 + len(dimensions)}I", magic, *dimensions)
    body = header + items.tobytes()
    # A gzip member by hand: no name and no time, so that the file is the same every day.
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    packed = deflate.compress(body) + deflate.flush()
    trailer = struct.pack("<II", zlib.crc32(body), len(body) & 0xFFFFFFFF)
    path.write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\x02\xff" + packed + trailer)
    print(hashlib.sha256(body).hexdigest()[:16], path.name, len(body), path.stat().st_size)


def main():
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    random = numpy.random.RandomState(0)
    for part, count in COUNTS.items():
        images = read(source / f"{part}-images-idx3-ubyte.gz", 0x803)
        labels = read(source / f"{part}-labels-idx1-ubyte.gz", 0x801)
        order = numpy.arange(len(images))
        random.shuffle(order)
        chosen = order[:count]
        write(target / f"{part}-images-idx3-ubyte.gz", 0x803, (count, 28, 28), images[chosen])
        write(target / f"{part}-labels-idx1-ubyte.gz", 0x801, (count,), labels[chosen])
        print(part, "per class", numpy.bincount(labels[chosen].ravel(), minlength=10).tolist())


main()
