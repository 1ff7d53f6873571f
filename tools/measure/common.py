"""What the measuring scripts share: the memory of this process as the driver sees it, the allocator's
recorded history as events, xz output.  Needs PyTorch; nothing here touches the card on import."""
import ctypes
import lzma
import os
import subprocess
import sys
import time

SENTINEL = 77  # bytes: an allocation of this size separates two calls in a recorded history


def log(*a):
    print(*a, file=sys.stderr, flush=True)


class _Proc(ctypes.Structure):  # nvmlProcessInfo_t, versions 2 and 3
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]


_nvml = None


def _nvml_bytes(pid):
    global _nvml
    if _nvml is None:
        lib = ctypes.CDLL("libnvidia-ml.so.1")
        if lib.nvmlInit_v2() != 0:
            raise OSError("nvmlInit")
        dev = ctypes.c_void_p()
        if lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(dev)) != 0:
            raise OSError("nvml handle")
        _nvml = (lib, dev)
    lib, dev = _nvml
    n = ctypes.c_uint(256)
    arr = (_Proc * 256)()
    if lib.nvmlDeviceGetComputeRunningProcesses_v3(dev, ctypes.byref(n), arr) != 0:
        raise OSError("nvml processes")
    for i in range(n.value):
        if arr[i].pid == pid and arr[i].used < 1 << 60:
            return arr[i].used
    return None


def process_bytes():
    """Bytes of the card this process holds, or None where the driver does not say."""
    pid = os.getpid()
    try:
        v = _nvml_bytes(pid)
        if v is not None:
            return v
    except Exception:
        pass
    try:
        out = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                             capture_output=True, text=True, timeout=20).stdout
        for line in out.splitlines():
            p, m = line.split(",")
            if int(p) == pid:
                return int(m) << 20
    except Exception:
        pass
    return None


def device_used():
    """Bytes in use on the whole card, by every process."""
    import torch
    free, total = torch.cuda.mem_get_info()
    return total - free


def record(on=True, entries=4_000_000):
    import torch
    if on:
        torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=entries)
    else:
        torch.cuda.memory._record_memory_history(enabled=None)


def trace():
    """The recorded entries of device 0, oldest first."""
    import torch
    return torch.cuda.memory._snapshot()["device_traces"][0]


def events(entries):
    """[kind, id, bytes] (and the stream's number, where it is not the first) of each entry; the times too.
    a, f: an allocation and its free; S, s: a segment taken from and given back to the driver;
    M, m: a page mapped into and unmapped from an expandable segment."""
    ids, streams, out, times, n = {}, {}, [], [], 0
    kinds = {"segment_alloc": "S", "segment_free": "s", "segment_map": "M", "segment_unmap": "m"}
    for e in entries:
        act, addr, size = e["action"], e["addr"] if "addr" in e else 0, e["size"]
        st = streams.setdefault(e.get("stream", 0), len(streams))
        if act == "alloc":
            ids[addr] = n
            ev = ["a", n, size]
            n += 1
        elif act == "free_completed":
            ev = ["f", ids.pop(addr, -1), size]
        elif act in kinds:
            ev = [kinds[act], -1, size]
        else:
            continue
        if st:
            ev.append(st)
        out.append(ev)
        times.append(e.get("time_us", 0))
    return out, times


def sentinel():
    import torch
    torch.empty(SENTINEL, dtype=torch.uint8, device="cuda")


def sections(entries):
    """What each span between two sentinels allocated: a list of (temporary, kept) lists of bytes, in order."""
    out, live, order, started = [], {}, [], False
    for e in entries:
        if e["action"] == "alloc":
            if e["size"] == SENTINEL:
                if started:
                    out.append(([s for s, k in order if not k[0]], [s for s, k in order if k[0]]))
                live, order, started = {}, [], True
                continue
            cell = [True]
            live[e["addr"]] = cell
            order.append((e["size"], cell))
        elif e["action"] == "free_requested":
            cell = live.pop(e["addr"], None)
            if cell is not None:
                cell[0] = False
    return out


class Budget:
    def __init__(self, seconds):
        self.start, self.seconds = time.time(), seconds

    def left(self):
        return self.seconds - (time.time() - self.start)


def compress(path):
    """path -> path.xz; the plain file goes."""
    try:
        if subprocess.run(["xz", "-f", "-6", "-T0", path]).returncode == 0:
            return
    except OSError:  # no xz there
        pass
    with open(path, "rb") as f, lzma.open(path + ".xz", "wb") as g:
        g.write(f.read())
    os.remove(path)
