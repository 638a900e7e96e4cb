"""One round of bench/allreduce.c by torch.distributed over gloo; prints the same lines.

    allreduce_gloo.py RANKS
    allreduce_gloo.py --about        what this side is
"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank, ranks, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    size = 4 << 10
    while size <= 64 << 20:
        buf = torch.zeros(size // 4)
        n = min(max((256 << 20) // size, 7), 400)
        times = []
        dist.barrier()
        for i in range(-(n // 8 + 2), n):
            start = time.perf_counter()
            dist.all_reduce(buf)
            if i >= 0:
                times.append(time.perf_counter() - start)
        if rank == 0:
            print("gloo %d %d %.9f" % (ranks, size, statistics.median(times)), flush=True)
        size *= 4
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    import socket

    if sys.argv[1] == "--about":
        print(f"gloo of PyTorch {torch.__version__}, {torch.__config__.parallel_info().splitlines()[0].strip()}")
        sys.exit()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        free_port = s.getsockname()[1]
    count = int(sys.argv[1])
    mp.spawn(run, args=(count, free_port), nprocs=count)
