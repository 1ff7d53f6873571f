"""NVML's performance counters (GPM), energy and clocks of card 0, through ctypes: what happened between begin() and end()."""
import ctypes
import math
import time


class Metric(ctypes.Structure):  # nvmlGpmMetric_t
    _fields_ = [("id", ctypes.c_uint), ("rc", ctypes.c_int), ("value", ctypes.c_double), ("short", ctypes.c_char_p), ("long", ctypes.c_char_p), ("unit", ctypes.c_char_p)]


class MetricsGet(ctypes.Structure):  # nvmlGpmMetricsGet_t; drivers differ in how many metrics it has room for
    _fields_ = [("version", ctypes.c_uint), ("count", ctypes.c_uint), ("a", ctypes.c_void_p), ("b", ctypes.c_void_p), ("metrics", Metric * 512)]


METRICS = {1: "gract", 2: "smact", 3: "smocc", 4: "int", 5: "tensor", 10: "drama", 12: "fp32a", 13: "fp16a", 20: "pcie_tx", 21: "pcie_rx"}


class Card:
    """Counters of card 0 between begin() and end()."""

    def __init__(self):
        self.lib = ctypes.CDLL("libnvidia-ml.so.1")
        self.dev, self.a, self.b = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self._must("nvmlInit_v2")
        self._must("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(self.dev))
        self.failed = None
        for s in (self.a, self.b):
            self._try("nvmlGpmSampleAlloc", ctypes.byref(s))

    def _must(self, name, *args):
        rc = getattr(self.lib, name)(*args)
        if rc:
            raise OSError("%s: %d" % (name, rc))

    def _try(self, name, *args):
        """Counters that do not work leave the times alone."""
        if not self.failed:
            try:
                self._must(name, *args)
            except (OSError, AttributeError) as e:
                self.failed = str(e)

    def read(self, name, kind, *args):
        """One number, or None where the driver has none."""
        v = kind()
        try:
            return v.value if getattr(self.lib, name)(self.dev, *args, ctypes.byref(v)) == 0 else None
        except AttributeError:
            return None

    def energy(self):
        return self.read("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong)  # mJ

    def text(self, name, *args):
        buf = ctypes.create_string_buffer(96)
        return buf.value.decode() if getattr(self.lib, name)(*args, buf, 96) == 0 else None

    def begin(self):
        self._try("nvmlGpmSampleGet", self.dev, self.a)
        self.e0, self.t0 = self.energy(), time.perf_counter()

    def end(self):
        e1, t1 = self.energy(), time.perf_counter()
        self._try("nvmlGpmSampleGet", self.dev, self.b)
        get = MetricsGet(version=1, count=len(METRICS), a=self.a, b=self.b)
        for i, m in enumerate(METRICS):
            get.metrics[i].id = m
        self._try("nvmlGpmMetricsGet", ctypes.byref(get))
        out = dict(gpm_error=self.failed) if self.failed else {}
        for i, name in enumerate([] if self.failed else METRICS.values()):
            m = get.metrics[i]
            if m.rc == 0 and math.isfinite(m.value):
                out[name] = round(m.value, 3)
        now = self.read("nvmlDeviceGetPowerUsage", ctypes.c_uint)  # mW
        out["power_w"] = round((e1 - self.e0) / 1e3 / (t1 - self.t0), 1) if e1 and self.e0 else now / 1e3 if now else None
        out["sm_mhz"] = self.read("nvmlDeviceGetClockInfo", ctypes.c_uint, 1)
        out["mem_mhz"] = self.read("nvmlDeviceGetClockInfo", ctypes.c_uint, 2)
        out["celsius"] = self.read("nvmlDeviceGetTemperature", ctypes.c_uint, 0)
        out["clock_reasons"] = self.read("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong)
        return out
