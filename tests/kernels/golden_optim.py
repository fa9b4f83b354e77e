"""Golden values of the optimizers and schedules that PyTorch has, as a C header on stdout.

Made with PyTorch 1.13: /usr/bin/python3 tests/kernels/golden_optim.py | clang-format >tests/kernels/golden_optim.h
"""
import math
import re
import warnings

import torch

warnings.filterwarnings("ignore")
N, STEPS = 12, 20
LR = torch.optim.lr_scheduler


def gradient(step):
    """Varied in sign and size, exact in float: a linear congruential sequence."""
    x = (step * N + 1) * 2654435761 % 2**32
    values = []
    for i in range(N):
        x = (1664525 * x + 1013904223) % 2**32
        values.append(((x >> 16) - 32768) / 2.0 ** (12 + i % 5))
    return values


def line(values):
    return ", ".join(re.sub("0+p", "p", float(v).hex()) + "f" for v in values)


def run(name, fields, make, clip_norm=None, schedule=None):
    w = torch.tensor([(i - 5.5) / 4 for i in range(N)], dtype=torch.float32, requires_grad=True)
    optimizer = make([w])
    scheduler = schedule(optimizer) if schedule else None
    for step in range(STEPS):
        w.grad = torch.tensor(gradient(step), dtype=torch.float32)
        if clip_norm:
            torch.nn.utils.clip_grad_norm_([w], clip_norm)
        optimizer.step()
        if scheduler:
            scheduler.step()
    print('{ "%s", { %s }, { %s } },' % (name, fields, line(w.detach().tolist())))


def warm(optimizer, after):
    first = LR.LambdaLR(optimizer, lambda k: (k + 1) / 5)
    return LR.SequentialLR(optimizer, [first, after], milestones=[5])


sgd = torch.optim.SGD
adam = dict(lr=0.01, betas=(0.9, 0.99), eps=1e-8)
adam_fields = ".rate = 0.01f, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f"

print("/* golden_optim.h - what PyTorch's optimizers make of the same gradients: see golden_optim.py. */")
print("#ifndef TESTS_KERNELS_GOLDEN_OPTIM_H\n#define TESTS_KERNELS_GOLDEN_OPTIM_H\n")
print('#include "kernels/optim.h"\n')
print("enum { GOLDEN_N = %d, GOLDEN_STEPS = %d };\n" % (N, STEPS))
print("static const float golden_gradient[GOLDEN_STEPS][GOLDEN_N] = {")
for s in range(STEPS):
    print("{ %s }," % line(gradient(s)))
print("};\n")
print("static const struct {\nconst char *name;\nstruct kn_opt o;\nfloat w[GOLDEN_N];\n} golden_run[] = {")
run("sgd", ".kind = KN_SGD, .rate = 0.1f", lambda p: sgd(p, lr=0.1))
run("sgd with decay", ".kind = KN_SGD, .rate = 0.1f, .weight_decay = 0.05f",
    lambda p: sgd(p, lr=0.1, weight_decay=0.05))
run("momentum", ".kind = KN_MOMENTUM, .rate = 0.05f, .beta1 = 0.9f, .weight_decay = 0.01f",
    lambda p: sgd(p, lr=0.05, momentum=0.9, weight_decay=0.01))
run("nesterov", ".kind = KN_NESTEROV, .rate = 0.05f, .beta1 = 0.9f, .weight_decay = 0.01f",
    lambda p: sgd(p, lr=0.05, momentum=0.9, weight_decay=0.01, nesterov=True))
run("adagrad", ".kind = KN_ADAGRAD, .rate = 0.1f, .eps = 1e-10f, .weight_decay = 0.01f",
    lambda p: torch.optim.Adagrad(p, lr=0.1, weight_decay=0.01))
run("rmsprop", ".kind = KN_RMSPROP, .rate = 0.01f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.01f",
    lambda p: torch.optim.RMSprop(p, lr=0.01, alpha=0.95, weight_decay=0.01))
run("adam", ".kind = KN_ADAM, " + adam_fields, lambda p: torch.optim.Adam(p, **adam))
run("adam with decay", ".kind = KN_ADAM, .weight_decay = 0.1f, " + adam_fields,
    lambda p: torch.optim.Adam(p, weight_decay=0.1, **adam))
run("adamw", ".kind = KN_ADAMW, .weight_decay = 0.5f, " + adam_fields,
    lambda p: torch.optim.AdamW(p, weight_decay=0.5, **adam))
run("sgd, clipped by norm", ".kind = KN_SGD, .rate = 0.1f, .clip_norm = 4.0f",
    lambda p: sgd(p, lr=0.1), clip_norm=4.0)
run("sgd, steps", ".kind = KN_SGD, .rate = 0.1f, .schedule = { .kind = KN_RATE_STEP, .every = 6, .gamma = 0.5 }",
    lambda p: sgd(p, lr=0.1), schedule=lambda o: LR.StepLR(o, 6, 0.5))
run("adamw, cosine", ".kind = KN_ADAMW, .weight_decay = 0.5f, %s, "
    ".schedule = { .kind = KN_RATE_COSINE, .every = 15, .floor = 0.1 }" % adam_fields,
    lambda p: torch.optim.AdamW(p, weight_decay=0.5, **adam),
    schedule=lambda o: LR.LambdaLR(o, lambda k: 0.1 + 0.9 * (1 + math.cos(math.pi * min(k, 15) / 15)) / 2))
run("sgd, warm-up and cosine", ".kind = KN_SGD, .rate = 0.1f, "
    ".schedule = { .kind = KN_RATE_COSINE, .warmup = 5, .every = 15 }",
    lambda p: sgd(p, lr=0.1), schedule=lambda o: warm(o, LR.CosineAnnealingLR(o, 15)))
print("};\n\n#endif")
