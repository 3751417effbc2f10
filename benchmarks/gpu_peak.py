"""What a device does at best: copies, products of large matrices, and products of tensor cores."""

from __future__ import annotations

from functools import partial

import torch

# Products of 16 x 8 by 8 x 8 numbers, over and over, by all warps.
MMA = """
template <class T> __device__ void go(T* out, long long turns) {
    T c[8][4] = {}, a = threadIdx.x;
    for (long long i = 0; i < turns; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) asm volatile(MNEMONIC " {%0, %1, %2, %3}, {%4, %4, %4, %4}, "
            "{%4, %4}, {%0, %1, %2, %3};" : C(c[j][0]), C(c[j][1]), C(c[j][2]), C(c[j][3]) : A(a));
    for (int j = 0; j < 8; j++) out[blockIdx.x * blockDim.x + threadIdx.x] += c[j][0] + c[j][3];
}
extern "C" __global__ void rate(NUMBER* out, long long turns) { go(out, turns); }
"""
KINDS = {
    torch.float32: ("float", "f32.tf32.tf32.f32", '"+f"(x)', '"r"(__float_as_uint(x))'),
    torch.float64: ("double", "f64.f64.f64.f64", '"+d"(x)', '"d"(x)'),
}


def tensor_cores(clock, dtype: torch.dtype) -> float:
    """TFLOP/s of the instruction that the compiled kernels use."""
    import cupy

    from privem.kernels.launches import launch

    number, types, given, taken = KINDS[dtype]
    name = f'"mma.sync.aligned.m16n8k8.row.col.{types}"'
    head = f"#define NUMBER {number}\n#define MNEMONIC {name}\n"
    head += f"#define C(x) {given}\n#define A(x) {taken}\n"
    module = cupy.RawModule(code=head + MMA, options=("-std=c++17",))
    blocks, threads, turns = (
        4 * torch.cuda.get_device_properties(0).multi_processor_count,
        256,
        4000,
    )
    out = torch.zeros(blocks * threads, dtype=dtype, device="cuda")
    ms = clock.time(lambda: launch(module, "rate", (blocks, 1), threads, out, (out, turns), torch))
    return blocks * threads / 32 * turns * 8 * 2048 / ms / 1e9


def peak(options, clock) -> list[dict]:
    """What the device does at best: copies, and products of large matrices."""
    n = 2**20 if options.quick else 2**30
    a = torch.randn(n, device=options.device)
    b = torch.empty_like(a)
    ms = clock.time(partial(b.copy_, a))
    print(f"copy                   {8 * n / ms / 1e6:6.0f} GB/s", flush=True)
    rows = [{"case": "copy", "GB/s": 8 * n / ms / 1e6}]
    del a, b
    size = 512 if options.quick else 8192
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(size, size, device=options.device, dtype=dtype)
        ms = clock.time(lambda x=x: x @ x)
        rate = 2 * size**3 / ms / 1e9
        print(f"product {str(dtype)[6:]}        {rate:6.1f} TFLOP/s", flush=True)
        rows.append({"case": f"product {dtype}", "TFLOP/s": rate})
        if "cuda" in options.paths:
            rate = tensor_cores(clock, dtype)
            print(
                f"mma {'tf32' if dtype == torch.float32 else 'float64':18s} {rate:6.1f} TFLOP/s",
                flush=True,
            )
            rows.append({"case": f"mma {dtype}", "TFLOP/s": rate})
    return rows
