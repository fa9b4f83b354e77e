"""gloo's all-reduce, as a baseline for `verbena perf allreduce`.

Arguments: processes and bytes. Prints "ready"; then for each line with a number on stdin it makes so many
all-reduces of that many bytes of floats and prints the seconds. 0 or the end of stdin ends it. For
comparison only: verbena neither needs nor links any of this.
"""
import os
import sys
import tempfile
import time

import torch
import torch.distributed


def rank_main(rank, procs, count, meet):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=procs)
    x = torch.zeros(max(1, count // 4))
    torch.distributed.all_reduce(x)
    if rank == 0:
        print("ready", flush=True)
    while True:
        n = torch.zeros(1)
        if rank == 0:
            line = sys.stdin.readline().split()
            n[0] = float(line[0]) if line else 0
        torch.distributed.broadcast(n, 0)
        if n[0] <= 0:
            return
        begun = time.monotonic()
        for _ in range(int(n[0])):
            torch.distributed.all_reduce(x)
        if rank == 0:
            print(f"{time.monotonic() - begun:.9g}", flush=True)


def main():
    procs, count = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as d:
        pids = []
        for rank in range(1, procs):
            pid = os.fork()
            if pid == 0:
                rank_main(rank, procs, count, d + "/meet")
                os._exit(0)
            pids.append(pid)
        rank_main(0, procs, count, d + "/meet")
        for pid in pids:
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
