"""What to do about a finding: one sentence for each kind."""

from __future__ import annotations

from ..checking import Finding

#: What each check looks for, in a line. The names of the second group are no checks that can be chosen: they end a
#: launch on the simulator whatever is checked.
DESCRIPTIONS = {
    "oob": "access outside the memory that the kernel was given",
    "race": "two accesses to the same bytes, one of them writing, that nothing orders",
    "uninit": "a value that nobody wrote decides a branch or an address, or is stored",
    "barrier": "a barrier that not all work-items reach, or a multicast that not all of its work-groups make",
    "nan": "a NaN or an infinity made from finite operands",
    "buffer": "a buffer access outside the range of its descriptor",
    "approx": "a branch or an address that depends on an approximate instruction",
    "late": "plain stores reach other devices only when they are released: what relied on more computes wrong values",
    "stale": "plain loads see what other devices wrote only when it is acquired: what relied on more computes wrong",
    "address": "an access that is not aligned",
    "progress": "a loop that never ends",
    "trap": "a trap or a failed assertion",
    "unsupported": "an instruction that the simulator does not execute",
    "launch": "a launch that could not run",
}

_TRANSFERS = ("lds_load", "load_lds", "to_lds", "from_lds", "load_async", "store_async", "tensor_load", "tensor_store")


def _is_transfer(instruction: str) -> bool:
    """True for instructions that move between memory and LDS beside the wave."""
    return any(part in instruction for part in _TRANSFERS) or instruction.rstrip().endswith(" lds")


def _race(finding: Finding) -> str:
    site, other = finding.site, finding.other
    if other is not None and site.workgroup != other.workgroup:
        return ("work-groups of a launch run in any order: use atomic operations, give each work-group memory of its "
                "own, or make two launches of it")
    if finding.space != "lds":
        return "put a barrier with release and acquire (__syncthreads()) between the two accesses"
    if _is_transfer(site.instruction) or (other is not None and _is_transfer(other.instruction)):
        return ("a transfer to or from LDS runs beside its wave: wait for its counter, and then at a barrier, before "
                "another access")
    return "put a barrier (__syncthreads()) between the two accesses, or give each wave LDS of its own"


def _uninit(finding: Finding) -> str:
    if finding.space in ("lds", "private"):
        return "write this memory on every path that leads here, or do not read the part that was not written"
    if finding.space == "global":
        return "fill the allocation before the launch (hipMemset, zeros instead of empty), or mask the load"
    return "give the variable a value on every path that leads here"


def hint(finding: Finding) -> str:
    """What to change, in a sentence."""
    if finding.check == "race":
        return _race(finding)
    if finding.check == "uninit":
        return _uninit(finding)
    if finding.check == "barrier" and finding.site.access == "multicast":
        return "each work-group of the mask makes the same requests: correct its mask, address or loop count"
    if finding.check == "oob" and finding.space == "lds":
        return "hardware drops the store or reads zero: allocate more LDS, or correct the index"
    return {
        "oob": "compare the index with the size that the kernel is given, and mask what lies outside (host memory that "
               "a kernel uses needs hipHostMalloc, hipHostRegister or FLYDSL_SIM_HOST_MEMORY=mapped)",
        "address": "align the address to the size of the access",
        "barrier": "move the barrier out of the branch, or return from no work-item before it",
        "nan": "look at the operands here: a division by zero, a logarithm or root of a negative number, an overflow",
        "buffer": "legal (loads give zero, stores are dropped); if it is not meant, correct index or descriptor",
        "approx": "hardware may differ in the last bits of the value: decide with a tolerance",
        "late": "release at system scope what was stored, before the signal that another device waits for",
        "stale": "acquire at system scope after the signal, before what it announces is read",
        "progress": "no other wave can change what this loop waits for: a flag that nobody sets, or a work-group that "
                    "waits for one which is not resident",
        "trap": "an assertion of the kernel failed, or it reached code that it declares unreachable",
        "unsupported": "nothing is wrong with the kernel as far as is known; `python -m flydsl.runtime coverage` lists "
                       "the instructions",
        "launch": "see the message",
    }.get(finding.check, "see the message")
