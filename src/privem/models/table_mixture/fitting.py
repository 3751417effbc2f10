"""draft"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
import numpy as np
from ...tree import Array

F = np.float32


@dataclass(frozen=True)
class Noisy:
    """T (v, p, p) shares; mask; margins (p,) shares and weights; target margin."""
    bins: tuple[int, ...]
    pairs: np.ndarray      # (v,p,p) float32, shares of the count
    measured: np.ndarray   # (p,p) float32 0/1
    margins: np.ndarray    # (p,)
    margin_weights: np.ndarray  # precision relative to a pair cell's
    target: np.ndarray     # (v,)
    target_weight: float
    relative: float        # deviation of a pair cell's noise over the count

    @property
    def columns(self):
        return np.repeat(np.eye(len(self.bins), dtype=F), self.bins, axis=0)

    @classmethod
    def of(cls, bins, pairs, tables, deviation, margins, margin_deviations, target, target_deviation, count):
        offs = np.cumsum([0, *bins]); p = int(offs[-1]); v = tables[0].shape[2] if tables[0].ndim == 3 else 1
        T = np.zeros((v, p, p), F); M = np.zeros((p, p), F)
        for (i, j), t in zip(pairs, tables):
            t = (t.reshape(bins[i], bins[j], v) / count).astype(F).transpose(2, 0, 1)
            a, b = slice(offs[i], offs[i+1]), slice(offs[j], offs[j+1])
            T[:, a, b] = t; T[:, b, a] = t.transpose(0, 2, 1); M[a, b] = 1; M[b, a] = 1
        w = (deviation / margin_deviations) ** 2
        return cls(tuple(bins), T, M, (margins / count).astype(F), w.astype(F), (target/count).astype(F), float((deviation/target_deviation)**2) if v > 1 else 0.0, deviation / count)


def marginal_logits(noisy):
    """Smoothed marginals: shares >= small."""
    bins = noisy.bins; offs = np.cumsum([0, *bins]); out = []
    for i in range(len(bins)):
        m = noisy.margins[offs[i]:offs[i+1]].astype(float)
        u = np.sort(m)[::-1]; c = np.cumsum(u) - 1; r = np.nonzero(u - c/(np.arange(len(m))+1) > 0)[0][-1]
        q = np.maximum(m - c[r]/(r+1), 0)
        fl = 0.3 * noisy.relative / np.sqrt(noisy.margin_weights[offs[i]]) / bins[i] + 1e-6
        out.append(np.maximum(q, fl))
    return np.log(np.concatenate([q/q.sum() for q in out])).astype(F)


def fit_one(noisy, K, lam, steps, rng, lr=.05, start=None, b2=.99, spread=.7, trace=None):
    B = noisy.columns; p = len(B); v = len(noisy.pairs)
    L0 = marginal_logits(noisy)
    if start is None:
        L = (L0 + spread * rng.standard_normal((K, p))).astype(F)
        ty = np.maximum(noisy.target, 1e-4); ty = ty/ty.sum()
        a = (np.log(ty) + (rng.standard_normal((K, v)) if v > 1 else np.zeros((K, 1)))).astype(F) - F(math.log(K))
    else: L, a = start
    lamn = F(lam * noisy.relative**2)
    mL = np.zeros_like(L); vL = np.zeros_like(L); ma = np.zeros_like(a); va = np.zeros_like(a)
    def probs(L, a):
        E = np.exp(L); th = E / ((E @ B) @ B.T); e = np.exp(a - a.max()); return th, e / e.sum()
    tw = F(noisy.target_weight)
    for t in range(1, steps + 1):
        th, rho = probs(L, a)
        G = np.zeros_like(L); ga = np.empty_like(a)
        r = noisy.margin_weights * (rho.sum(1) @ th - noisy.margins)
        loss = 0.
        for y in range(v):
            w = rho[:, y]
            R = (th * w[:, None]).T @ th; R -= noisy.pairs[y]; R *= noisy.measured
            X = th @ R
            if trace is not None and t % trace[0] == 0: loss += .25*float(np.sum(R*R))
            ga[:, y] = .5 * np.einsum('kp,kp->k', X, th)
            X *= w[:, None]; G += X
        G += rho.sum(1)[:, None] * r
        ga += (th @ r)[:, None]
        if v > 1: ga += tw * (rho.sum(0) - noisy.target)
        G *= .5 if False else 1
        GL = th * (G - ((G * th) @ B) @ B.T)
        ga = rho * (ga - (ga * rho).sum())
        GL += lamn * (L - L0)
        if trace is not None and t % trace[0] == 0: trace[1].append((t, loss/noisy.relative**2, .5*lam*float(np.sum((L-L0)**2))))
        mL += F(.1) * (GL - mL); vL += F(1-b2) * (GL * GL - vL); ma += F(.1)*(ga-ma); va += F(1-b2)*(ga*ga-va)
        e = lr * (1 if t < steps*.6 else max(.05, (1-t/steps)/.4)) * math.sqrt(1-b2**t)/(1-.9**t)
        L -= F(e) * mL / (np.sqrt(vL) + F(1e-12)); a -= F(e) * ma / (np.sqrt(va) + F(1e-12))
        np.clip(L, -30, 30, out=L)
    th, rho = probs(L, a)
    return th.astype(float), rho.astype(float), (L, a)
