"""A party or a fit that misbehaves on purpose, as a process of its own.

:func:`act` is ``privem federate party ...`` with a plan carried out, a list of deeds. A deed is of
one ``round`` and ``phase`` (of a masked sum; "BEGIN" where a run is opened, "" under other
protections), once, or each time with ``always``.

``kill``     SIGKILL: a party when ``asked``, ``reserved`` (its cost is stored), ``answered``
             (nothing else is) or ``stored`` (nothing sent); a fit before it has ``asked``, or
             ``answered`` (nothing stored)
``sleep``    so many ``seconds`` between storing and sending; ``mark`` is a file that says so
``tamper``, ``truncate``, ``oversize``, ``huge``, ``replay``, ``swap``, ``early``, ``question``
             what is done to the message that leaves (a party's reply, a fit's request to ``to``)

and for the whole process: ``forge`` (signs with another key), ``lie`` (opens wrong shares),
``shuffle`` (a fit delivers in random order, and old messages again), ``noiseless`` (adds no noise),
``through`` (a party reaches the server by another ``address``),
``record`` (keeps every message and state, as it passes, in a folder), ``secrets`` (keeps a party's
sums before and after noise in a folder).
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

from privem.federation import sums as answering
from privem.federation.errors import Refused
from privem.federation.flower import MESSAGE_TYPE, transport
from privem.federation.flower import node as nodes
from privem.federation.flower.folders import PartyFolder
from privem.federation.flower.node import Node
from privem.federation.flower.transport import GridTransport
from privem.federation.party import party as partying
from privem.federation.party.account import account_of
from privem.federation.primitives import Identity
from privem.federation.protections.masked.messages import Phase, read_request
from privem.federation.protections.masked.party import MaskedParty
from privem.federation.wire.codec import MAX_BYTES, BadMessage, encode
from privem.federation.wire.messages import Request
from privem.noise import discrete
from privem.noise.discrete import lattice

PLAN: list[dict] = []
COUNT = iter(range(10**9))


def store(folder: str, name: str, content: bytes) -> None:
    """A file of its own; names are in the order of time."""
    Path(folder).mkdir(exist_ok=True)
    path = Path(folder) / f"{time.time_ns()}-{os.getpid()}-{next(COUNT)}-{name}"
    path.write_bytes(content)


def where(message: bytes) -> tuple[int, str]:
    """Round and phase of a request."""
    try:
        request = Request.from_bytes(message)
    except BadMessage:
        return -1, ""
    if request.round == 0:
        return 0, "BEGIN"
    try:
        return request.round, Phase(read_request(request.payload)[0]).name
    except Refused:
        return request.round, ""


def deed(what: set[str], at: tuple[int, str], **match: str) -> dict | None:
    """The deed that is due, if one is."""
    for one in PLAN:
        fits = (one.get("round", at[0]), one.get("phase", at[1])) == at
        if one["do"] in what and fits and all(one.get(k, v) == v for k, v in match.items()):
            if not one.get("always"):
                PLAN.remove(one)
            return one
    return None


def whole(what: str) -> dict | None:
    """A deed for the whole process."""
    return next((one for one in PLAN if one["do"] == what), None)


def die(at: tuple[int, str], moment: str) -> None:
    if deed({"kill"}, at, moment=moment):
        os.kill(os.getpid(), signal.SIGKILL)


def mangled(what: str, message: bytes, old: bytes) -> bytes:
    """What becomes of a message."""
    match what:
        case "tamper":  # the last bytes are a signature, a mask or a share
            return message[:-9] + bytes([message[-9] ^ 1]) + message[-8:]
        case "truncate":
            return message[:-9]
        case "oversize":
            return message + bytes(2**20)
        case "huge":
            return message + bytes(MAX_BYTES)
        case "replay":
            return old
    raise ValueError(what)


MANGLE = {"tamper", "truncate", "oversize", "huge", "replay"}


class Leaving:
    """A party's replies on their way out."""

    def __init__(self) -> None:
        self.at, self.old = (-1, ""), b""

    def watch(self) -> None:
        handle, content, keep = partying.Party.handle, nodes.content, PartyFolder.keep

        def asked(party: partying.Party, message: bytes) -> bytes:
            self.at = where(message)
            if record := whole("record"):
                store(record["folder"], "in", message)
            die(self.at, "asked")
            return handle(party, message)

        def leaving(reply: bytes):
            die(self.at, "stored")
            if late := deed({"sleep"}, self.at):
                Path(late["mark"]).touch()
                time.sleep(late["seconds"])
            honest, bad = reply, deed(MANGLE, self.at)
            if bad is not None:
                reply = mangled(bad["do"], reply, self.old)
            self.old = honest
            if record := whole("record"):
                store(record["folder"], "out", reply)
            return content(reply)

        def kept(folder: PartyFolder, state: bytes) -> None:
            reserved = account_of(state).reserved
            if not reserved:
                die(self.at, "answered")
            if record := whole("record"):
                store(record["folder"], "state", state)
            keep(folder, state)
            if reserved:
                die(self.at, "reserved")

        partying.Party.handle, nodes.content, PartyFolder.keep = asked, leaving, kept


def altered(one: dict, mail: dict[str, bytes], old: dict[str, bytes]) -> dict[str, bytes]:
    """A fit's mail, with one party's message changed."""
    to, mail = one["to"], dict(mail)
    match one["do"]:
        case "swap":
            other = next(name for name in mail if name != to)
            mail[to], mail[other] = mail[other], mail[to]
        case "early":  # the phase after this one
            body = Request.from_bytes(mail[to])
            payload = body.payload[:5] + bytes([body.payload[5] + 1]) + body.payload[6:]
            mail[to] = Request(**{**vars(body), "payload": payload}).to_bytes()
        case "question":  # another one than the other parties are asked
            body = Request.from_bytes(mail[to])
            changed = body.question.replace(b'"name":"', b'"name":"x', 1)
            changed = changed[:5] + (len(changed) - 9).to_bytes(4, "little") + changed[9:]
            mail[to] = Request(**{**vars(body), "question": changed}).to_bytes()
        case "oversize":  # well formed, but more than a masked sum ever asks
            body = Request.from_bytes(mail[to])
            payload = body.payload + bytes(2**20)
            mail[to] = Request(**{**vars(body), "payload": payload}).to_bytes()
        case other:
            mail[to] = mangled(other, mail[to], old[to])
    return mail


def drive() -> None:
    """A fit's requests on their way out, and what comes back."""
    exchange, send = GridTransport.exchange, GridTransport._send
    every: list[tuple[str, bytes]] = []
    first: dict[str, bytes] = {}
    kinds = MANGLE | {"swap", "early", "question"}
    rng = random.Random(0)

    def exchanged(self, mail):
        at = where(next(iter(mail.values())))
        bad = deed(kinds, at)
        first.update({name: m for name, m in mail.items() if name not in first})
        sent = mail if bad is None else altered(bad, mail, first)
        record = whole("record")
        for name, message in sent.items() if record else ():
            store(record["folder"], f"{name}-asked", message)
        die(at, "asked")
        replies = exchange(self, sent)
        die(at, "answered")
        for name, message in replies.items() if record else ():
            store(record["folder"], f"{name}-answered", message)
        return dict(reversed(replies.items())) if whole("shuffle") else replies

    def shuffled(self, mail):
        from flwr.app import Message

        if not mail:
            return send(self, mail)
        mixed = rng.sample(sorted(mail), len(mail))
        found = dict.fromkeys(mail, "")
        for name in mixed:
            found |= send(self, {name: mail[name]})
            for again, message in rng.sample(every, min(2, len(every))):  # nobody reads the answers
                here = self._node(again)
                self._grid.push_messages([Message(transport.content(message), here, MESSAGE_TYPE)])
            every.append((name, mail[name]))
        return found

    GridTransport.exchange = exchanged
    if whole("shuffle"):
        GridTransport._send = shuffled


def keep_secrets(folder: str) -> None:
    """What must never be seen: sums before noise, and a party's own after it."""
    noisy = answering._noisy

    def noted(sums, question, share, entropy):
        found = noisy(sums, question, share, entropy)
        before, decoded = np.empty(sums.size, np.int64), np.empty(sums.size)
        groups = question.query.groups(question.noise.neighbours)
        for group, spent in zip(groups, question.prices, strict=True):
            before[group.where] = lattice(sums[group.where], spent)
            decoded[group.where] = before[group.where] * spent.grid
        body = {
            "question": hashlib.sha256(question.to_bytes()).digest(),
            "sums": np.array(sums),
            "before": before,
            "decoded": decoded,
            "after": found,
        }
        store(folder, "secret", encode("secret", body))
        return found

    answering._noisy = noted


def act(plan: list[dict], words: list[str]) -> None:
    """``privem`` with these words, and the deeds of the plan."""
    PLAN.extend(plan)
    if whole("forge"):
        forger = Identity.new()
        Identity.sign = lambda self, message: forger._key.sign(message)
    if whole("lie"):
        honest = MaskedParty._open_shares
        MaskedParty._open_shares = lambda *a: (row := honest(*a))[:-1] + bytes([row[-1] ^ 1])
    if whole("noiseless"):
        discrete.draw = lambda spent, size, *rest: np.zeros(size, np.int64)
    if secrets := whole("secrets"):
        keep_secrets(secrets["folder"])
    if through := whole("through"):
        direct = Node.__init__
        Node.__init__ = lambda self, app, address, *a: direct(self, app, through["address"], *a)
    if plan:
        drive() if words[1] == "run" else Leaving().watch()
    from privem.cli import main

    sys.argv = ["privem", *words]
    main()
