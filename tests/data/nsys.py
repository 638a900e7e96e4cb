#!/usr/bin/env python3
"""A data base as Nsight Systems exports it, of two processes with a GPU each: nsys.py FILE [shared|sizes]. Times in us below.

Two steps (NVTX ranges) a process; in each a forward kernel, a backward one, an all-reduce behind it, the optimizer's. One
kernel was launched before the recording; one event has no end. With "shared" both processes use GPU 0, with equal streams, and
process 300 has a memset on GPU 1. With "sizes" NCCL's own ranges have payloads: 4,000 bytes. Exit 77: this Python has no sqlite3."""
import struct
import sys

try:
    import sqlite3
except ImportError:
    sys.exit(77)

db = sqlite3.connect(sys.argv[1])
db.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER,"
           " globalPid INTEGER, demangledName INTEGER, shortName INTEGER)")
db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER,"
           " globalPid INTEGER, bytes INTEGER)")
db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER,"
           " globalPid INTEGER, bytes INTEGER, copyKind INTEGER)")
db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER)")
db.execute("CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, globalTid INTEGER, text TEXT, textId INTEGER,"
           " binaryData TEXT)")
db.execute("CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER, schemaId INTEGER, idx INTEGER, name TEXT, offset INTEGER)")
db.executemany("INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (1, 16777223, ?, ?, ?)",
               [(0, "NCCL communicator ID", None), (1, "Message size [bytes]", 8), (2, "Reduction operation", 16)])
names = ["gemm", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "cudaLaunchKernel_v7000", "cudaEventQuery_v3020", "ncclAllReduce"]
db.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(names))
shared = sys.argv[2:] == ["shared"]
sizes = sys.argv[2:] == ["sizes"]
payload = struct.pack("<IIIIQQ", 1, 0, 16777223, 0, 24, 56) + struct.pack("<QQII", 7, 4000, 0, 0)
for number, pid in ((1, 300), (0, 200)):
    device = 0 if shared else number
    process = pid * 0x1000000
    main, autograd = process + 10, process + 11
    for step in range(2):
        t = 200 * step

        def work(name, launched, thread, start, end, stream, link):
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, 2)", (1000 * (t + launched), 1000 * (t + launched + 2), thread, link))
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
                       (1000 * (t + start), 1000 * (t + end), device, stream, link, process, name))

        work(0, 10, main, 30, 60, 7, 10 * step + 1)
        work(0, 40, autograd, 60, 100, 7, 10 * step + 2)
        work(1, 45, autograd, 104, 110 + number, 20, 10 * step + 3)
        work(0, 70, main, 112, 115, 7, 10 * step + 4)
        for name, start, end, thread in ((f"ProfilerStep#{step}", 0, 100, main), ("autograd::engine::evaluate_function: A, op_id = 7", 40, 60, autograd),
                                         ("Optimizer.step#SGD.step", 70, 90, main)):
            db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, NULL, NULL)", (1000 * (t + start), 1000 * (t + end), thread, name))
        if sizes:
            db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, NULL, 4, ?)", (1000 * (t + 44), 1000 * (t + 48), autograd, payload))
    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (313000, 314000, ?, 7, 14, ?, 64, 2)", (device, process))  # in the optimizer's call
    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 2000, ?, 7, 999, ?, 0, 0)", (device, process))
    db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (3000, 4000, ?, 7, 0, ?, 64)", (number, process))
if shared:  # so that a memset is little of what a process does
    db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (3000, 4000, 0, 7, 0, ?, 64)", [(pid * 0x1000000,) for pid in (200, 300) for _ in range(5)])
db.execute("INSERT INTO NVTX_EVENTS VALUES (1, NULL, 34, 0, 'mark', NULL, NULL)")
db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (9000, 8000, 0, 7, 0, ?, 64)", (200 * 0x1000000,))
db.commit()
