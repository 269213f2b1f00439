"""Energy and memory of the first visible GPU by NVML, without a Python package for it."""
import ctypes
import os
import time

WINDOW_S, POLL_S = 1.0, 0.02


class MemoryInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Meter:
    """Raises OSError or ValueError where there is no NVML or no such GPU."""

    def __init__(self):
        self.lib = ctypes.CDLL("libnvidia-ml.so.1")
        self.handle = ctypes.c_void_p()
        self.call("nvmlInit_v2")
        # NVML does not know what is hidden from CUDA.
        index = int(os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0])
        self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(self.handle))

    def call(self, name, *arguments):
        status = getattr(self.lib, name)(*arguments)
        if status != 0:
            raise OSError("%s returned %d" % (name, status))

    def energy_mj(self):
        """Since the driver was loaded."""
        energy = ctypes.c_ulonglong()
        self.call("nvmlDeviceGetTotalEnergyConsumption", self.handle, ctypes.byref(energy))
        return energy.value

    def used_bytes(self):
        """By all processes."""
        info = MemoryInfo()
        self.call("nvmlDeviceGetMemoryInfo", self.handle, ctypes.byref(info))
        return info.used

    def mj_per_run(self, run):
        """Millijoules a call, from one movement of the counter to another one at least a second later."""
        return energy_per_run(self.energy_mj, run, WINDOW_S, POLL_S)


def energy_per_run(read, run, window_s, poll_s):
    """As `Meter.mj_per_run`, of any counter; None if it stands still."""
    last, begin = read(), time.perf_counter()
    seen, start, runs = begin, None, 0
    while time.perf_counter() - begin < 4 * window_s:
        run()
        runs += 1
        now = time.perf_counter()
        if now - seen < poll_s:
            continue
        seen, reading = now, read()
        if reading == last:
            continue
        last = reading
        if start is None:
            start, runs = (now, reading), 0
        elif now - start[0] >= window_s:
            return (reading - start[1]) / runs
    return None


def meter():
    """The meter, or None where there is none."""
    try:
        return Meter()
    except (OSError, ValueError):
        return None
