#!/usr/bin/python3
"""Makes golden.txt: what PyTorch and numpy say the ops compute. Only run by hand, when ops are added:
    apt-get install python3-torch; /usr/bin/python3 tests/session/golden.py > tests/session/golden.txt
A case is a line "op NAME", lines "attr NAME NUMBER", "in TYPE DIM...: VALUES", and one "out TYPE DIM...: VALUES"."""
import numpy as np
import torch

rng = np.random.default_rng(7)
TYPES = {"float32": "f32", "int32": "i32", "int64": "i64", "bool": "bool"}


def tensor(word, x):
    x = np.asarray(x)
    values = " ".join(repr(float(v)) if x.dtype == np.float32 else str(int(v)) for v in x.reshape(-1))
    print(word, TYPES[str(x.dtype)], *x.shape, ":", values)


def case(op, out, *inputs, **attrs):
    print("op", op)
    for name, v in attrs.items():
        print("attr", name, v)
    for x in inputs:
        tensor("in", x)
    tensor("out", out.numpy() if isinstance(out, torch.Tensor) else out)


def f(*shape):
    return (rng.standard_normal(shape) * 2).astype(np.float32)


def t(x):
    return torch.from_numpy(np.ascontiguousarray(x))


for name, fn in {"neg": torch.neg, "abs": torch.abs, "exp": torch.exp, "square": torch.square, "tanh": torch.tanh,
                 "sigmoid": torch.sigmoid, "gelu": torch.nn.functional.gelu, "relu": torch.relu, "floor": torch.floor,
                 "sign": torch.sign}.items():
    x = f(3, 4)
    case(name, fn(t(x)), x)
for name, fn in {"log": torch.log, "sqrt": torch.sqrt}.items():
    x = np.abs(f(2, 5)) + np.float32(0.1)
    case(name, fn(t(x)), x)
for name, fn in {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
                 "minimum": torch.minimum, "equal": torch.eq, "not_equal": torch.ne, "less": torch.lt,
                 "less_equal": torch.le, "greater": torch.gt, "greater_equal": torch.ge}.items():
    for a, b in (((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1, 3), (4, 1)), ((1,), (2, 2))):
        x, y = np.round(f(*a)), np.round(f(*b)) + np.float32(name == "div") * 9
        case(name, fn(t(x), t(y)), x, y)
x = f(3, 5)
case("softmax", torch.softmax(t(x), -1), x)
case("log_softmax", torch.log_softmax(t(x * 20), -1), x * 20)
case("argmax", torch.argmax(t(x), -1).to(torch.int32), x)
x = f(2, 3, 4)
for axes, keep in ((1, 0), (2, 1), (6, 0), (5, 1), (7, 0)):
    dims = tuple(i for i in range(3) if axes >> i & 1)
    case("reduce_sum", t(x).sum(dims, keepdim=bool(keep)), x, axes=axes, keep=keep)
    case("reduce_mean", t(x).mean(dims, keepdim=bool(keep)), x, axes=axes, keep=keep)
    case("reduce_max", t(x).amax(dims, keepdim=bool(keep)), x, axes=axes, keep=keep)
case("reshape", t(x).reshape(4, 6), x, rank=2, dim0=4, dim1=-1)
case("transpose", t(x).permute(2, 0, 1), x, perm0=2, perm1=0, perm2=1)
case("slice", x[1:2, :, 1:3], x, begin0=1, begin1=0, begin2=1, size0=1, size1=-1, size2=2)
y = f(2, 2, 4)
case("concat", torch.cat([t(x), t(y), t(x)], 1), x, y, x, axis=1)
table, index = f(5, 3), np.array([[4, 0], [2, 2]], np.int32)
case("gather", t(table)[t(index).long()], table, index)
case("one_hot", torch.nn.functional.one_hot(t(index).long(), 6).to(torch.float32), index, depth=6)
case("select", torch.where(t(x) > 0, t(x), t(-x)), x > 0, x, -x)
case("cast", np.array([-1, 2, 0, 7], np.int32), np.array([-1.9, 2.5, 0.1, 7], np.float32), type=1)
case("cast", np.array([1, 0, 1], bool), np.array([0.5, 0, -3], np.float32), type=3)
case("cast", np.array([5, -2], np.float32), np.array([5, -2], np.int64), type=0)
case("scale", t(x) * -1.5 + 0.25, x, factor=-1.5, offset=0.25)
a, b = f(3, 4), f(4, 2)
case("matmul", t(a) @ t(b), a, b)
case("matmul", t(b).T @ t(a).T, b, a, ta=1, tb=1)
for da, db, ta, tb in (((2, 3, 4), (4, 2), 0, 0), ((2, 3, 4), (2, 4), 0, 1), ((3, 2, 4), (3, 4, 2), 0, 0),
                       ((3, 4, 2), (3, 4, 5), 1, 0), ((2, 1, 2, 3), (2, 1, 4, 3), 0, 1), ((2, 3, 2), (2, 4, 3), 1, 1)):
    a, b = f(*da), f(*db)
    case("matmul", (t(a).mT if ta else t(a)) @ (t(b).mT if tb else t(b)), a, b, ta=ta, tb=tb)
x, gain, bias = f(2, 3, 5), f(5), f(5)
case("layer_norm", torch.nn.functional.layer_norm(t(x), (5,), t(gain), t(bias), 1e-5), x, gain, bias, eps=1e-5)
logits, labels = f(4, 5), np.array([1, 0, 4, 2], np.int32)
case("softmax_cross_entropy", torch.nn.functional.cross_entropy(t(logits), t(labels).long(), reduction="sum"), logits,
     labels)
