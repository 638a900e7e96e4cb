#!/usr/bin/env python3
"""Writes a short copy of a file of the preload library: its used groups, names and records alone.

    tests/data/compact_probe.py FROM TO

tests/fuzz/corpus/preload has such copies of what build/mpi/open/program left: LD_PRELOAD=build/liblockstep_profile.so,
LOCKSTEP_PROFILE_DIR=FOLDER, RANK=1 and WORLD_SIZE=4. The layout is that of base/probe_file.h.
"""
import struct
import sys

SIZES = "<QQQQQQ"  # groups_at, names_at, records_at, n_groups, names_bytes, n_records
SIZES_AT, HEAD_AT, NAMES_USED_AT = 32, 200, 216
HEADER, GROUP, RECORD = 304, 32, 64


def main():
    source, target = sys.argv[1:]
    with open(source, "rb") as f:
        data = f.read()
    groups_at, names_at, records_at, n_groups, _, n_records = struct.unpack_from(SIZES, data, SIZES_AT)
    head, = struct.unpack_from("<Q", data, HEAD_AT)
    names, = struct.unpack_from("<I", data, NAMES_USED_AT)
    names += -names % 8
    used = sum(any(data[groups_at + GROUP * i:groups_at + GROUP * (i + 1)]) for i in range(n_groups))
    kept = min(n_records, 1 << max(0, (head - 1).bit_length())) if head else 1
    at = HEADER + GROUP * used
    header = bytearray(data[:HEADER])
    struct.pack_into(SIZES, header, SIZES_AT, HEADER, at, at + names, used, names, kept)
    with open(target, "wb") as f:
        f.write(header)
        f.write(data[groups_at:groups_at + GROUP * used])
        f.write(data[names_at:names_at + names])
        f.write(data[records_at:records_at + RECORD * kept])


main()
