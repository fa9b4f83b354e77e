"""The network of `verbena perf train` in PyTorch: one process, or DistributedDataParallel over gloo.

Arguments: processes (1 or 2) and the data set's folder. Prints "ready" after one warm data epoch; then
for each line with a number of seconds on stdin it trains about so long and prints samples/s; 0 ends it. For
comparison only: verbena neither needs nor links any of this.
"""
import gzip
import os
import sys
import tempfile
import time

import numpy
import torch
import torch.distributed

BATCH = 100


def load(folder):
    with gzip.open(f"{folder}/train-images-idx3-ubyte.gz") as f:
        x = numpy.frombuffer(f.read(), numpy.uint8, offset=16).reshape(-1, 784)
    with gzip.open(f"{folder}/train-labels-idx1-ubyte.gz") as f:
        y = numpy.frombuffer(f.read(), numpy.uint8, offset=8)
    return torch.from_numpy(x.astype(numpy.float32) / 255), torch.from_numpy(y.astype(numpy.int64))


class Trainer:
    def __init__(self, rank, procs, folder):
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[rank % len(cpus)]})
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.rank, self.procs, self.at = rank, procs, 0
        self.x, self.y = load(folder)
        relu = torch.nn.ReLU
        net = torch.nn.Sequential(torch.nn.Linear(784, 256), relu(), torch.nn.Linear(256, 128), relu(),
                                  torch.nn.Linear(128, 10))
        self.net = torch.nn.parallel.DistributedDataParallel(net) if procs > 1 else net
        self.loss = torch.nn.CrossEntropyLoss()
        self.sgd = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.order = torch.randperm(len(self.y))

    def steps(self, n):
        part = BATCH // self.procs
        begun = time.monotonic()
        for _ in range(n):
            if self.at + BATCH > len(self.y):
                self.order, self.at = torch.randperm(len(self.y)), 0
            at = self.at + self.rank * part
            take = self.order[at:at + part]
            self.sgd.zero_grad()
            self.loss(self.net(self.x[take]), self.y[take]).backward()
            self.sgd.step()
            self.at += BATCH
        return n * BATCH / (time.monotonic() - begun)


def rank_main(rank, procs, folder, meet, lines_in, out):
    if procs > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{meet}", rank=rank,
                                             world_size=procs)
    trainer = Trainer(rank, procs, folder)
    rate = torch.tensor([trainer.steps(len(trainer.y) // BATCH)])
    if rank == 0:
        print("ready", file=out, flush=True)
    while True:
        seconds = torch.zeros(1)
        if rank == 0:
            line = lines_in.readline().split()
            seconds[0] = float(line[0]) if line else 0
        if procs > 1:
            torch.distributed.broadcast(seconds, 0)
            torch.distributed.broadcast(rate, 0)
        if seconds[0] <= 0:
            return
        rate[0] = trainer.steps(max(1, int(seconds[0] * rate[0] / BATCH)))
        if rank == 0:
            print(f"{rate[0]:.1f}", file=out, flush=True)


def main():
    procs, folder = int(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as d:
        pids = []
        for rank in range(1, procs):
            pid = os.fork()
            if pid == 0:
                rank_main(rank, procs, folder, d + "/meet", None, None)
                os._exit(0)
            pids.append(pid)
        rank_main(0, procs, folder, d + "/meet", sys.stdin, sys.stdout)
        for pid in pids:
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
