"""How long an exchange takes: a model of the links between the GPUs of a node. Every number of it is an estimate.

The simulator does not time links. This is arithmetic on a table of peak bandwidths, most of which come from data
sheets, and of latencies, which do not; it says which way of an exchange to prefer, and what bounds it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..target import Target
from .config import IN_PLACE, KINDS, PACK_BYTES, THREADS, piece_of
from .peers import BLOCKS

__all__ = ["LINKS", "Estimate", "Links", "Phase", "Step", "estimate", "mega_moe_step", "phases"]


@dataclass(frozen=True)
class Links:
    """Of one GPU.

    Attributes:
        peers: GPUs that have a link of their own; 0: all share one port.
        link_gbs: peak of one link (or of the port) in one direction, 10**9 bytes a second.
        memory_gbs: peak of the own memory.
        store_us: from a store to a peer's memory until the peer can see it.
        load_us: of a load from a peer's memory.
        efficiency: of the peaks that long streams reach.
        source: of the bandwidths; the latencies and the efficiency are assumed, not looked up.
    """

    peers: int
    link_gbs: float
    memory_gbs: float
    store_us: float
    load_us: float
    efficiency: float
    source: str


LINKS = {
    "gfx942": Links(7, 64.0, 5300.0, 1.0, 2.0, 0.85,
                    "AMD Instinct MI300X data sheet: 7 Infinity Fabric links of 128 GB/s in both directions to peers, "
                    "5.3 TB/s"),
    "gfx950": Links(7, 76.8, 8000.0, 1.0, 2.0, 0.85,
                    "AMD Instinct MI355X data sheet: 7 links of 153.6 GB/s in both directions to peers, 8 TB/s"),
    "gfx120": Links(0, 64.0, 640.0, 1.5, 3.0, 0.8, "PCI Express 5.0 x16, 64 GB/s in one direction; AMD Radeon RX 9070 "
                    "XT: 640 GB/s"),
}


@dataclass(frozen=True)
class Phase:
    """What an exchange does between two barriers. Traffic of links and of the own memory is in flight at one time.

    Attributes:
        link: bytes that come in over each link.
        memory: bytes that the own memory reads and writes, also for peers.
        loads: it begins with a load from a peer.
        stores: it stores to peers, which the signal must not overtake.
        meets: it ends with a barrier.
    """

    link: float = 0.0
    memory: float = 0.0
    loads: bool = False
    stores: bool = False
    meets: bool = True


@dataclass(frozen=True)
class Estimate:
    """Of one exchange, in seconds; an estimate.

    Attributes:
        seconds: all of it; what follows are its parts.
        link: the busiest link at its peak: no way of this kind is faster.
        sustained: the same at the rate that long streams reach.
        memory: reading and writing the own memory, at its peak.
        latency: barriers, first loads and last stores: an exchange of one element.
    """

    seconds: float
    link: float
    sustained: float
    memory: float
    latency: float


def phases(kind: str, nbytes: float, ranks: int, share_packs: int) -> list[Phase]:
    """The account of an exchange of `nbytes` on every rank, whose shares have `share_packs` packs."""
    size, share = nbytes, nbytes / ranks
    publish = Phase(memory=2 * size)
    if kind == "all_reduce":
        return [publish, Phase(size, (ranks + 1) * size, loads=True)]
    if kind == "all_reduce_two_stage":
        return [publish, Phase(share, size + share, loads=True), Phase(share, 2 * size, loads=True)]
    if kind == "all_reduce_write":
        step = BLOCKS * THREADS
        pieces = max(-(-share_packs // max(piece_of(share_packs, step), 1)), 1)
        link, memory, found = share / pieces, 2 * size / pieces, []
        for turn in range(pieces + 2):
            busy = (turn < pieces) + (1 <= turn <= pieces)  # of the two that use links
            found.append(Phase(link * busy, memory * (busy + (turn >= 2)), stores=busy > 0, meets=turn <= pieces))
        return found
    if kind == IN_PLACE:
        return [Phase(), Phase(2 * share, 2 * size, loads=True, stores=True)]
    if kind == "all_gather":
        return [publish, Phase(size, 2 * ranks * size, loads=True)]
    return [publish, Phase(share, size + (share if kind == "reduce_scatter" else size), loads=True)]


def estimate(kind: str, nbytes: int, ranks: int, target: Target, fp8: bool = False, bits: int = 16) -> Estimate:
    """Of an exchange of an operand of `nbytes` on every rank.

    Args:
        kind: see :data:`flydsl.kernels.comm.config.KINDS`; or ``"all_reduce_in_place"`` of a symmetric tensor.
        fp8: elements of `bits` bits travel as 8, with a scale of 32 bits for 128 of them.

    Raises:
        ValueError: no such exchange, or no public figures of the architecture's links.
    """
    known = (*KINDS, IN_PLACE)
    if kind not in known:
        raise ValueError(f"estimate: no exchange {kind!r}: known are {', '.join(known)}")
    if target.arch not in LINKS:
        raise ValueError(f"estimate: no public figures of the links of {target.name}")
    links = LINKS[target.arch]
    shrunk = (8 + 32 / 128) / bits if fp8 else 1.0
    ways = 1 if links.peers else ranks - 1  # one port carries what comes from all
    of_link, of_memory = shrunk * ways / (links.link_gbs * 1e9), 1 / (links.memory_gbs * 1e9)
    account = phases(kind, nbytes, ranks, -(-nbytes // (ranks * PACK_BYTES)))
    link, memory = (sum(getattr(p, name) for p in account) * rate
                    for name, rate in (("link", of_link), ("memory", of_memory)))
    latency = sum(p.loads * links.load_us + (p.stores + 1) * p.meets * links.store_us for p in account) * 1e-6
    moving = sum(max(p.link * of_link, p.memory * of_memory) for p in account) / links.efficiency
    return Estimate(moving + latency, link, link / links.efficiency, memory, latency)


@dataclass(frozen=True)
class Step:
    """A step of a mixture of experts over several ranks, in seconds; an estimate.

    Attributes:
        seconds: all of it.
        transport: of rows to the experts and back, at the rate that links sustain.
        compute: both products, bound by the matrix unit or by the weights that are read.
        latency: barriers, first loads, and what cannot overlap: the rows of the first expert, and the last results.
    """

    seconds: float
    transport: float
    compute: float
    latency: float


def mega_moe_step(tokens: int, *, model: int, inter: int, experts: int, topk: int, ranks: int, target: Target,
                  tflops: float, quantised: bool = False) -> Step:
    """Of :class:`flydsl.kernels.comm.mega.MegaMoEV2`: every rank has `tokens` tokens, all experts as many rows.

    Each stage takes the longer of its transport and its products, which overlap.

    Args:
        tflops: 10**12 operations a second that the products reach, measured or of the timing model.
        quantised: results travel in 8 bits.

    Raises:
        ValueError: no public figures of the architecture's links.
    """
    if target.arch not in LINKS:
        raise ValueError(f"mega_moe_step: no public figures of the links of {target.name}")
    links, local, rows = LINKS[target.arch], experts // ranks, tokens * topk
    sustained = links.efficiency * links.link_gbs * 1e9 / (1 if links.peers else ranks - 1)
    micro = model * (1 + 1 / 32)
    ways = [rows / ranks * nbytes / sustained for nbytes in (micro, micro if quantised else 2 * model)]
    read = min(local, rows) * model * (0.5 + 1 / 32) / (links.efficiency * links.memory_gbs * 1e9)
    products = [max(rows * 2 * model * width / (tflops * 1e12), read * width) for width in (2 * inter, inter)]
    latency = (3 * links.store_us + links.load_us) * 1e-6 + ways[0] / min(local, rows) + ways[1] / max(rows, 1)
    seconds = sum(max(way, product) for way, product in zip(ways, products, strict=True)) + latency
    return Step(seconds, sum(ways), sum(products), latency)
